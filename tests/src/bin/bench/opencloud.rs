//! What OpenCloud asks for at each request, one person, from what is remembered, against a bare tonic handler that answers the same. Its search of
//! people is in `search.rs`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::hmac;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use denizen::{grpc, metrics::Called};
use denizen_tests::cs3::{
    rpc::Code,
    user::{
        Filter, FindUsersRequest, FindUsersResponse, GetUserByClaimRequest, GetUserByClaimResponse, GetUserGroupsRequest,
        GetUserGroupsResponse, GetUserRequest, GetUserResponse, User, filter,
        user_api_client::UserApiClient,
        user_api_server::{UserApi, UserApiServer},
    },
};
use serde_json::json;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    Effort,
    broker::{Broker, Person, now, two_tenants},
    calls::Calls,
    figures::{Bound, Figure, Spread, Unit, grouped},
    machine::Cores,
    review::Turns,
};

const METHOD: &str = "http://localhost/cs3.identity.user.v1beta1.UserAPI/GetUserByClaim";
/// People who are looked up, by an h2load each.
const PEOPLE: usize = 4;
/// Calls in a second at which it is seen how long one takes.
const RATE: usize = 5_000;
/// OpenCloud's shared secret.
pub(crate) const SECRET: &str = "the-benchmarks-share-this-long-secret";

/// The throughput of the look-up, and how long it takes at [`RATE`].
pub(crate) async fn measure(effort: &Effort, cores: &Cores, folder: &Path) -> Result<Vec<Figure>> {
    let (tenants, connectors) = two_tenants();
    let socket = folder.join("cs3.sock");
    let extra = json!({"cs3": {"socket": {"path": socket}, "jwtSecret": SECRET, "cache": {"seconds": 3600}}});
    let broker = Broker::start_with(folder, &tenants, &connectors, &extra).await?;
    serve(&broker).await?;
    let mut people = Vec::new();
    for person in broker.people().await?.into_iter().take(PEOPLE) {
        people.push(person.identity.id().opaque_id().to_string());
    }
    let mut client = client(&socket).await?;
    let mut users = Vec::new();
    for id in &people {
        let answer = client.get_user_by_claim(by_id(id)).await?.into_inner();
        ensure!(
            answer.status.as_ref().is_some_and(|status| status.code() == Code::Ok),
            "someone who has signed in is not found: {answer:?}"
        );
        users.push(answer.user.context("an answer has a user")?);
    }
    let bare = folder.join("bare.sock");
    serve_bare(&bare, users.first().context("someone is looked up")?.clone())?;

    let calls = Calls { cores, folder, connections: 2, streams: 8, seconds: effort.seconds };
    let files: Vec<PathBuf> =
        people.iter().enumerate().map(|(n, id)| calls.file(&format!("user-{n}"), &by_id(id))).collect::<Result<_>>()?;
    let mut turns = Turns::default();
    for round in 0..=effort.rounds {
        let floor = calls.round(&bare, METHOD, &files, None).await?.0;
        let before = found(&broker);
        let own = calls.round(&socket, METHOD, &files, None).await?.0;
        let good = found(&broker) - before;
        ensure!(good >= own.answers, "of {} look-ups only {good} found someone", own.answers);
        turns.push(round, floor, own);
    }
    let calls = Calls { streams: 1, connections: 5, ..calls };
    let (mut owns, mut floors, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let floor = calls.round(&bare, METHOD, &files, Some(RATE)).await?;
        let own = calls.round(&socket, METHOD, &files, Some(RATE)).await?;
        if round > 0 {
            floors.push(floor.1 / 1e3);
            owns.push(own.1 / 1e3);
            rates.push(own.0.rate);
        }
    }
    let detail =
        format!("at {}/s, {RATE} asked for; the bare handler {:.2} ms", grouped(Spread::new(rates).median()), Spread::new(floors).median());
    Ok(vec![
        turns.figure("GetUserByClaim, remembered", 0.6),
        Figure {
            name: "GetUserByClaim at 5,000/s, p99",
            unit: Unit::Milliseconds,
            spread: Spread::new(owns),
            bound: Bound::AtMost(2.0),
            detail,
        },
    ])
}

