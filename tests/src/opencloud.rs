//! The real OpenCloud, as far as it searches for people: its gateway, auth-machine and graph, built from the Go module proxy.
//!
//! OpenCloud 1.1.0 is the newest that can be had so. It is built with the CS3 messages of OpenCloud 7, on the reva that its own began
//! from; `tests/opencloud/adapt` says what was changed for that, and why. So its tokens carry a tenant and its searches are filters, and
//! it knows nothing of `OC_MULTI_TENANT_ENABLED`: that tenants stay apart is then wholly the users provider's doing.

use std::{path::PathBuf, process::Command};

use http::uri::PathAndQuery;
use tempfile::TempDir;
use tonic::{Code as GrpcCode, Status, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;
use url::Url;

use crate::{
    Answer,
    broker::install_providers,
    cs3::{
        rpc::{self, Code},
        user::User,
    },
    folder, ports,
    process::{PATIENCE, Process},
    reva::{Answered, Refusal, Session, with},
    tools,
};

/// What auth-machine takes as proof that it is OpenCloud's proxy who asks.
const MACHINE_KEY: &str = "machine-key-of-the-tests";

/// A running OpenCloud. Its files are in a folder of its own, which is gone when this is dropped.
#[derive(Debug)]
pub struct OpenCloud {
    process: Process,
    _folder: TempDir,
    gateway: u16,
    graph: u16,
}

/// The gateway's own messages, which are no users provider's.
#[derive(Clone, PartialEq, prost::Message)]
struct AuthenticateRequest {
    #[prost(string, tag = "2")]
    r#type: String,
    #[prost(string, tag = "3")]
    client_id: String,
    #[prost(string, tag = "4")]
    client_secret: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AuthenticateResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<rpc::Status>,
    #[prost(string, tag = "3")]
    token: String,
    #[prost(message, optional, tag = "4")]
    user: Option<User>,
}

impl OpenCloud {
    /// Starts one whose people and groups are those of the door at `users`: `unix:/run/denizen/cs3.sock` or `dns:127.0.0.1:9144`. Both have
    /// this secret. `None` where OpenCloud is not built: then the suite says that it did not run.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(users: &str, jwt_secret: &str) -> Option<Self> {
        Some(Self::start_program(&tools::opencloud()?, users, jwt_secret).await)
    }

    async fn start_program(program: &PathBuf, users: &str, jwt_secret: &str) -> Self {
        install_providers();
        let folder = folder::new("opencloud");
        let (gateway, graph, machine) = (ports::free(), ports::free(), ports::free());
        let mut command = Command::new(program);
        command
            .current_dir(folder.path())
            .env("OC_BASE_DATA_PATH", folder.path().join("data"))
            .env("OC_CONFIG_DIR", folder.path().join("config"))
            .env("TMPDIR", folder.path())
            // All three services are in one process.
            .env("MICRO_REGISTRY", "memory")
            .env("OC_LOG_LEVEL", "info")
            .env("OC_JWT_SECRET", jwt_secret)
            .env("OC_MACHINE_AUTH_API_KEY", MACHINE_KEY)
            .env("OC_TRANSFER_SECRET", "transfer-secret-of-the-tests")
            .env("OC_SERVICE_ACCOUNT_ID", "00000000-0000-4000-8000-00000000000a")
            .env("OC_SERVICE_ACCOUNT_SECRET", "service-account-of-the-tests")
            .env("GATEWAY_USERS_ENDPOINT", users)
            .env("GATEWAY_GROUPS_ENDPOINT", users)
            .env("GATEWAY_STORAGE_USERS_MOUNT_ID", "00000000-0000-4000-8000-00000000000b")
            .env("GATEWAY_GRPC_ADDR", format!("127.0.0.1:{gateway}"))
            .env("GATEWAY_DEBUG_ADDR", format!("127.0.0.1:{}", ports::free()))
            .env("AUTH_MACHINE_GRPC_ADDR", format!("127.0.0.1:{machine}"))
            .env("AUTH_MACHINE_DEBUG_ADDR", format!("127.0.0.1:{}", ports::free()))
            .env("GRAPH_HTTP_ADDR", format!("127.0.0.1:{graph}"))
            .env("GRAPH_DEBUG_ADDR", format!("127.0.0.1:{}", ports::free()))
            .env("GRAPH_APPLICATION_ID", "00000000-0000-4000-8000-00000000000c")
            .env("GRAPH_IDENTITY_BACKEND", "cs3")
            // No NATS: nobody is told what happens.
            .env("GRAPH_EVENTS_ENDPOINT", "")
            .env("OC_EVENTS_ENDPOINT", "");
        let mut process = Process::start(&mut command, &folder.path().join("opencloud.log"));
        for port in [gateway, machine, graph] {
            process.wait_for_port(port).await;
        }
        Self { process, _folder: folder, gateway, graph }
    }

    /// What OpenCloud's proxy does with someone whose access token it has checked: it has the gateway authenticate them by a claim
    /// (`userid`, `username`, `mail`), which asks the users provider, and gives a token for what that answers.
    ///
    /// # Errors
    /// What the gateway refused it with, in CS3's status: whom the users provider does not know is `NotFound`, gRPC's `Unauthenticated` of
    /// the users provider is `Unauthenticated`, and where there is none it is `Internal`.
    pub async fn sign_in_by(&self, claim: &str, value: &str) -> Answered<Session> {
        let request = AuthenticateRequest {
            r#type: "machine".to_owned(),
            client_id: format!("{claim}:{value}"),
            client_secret: MACHINE_KEY.to_owned(),
        };
        let answer: AuthenticateResponse = self.call(None, "Authenticate", request).await.map_err(Refusal::Grpc)?;
        let status = answer.status.expect("every CS3 answer has a status");
        match status.code() {
            Code::Ok => Ok(Session { token: answer.token, user: answer.user.expect("someone who has signed in is someone") }),
            code => Err(Refusal::Cs3(code, status.message)),
        }
    }

    /// The same by the id, which is the `sub` of the access token.
    ///
    /// # Errors
    /// As [`Self::sign_in_by`].
    pub async fn sign_in(&self, id: &str) -> Answered<Session> {
        self.sign_in_by("userid", id).await
    }

    /// A call of the gateway's own service, which hands most on to the provider of that name: `GetUser`, `GetUserByClaim`, `FindUsers`.
    ///
    /// # Errors
    /// gRPC's status.
    ///
    /// # Panics
    /// When there is no gateway.
    pub async fn call<Q, A>(&self, token: Option<&str>, name: &str, request: Q) -> Result<A, Status>
    where
        Q: prost::Message + Send + 'static,
        A: prost::Message + Default + Send + 'static,
    {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", self.gateway)).unwrap().timeout(PATIENCE);
        let mut client = Grpc::new(endpoint.connect().await.expect("the gateway listens"));
        client.ready().await.map_err(|error| Status::new(GrpcCode::Unavailable, error.to_string()))?;
        let path = PathAndQuery::try_from(format!("/cs3.gateway.v1beta1.GatewayAPI/{name}")).unwrap();
        Ok(client.unary(with(token, request), path, ProstCodec::<Q, A>::default()).await?.into_inner())
    }

    /// What the web's dialog for sharing asks graph for: a search in quotes.
    pub async fn search(&self, token: &str, text: &str) -> Answer {
        let mut address = self.address("/graph/v1.0/users");
        address.query_pairs_mut().append_pair("$search", &format!("\"{text}\""));
        self.get(token, address).await
    }

    /// The ids of the people whom a search at graph finds, in its order.
    ///
    /// # Panics
    /// When graph refuses.
    pub async fn found(&self, token: &str, text: &str) -> Vec<String> {
        let answer = self.search(token, text).await.expect(200).json();
        let people = answer["value"].as_array().expect("a list of people");
        people.iter().map(|person| person["id"].as_str().expect("a person has an id").to_owned()).collect()
    }

    /// One person at graph, by their id or name.
    pub async fn person(&self, token: &str, id: &str) -> Answer {
        self.get(token, self.address(&format!("/graph/v1.0/users/{id}"))).await
    }

    /// A search for groups at graph.
    pub async fn groups(&self, token: &str, text: &str) -> Answer {
        let mut address = self.address("/graph/v1.0/groups");
        address.query_pairs_mut().append_pair("$search", &format!("\"{text}\""));
        self.get(token, address).await
    }

    /// One group at graph, by its id.
    pub async fn group(&self, token: &str, id: &str) -> Answer {
        self.get(token, self.address(&format!("/graph/v1.0/groups/{id}"))).await
    }

    fn address(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.graph)).unwrap()
    }

    async fn get(&self, token: &str, address: Url) -> Answer {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let answer = client.get(address).header("x-access-token", token).send().await.expect("graph answers");
        Answer::read(answer).await.unwrap()
    }

    /// What it wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }
}
