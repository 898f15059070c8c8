//! A Keystone on this machine, for unit tests: it answers what it is told to, and remembers what it was asked.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use claims_mapping::{ConnectorId, Mapping, MappingConfig};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

use super::KeystoneConfig;
use crate::{Connector, config::Context};

pub(super) const PASSWORD: &str = "the service's own password";

/// A request.
#[derive(Clone)]
pub(super) struct Asked {
    /// Method, a blank, path and query.
    pub(super) line: String,
    head: String,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        self.head.lines().find(is_it).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }

    pub(super) fn is_login(&self) -> bool {
        self.line.starts_with("POST ")
    }

    /// Whether the login is the service account's.
    pub(super) fn is_service(&self) -> bool {
        self.is_login() && self.body.contains(PASSWORD)
    }
}

/// Status, token in the header, body. Status 0 is silence.
pub(super) type Answer = (u16, Option<String>, String);

type Answers = Arc<Mutex<Box<dyn FnMut(&Asked) -> Answer + Send>>>;

pub(super) struct StandIn {
    pub(super) url: String,
    logins: Option<Arc<AtomicU32>>,
    answers: Answers,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl StandIn {
    /// One that takes the service account's login, gives it tokens `service-1`, `service-2`…, and answers the rest as it is told.
    pub(super) async fn start(rest: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        let logins = Arc::<AtomicU32>::default();
        let stand_in = Self::start_whole(with_logins(&logins, rest)).await;
        Self { logins: Some(logins), ..stand_in }
    }

    /// One that answers everything as it is told.
    pub(super) async fn start_whole(answers: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/v3", listener.local_addr().unwrap().port());
        let answers: Answers = Arc::new(Mutex::new(Box::new(answers)));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (served, remembered) = (Arc::clone(&answers), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served), Arc::clone(&remembered)));
            }
        });
        Self { url, logins: None, answers, asked }
    }

    /// What it answers from now on; to the service account's logins as it did.
    pub(super) fn answer(&self, answers: impl FnMut(&Asked) -> Answer + Send + 'static) {
        *self.answers.lock().unwrap() = match &self.logins {
            Some(logins) => Box::new(with_logins(logins, answers)),
            None => Box::new(answers),
        };
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(super) fn logins(&self) -> usize {
        self.asked().iter().filter(|asked| asked.is_service()).count()
    }

    /// What was asked besides the service account's logins.
    pub(super) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().filter(|asked| !asked.is_service()).map(|asked| asked.line).collect()
    }

    /// A connector's configuration for it, without directory and groups, with these members besides.
    pub(super) fn config(&self, more: Value) -> KeystoneConfig {
        let mut config = json!({
            "url": self.url, "allowedNetworks": ["127.0.0.1"], "userDirectory": false, "acceptTokens": true,
            "serviceAccount": {"name": "denizen", "domain": {"id": "default"}, "password": PASSWORD, "scope": {"system": "all"}},
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    pub(super) fn connector(&self, more: Value) -> Connector {
        build(&self.config(more), &super::default_mapping(), false).unwrap()
    }
}

fn with_logins(
    logins: &Arc<AtomicU32>,
    mut rest: impl FnMut(&Asked) -> Answer + Send + 'static,
) -> impl FnMut(&Asked) -> Answer + Send + 'static {
    let logins = Arc::clone(logins);
    move |asked| match asked.is_service() {
        true => issued(&format!("service-{}", logins.fetch_add(1, Ordering::SeqCst) + 1), &token(json!({}))),
        false => rest(asked),
    }
}

pub(super) fn build(config: &KeystoneConfig, mapping: &MappingConfig, fixed_tenant: bool) -> Result<Connector, Vec<(String, String)>> {
    let mapping = Mapping::compile(mapping).unwrap();
    let (id, issuer) = (ConnectorId::parse("cloud").unwrap(), Url::parse("https://denizen.example").unwrap());
    super::build(config, Context { id: &id, mapping: &mapping, fixed_tenant, issuer: Some(&issuer) })
}

pub(super) fn plain(status: u16, body: impl ToString) -> Answer {
    (status, None, body.to_string())
}

/// An error as Keystone writes it.
pub(super) fn error(status: u16, message: impl ToString) -> Answer {
    plain(status, json!({"error": {"code": status, "message": message.to_string(), "title": "an error"}}))
}

pub(super) fn issued(token: &str, body: &Value) -> Answer {
    (201, Some(token.to_owned()), json!({ "token": body }).to_string())
}

/// What an unscoped token of Alice's says, with these members besides.
pub(super) fn token(more: Value) -> Value {
    let mut token = json!({
        "methods": ["password"], "audit_ids": ["a"], "issued_at": "2027-01-15T08:00:00.000000Z", "expires_at": "2027-01-15T09:00:00.000000Z",
        "user": {"id": "u1", "name": "alice", "domain": {"id": "d1", "name": "acme"}, "password_expires_at": null},
    });
    token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    token
}

async fn serve(mut stream: TcpStream, answers: Answers, asked: Arc<Mutex<Vec<Asked>>>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    let text = String::from_utf8(request).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut rest = vec![0; length.unwrap_or(0_usize).saturating_sub(body.len())];
    if stream.read_exact(&mut rest).await.is_err() {
        return;
    }
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let question = Asked { line, head: head.to_owned(), body: format!("{body}{}", String::from_utf8(rest).unwrap()) };
    asked.lock().unwrap().push(question.clone());
    let (status, token, body) = (answers.lock().unwrap())(&question);
    if status == 0 {
        return std::future::pending().await;
    }
    let token = token.map(|token| format!("X-Subject-Token: {token}\r\n")).unwrap_or_default();
    let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{token}Content-Length: {}\r\n\r\n", body.len());
    // Whoever asked may be gone.
    let _ = stream.write_all((head + &body).as_bytes()).await;
}
