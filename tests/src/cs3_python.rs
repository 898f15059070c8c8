//! A CS3 client on the package that CS3 publishes for Python: its stubs know nothing of ours.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Map, Value, json};

use crate::tools;

/// The client. Each call is a process of its own.
#[derive(Debug, Clone)]
pub struct Cs3Python {
    environment: PathBuf,
    target: String,
    authority: Option<String>,
}

/// How a call came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// gRPC's status: `OK`, `UNAUTHENTICATED`.
    pub grpc: String,
    /// What gRPC's status says besides.
    pub details: String,
    /// CS3's code: `CODE_OK`, `CODE_NOT_FOUND`; none where gRPC's status is not OK.
    pub code: Option<String>,
    /// The answer, with names as in the `.proto` files. What is empty is left out.
    pub answer: Value,
}

impl Cs3Python {
    /// A client of the server at this target, in gRPC's form: `unix:/run/cs3.sock`, `dns:127.0.0.1:9144`. `None` where the package is not
    /// installed: then the suite says that it did not run.
    #[must_use]
    pub fn find(target: &str) -> Option<Self> {
        Some(Self { environment: tools::cs3apis()?, target: target.to_owned(), authority: None })
    }

    /// The same over TLS, by this authority (PEM).
    #[must_use]
    pub fn trusting(mut self, authority: &str) -> Self {
        self.authority = Some(authority.to_owned());
        self
    }

    /// Makes a call of a service (`user`, `tenant`, `group`), with a token or without.
    #[must_use]
    pub fn call(&self, token: Option<&str>, service: &str, call: &str, request: &Value) -> Outcome {
        let metadata: Map<_, _> = token.map(|token| ("x-access-token".to_owned(), json!(token))).into_iter().collect();
        self.call_with(metadata, service, call, request)
    }

    /// The same with other metadata.
    ///
    /// # Panics
    /// When Python can not make the call at all.
    #[must_use]
    pub fn call_with(&self, metadata: Map<String, Value>, service: &str, call: &str, request: &Value) -> Outcome {
        let input = json!({
            "target": self.target, "service": service, "call": call, "request": request, "metadata": metadata, "authority": self.authority,
        });
        let mut process = Command::new(self.environment.join("bin/python"))
            .arg("-B")
            .arg(tools::script_path("python", "cs3_client.py"))
            .env_remove("PYTHONPATH")
            // A proxy of the machine is not for the loopback addresses.
            .env("no_grpc_proxy", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "cs3_client.py: {}", String::from_utf8_lossy(&output.stderr));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let text = |name: &str| said[name].as_str().map(str::to_owned);
        Outcome {
            grpc: text("grpc").expect("it says gRPC's status"),
            details: text("details").unwrap_or_default(),
            code: text("code"),
            answer: said["answer"].clone(),
        }
    }
}