fn by_id(id: &str) -> GetUserByClaimRequest {
    GetUserByClaimRequest { claim: "userid".to_owned(), value: id.to_owned(), skip_fetching_user_groups: false, opaque: None }
}

fn found(broker: &Broker) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = broker.app.metrics.cs3_calls.get_or_create(&Called { method: "GetUserByClaim", outcome: "ok" }).get() as f64;
    count
}

/// Opens the door of a broker.
pub(crate) async fn serve(broker: &Broker) -> Result<()> {
    let config = broker.app.config.cs3.as_ref().context("the door is configured")?;
    let listeners = grpc::Listeners::bind(config).await?;
    // It ends with the process.
    drop(tokio::spawn(grpc::serve(Arc::clone(&broker.app), listeners, CancellationToken::new())));
    Ok(())
}

/// A client at a socket.
pub(crate) async fn client(socket: &Path) -> Result<UserApiClient<Channel>> {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
    });
    let channel = tonic::transport::Endpoint::from_static("http://localhost").connect_with_connector(connect).await?;
    Ok(UserApiClient::new(channel))
}

/// Someone's search, as OpenCloud's web sends it: with OpenCloud's own token, and without groups.
pub(crate) fn search(issuer: &str, tenant: &str, person: &Person, text: &str) -> Result<Request<FindUsersRequest>> {
    let now = now().unix_timestamp();
    let header = B64.encode(json!({"alg": "HS256", "typ": "JWT"}).to_string());
    let claims = B64.encode(
        json!({
            "iss": issuer, "aud": ["reva"], "iat": now, "exp": now + 86_400,
            "user": {"id": {"idp": issuer, "opaque_id": person.identity.id().opaque_id(), "type": 1, "tenant_id": tenant}},
            "scope": {"user": {"resource": {"decoder": "json", "value": "eyJwYXRoIjoiLyJ9"}, "role": 1}},
        })
        .to_string(),
    );
    let signed = format!("{header}.{claims}");
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
    let filters = vec![Filter { r#type: filter::Type::Query.into(), term: Some(filter::Term::Query(text.to_owned())) }];
    let mut request = Request::new(FindUsersRequest { filters, skip_fetching_user_groups: true, opaque: None });
    request.metadata_mut().insert("x-access-token", format!("{signed}.{}", B64.encode(tag)).parse()?);
    Ok(request)
}

fn serve_bare(socket: &Path, user: User) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    let incoming =
        futures_util::stream::poll_fn(move |context| listener.poll_accept(context).map(|taken| Some(taken.map(|(stream, _)| stream))));
    let served = tonic::transport::Server::builder().add_service(UserApiServer::new(Bare(user))).serve_with_incoming(incoming);
    drop(tokio::spawn(served));
    Ok(())
}

/// Answers with one user whatever it is asked.
struct Bare(User);

#[tonic::async_trait]
impl UserApi for Bare {
    async fn get_user_by_claim(&self, _: Request<GetUserByClaimRequest>) -> Result<Response<GetUserByClaimResponse>, Status> {
        let status = Some(denizen_tests::cs3::rpc::Status { code: Code::Ok.into(), ..Default::default() });
        Ok(Response::new(GetUserByClaimResponse { status, opaque: None, user: Some(self.0.clone()) }))
    }

    async fn get_user(&self, _: Request<GetUserRequest>) -> Result<Response<GetUserResponse>, Status> {
        Err(Status::unimplemented("it is not measured"))
    }

    async fn get_user_groups(&self, _: Request<GetUserGroupsRequest>) -> Result<Response<GetUserGroupsResponse>, Status> {
        Err(Status::unimplemented("it is not measured"))
    }

    async fn find_users(&self, _: Request<FindUsersRequest>) -> Result<Response<FindUsersResponse>, Status> {
        Err(Status::unimplemented("it is not measured"))
    }
}
