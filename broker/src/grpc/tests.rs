//! The door over a Unix socket and over TCP, with and without TLS, in this process; the people are a file's.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::{Tenant, TenantId, TenantScope};
use prost::Message;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_prost::ProstCodec;

use super::{
    Listeners,
    messages::{
        rpc::{Code as Cs3Code, Status as Cs3Status},
        tenant::{GetTenantRequest, GetTenantResponse},
        user::{
            Filter, FindUsersRequest, FindUsersResponse, GetUserByClaimRequest, GetUserByClaimResponse, GetUserGroupsRequest,
            GetUserGroupsResponse, GetUserRequest, GetUserResponse, User, UserId, UserType,
            filter::{Term, Type},
        },
    },
};
use crate::{
    App,
    directory::Search,
    seams::{Clock, Seams, SystemEntropy},
    store::{Store, embedded::Embedded, stand_in::stand_in},
};

const SECRET: &str = "a secret of OpenCloud's, 32 bytes.";
const GET_USER: &str = "/cs3.identity.user.v1beta1.UserAPI/GetUser";
const BY_CLAIM: &str = "/cs3.identity.user.v1beta1.UserAPI/GetUserByClaim";
const FIND: &str = "/cs3.identity.user.v1beta1.UserAPI/FindUsers";
const GROUPS: &str = "/cs3.identity.user.v1beta1.UserAPI/GetUserGroups";
const TENANT: &str = "/cs3.identity.tenant.v1beta1.TenantAPI/GetTenant";
const SERVICES: [&str; 4] =
    ["", "cs3.identity.user.v1beta1.UserAPI", "cs3.identity.tenant.v1beta1.TenantAPI", "cs3.identity.group.v1beta1.GroupAPI"];

struct Still;

impl Clock for Still {
    fn now(&self) -> OffsetDateTime {
        crate::tests::NOW
    }
}

/// A door that is open.
struct Door {
    app: Arc<App>,
    folder: tempfile::TempDir,
    address: String,
    stop: CancellationToken,
    served: JoinHandle<Result<(), super::ServeError>>,
}

impl Door {
    async fn open() -> Self {
        Self::with(json!({})).await
    }

    /// With more, or other, members of `cs3`.
    async fn with(more: Value) -> Self {
        Self::over(more, Arc::new(Embedded::in_memory().unwrap())).await
    }

    async fn over(more: Value, store: Arc<dyn Store>) -> Self {
        crate::cli::install_providers();
        let folder = tempfile::tempdir().unwrap();
        let user = |id: &str, tenant: &str, name: Option<&str>| json!({"id": format!("{id}-of-{tenant}"), "tenant": tenant, "username": id, "displayName": name, "email": format!("{id}@{tenant}.example"), "groups": ["staff"]});
        let users = [user("jane", "acme", Some("Jane Jones")), user("joe", "acme", None), user("jane", "globex", Some("Jane Joyce"))];
        let mut cs3 = json!({
            "socket": {"path": folder.path().join("cs3.sock"), "mode": "0600"}, "address": "127.0.0.1:0", "jwtSecret": SECRET,
        });
        for (name, value) in more.as_object().unwrap() {
            cs3[name] = value.clone();
        }
        let text = json!({
            "issuer": "https://id.example", "tenants": [{"id": "acme", "displayName": "Acme"}, {"id": "globex"}],
            "connectors": [{"id": "people", "type": "file", "operatedBy": "operator", "tenants": ["acme", "globex"], "users": users}],
            "cs3": cs3,
        });
        let loaded = crate::config::load_text(&text.to_string(), folder.path(), "test.yaml").unwrap_or_else(|faults| panic!("{faults}"));
        let listeners = Listeners::bind(loaded.config.cs3.as_ref().unwrap()).await.unwrap();
        let address = listeners.address().unwrap().to_string();
        let seams = Seams::alone(Arc::new(Still), Arc::new(SystemEntropy), store);
        let app = Arc::new(crate::build(loaded, seams).await.unwrap());
        let stop = CancellationToken::new();
        let served = tokio::spawn(super::serve(Arc::clone(&app), listeners, stop.clone()));
        Self { app, folder, address, stop, served }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cs3.sock")
    }

    async fn socket(&self) -> Channel {
        Endpoint::from_shared(format!("unix:{}", self.path().display())).unwrap().connect().await.unwrap()
    }

    async fn tcp(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// The opaque id of someone, who has been returned before.
    async fn id(&self, name: &str, tenant: &str) -> String {
        let tenant: Arc<Tenant> = self.app.admission.tenants.get(&TenantId::parse(tenant).unwrap()).unwrap();
        let scope = TenantScope::of_verified_caller(tenant);
        let page =
            self.app.people.search(&scope, &Search { text: name.to_owned(), limit: 10, after: None }, crate::tests::NOW).await.unwrap();
        page.people.iter().find(|person| person.username() == name).unwrap().id().opaque_id().to_string()
    }

    /// The token that OpenCloud gives someone.
    async fn token(&self, name: &str, tenant: &str) -> String {
        let id = json!({"idp": "https://id.example", "opaque_id": self.id(name, tenant).await, "type": 1, "tenant_id": tenant});
        minted(&json!({"id": id, "username": name}), "user", SECRET)
    }
}

fn minted(user: &Value, scope: &str, secret: &str) -> String {
    let part = |value: Value| B64.encode(value.to_string());
    let now = crate::tests::NOW.unix_timestamp();
    let claims = json!({
        "iss": "https://cloud.example", "aud": ["reva"], "exp": now + 86_400, "iat": now, "user": user,
        "scope": {scope: {"resource": {"decoder": "json", "value": "eyJwYXRoIjoiLyJ9"}, "role": 1}},
    });
    let signed = format!("{}.{}", part(json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
    format!("{signed}.{}", B64.encode(aws_lc_rs::hmac::sign(&key, signed.as_bytes())))
}

/// One call, with these values as its tokens.
async fn call<Q: Message + 'static, A: Message + Default + 'static>(
    channel: &Channel,
    path: &'static str,
    message: Q,
    tokens: &[&str],
) -> Result<A, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = Request::new(message);
    for token in tokens {
        request.metadata_mut().append("x-access-token", MetadataValue::try_from(token.as_bytes()).unwrap());
    }
    let path = http::uri::PathAndQuery::from_static(path);
    client.unary(request, path, ProstCodec::default()).await.map(tonic::Response::into_inner)
}

fn code(status: Option<Cs3Status>) -> Cs3Code {
    status.unwrap().code()
}

fn by_claim(claim: &str, value: &str) -> GetUserByClaimRequest {
    GetUserByClaimRequest { claim: claim.into(), value: value.into(), ..Default::default() }
}

fn find(text: &str) -> FindUsersRequest {
    FindUsersRequest { filters: vec![Filter { r#type: Type::Query.into(), term: Some(Term::Query(text.into())) }], ..Default::default() }
}

async fn found(channel: &Channel, message: FindUsersRequest, token: &str) -> Vec<User> {
    let answer: FindUsersResponse = call(channel, FIND, message, &[token]).await.unwrap();
    assert_eq!(code(answer.status), Cs3Code::Ok);
    answer.users
}

#[tokio::test]
async fn t02_without_a_token_one_person_is_looked_up_at_the_socket_and_nobody_at_the_address() {
    let door = Door::open().await;
    let id = door.id("jane", "acme").await;
    let (socket, tcp) = (door.socket().await, door.tcp().await);
    let answer: GetUserByClaimResponse = call(&socket, BY_CLAIM, by_claim("userid", &id), &[]).await.unwrap();
    assert_eq!(code(answer.status), Cs3Code::Ok);
    let user = answer.user.unwrap();
    let expected =
        UserId { idp: "https://id.example".into(), opaque_id: id.clone(), r#type: UserType::Primary.into(), tenant_id: "acme".into() };
    assert_eq!(user.id, Some(expected));
    assert_eq!((user.username.as_str(), user.display_name.as_str(), user.mail.as_str()), ("jane@acme", "Jane Jones", "jane@acme.example"));
    assert_eq!(user.groups.len(), 1);
    let told = call::<_, GetUserByClaimResponse>(&tcp, BY_CLAIM, by_claim("userid", &id), &[]).await.unwrap_err();
    assert_eq!(told.code(), Code::Unauthenticated);
    // What a search or a tenant is, no one is told without a token, by neither way.
    for channel in [&socket, &tcp] {
        assert_eq!(call::<_, FindUsersResponse>(channel, FIND, find("jane"), &[]).await.unwrap_err().code(), Code::Unauthenticated);
        let asked = GetTenantRequest { tenant_id: "acme".into() };
        assert_eq!(call::<_, GetTenantResponse>(channel, TENANT, asked, &[]).await.unwrap_err().code(), Code::Unauthenticated);
        let asked = by_claim("mail", "jane@acme.example");
        assert_eq!(call::<_, GetUserByClaimResponse>(channel, BY_CLAIM, asked, &[]).await.unwrap_err().code(), Code::Unauthenticated);
    }
}

#[tokio::test]
async fn look_ups_without_a_token_can_be_allowed_at_the_address_too() {
    let door = Door::with(json!({"tokenlessLookups": true})).await;
    let (id, tcp) = (door.id("jane", "acme").await, door.tcp().await);
    let answer: GetUserByClaimResponse = call(&tcp, BY_CLAIM, by_claim("userid", &id), &[]).await.unwrap();
    assert_eq!(code(answer.status), Cs3Code::Ok);
    assert_eq!(call::<_, FindUsersResponse>(&tcp, FIND, find("jane"), &[]).await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn t01_a_bad_token_is_refused_also_where_none_is_needed() {
    let door = Door::open().await;
    let (id, good) = (door.id("jane", "acme").await, door.token("jane", "acme").await);
    let foreign = minted(&json!({"id": {"opaque_id": id, "type": 1, "tenant_id": "globex"}}), "user", SECRET);
    let forged = minted(&json!({"id": {"opaque_id": id, "type": 1, "tenant_id": "acme"}}), "user", "some other secret of 32 bytes...");
    let empty = minted(&json!({"id": {"opaque_id": id, "type": 1}}), "user", SECRET);
    for channel in [door.socket().await, door.tcp().await] {
        let bad: [&[&str]; 7] = [&["x"], &[""], &["é"], &[&good, &good], &[&foreign], &[&forged], &[&empty]];
        for tokens in bad {
            let told = call::<_, GetUserByClaimResponse>(&channel, BY_CLAIM, by_claim("userid", &id), tokens).await.unwrap_err();
            assert_eq!(told.code(), Code::PermissionDenied, "{tokens:?}");
            assert!(!told.message().contains("tenant"), "{}", told.message());
        }
    }
}

#[tokio::test]
async fn a_search_is_of_the_callers_tenant_and_all_filters_hold() {
    let door = Door::open().await;
    let (acme, globex) = (door.token("jane", "acme").await, door.token("jane", "globex").await);
    let socket = door.socket().await;
    let names = |users: Vec<User>| users.into_iter().map(|user| user.username).collect::<Vec<_>>();
    assert_eq!(names(found(&socket, find("\"ja\""), &acme).await), ["jane@acme"]);
    assert_eq!(names(found(&socket, find("ja"), &globex).await), ["jane@globex"]);
    assert_eq!(names(found(&socket, find(""), &acme).await), ["jane@acme", "joe@acme"], "the tenant");
    let mut both = find("ja");
    both.filters.extend(find("jones").filters);
    assert_eq!(names(found(&socket, both.clone(), &acme).await), ["jane@acme"]);
    both.filters.extend(find("joe").filters);
    assert!(found(&socket, both, &acme).await.is_empty());
    let kind = |kind: UserType| Filter { r#type: Type::Usertype.into(), term: Some(Term::Usertype(kind.into())) };
    let mut guests = find("ja");
    guests.filters.push(kind(UserType::Guest));
    assert!(found(&socket, guests, &acme).await.is_empty());
    let mut without = find("joe");
    (without.skip_fetching_user_groups, without.filters) = (true, [without.filters.clone(), vec![kind(UserType::Primary)]].concat());
    let joe = found(&socket, without, &acme).await.remove(0);
    assert!(joe.groups.is_empty() && joe.display_name == "joe", "who has no name for people is shown by their username");
    let wrong = FindUsersRequest { filters: vec![Filter { r#type: 0, term: Some(Term::Query("ja".into())) }], ..Default::default() };
    let answer: FindUsersResponse = call(&socket, FIND, wrong, &[&acme]).await.unwrap();
    assert_eq!(code(answer.status), Cs3Code::InvalidArgument);
    assert!(
        door.app.metrics.text().contains(r#"denizen_cs3_calls_total{method="FindUsers",outcome="invalid"} 1"#),
        "{}",
        door.app.metrics.text()
    );
}

#[tokio::test]
async fn t02_foreign_and_absent_people_and_tenants_are_the_same_answer() {
    let door = Door::open().await;
    let (token, foreign) = (door.token("jane", "acme").await, door.id("jane", "globex").await);
    let socket = door.socket().await;
    let absent = uuid::Uuid::from_u128(1).to_string();
    let mut told = Vec::new();
    for (id, tenant) in [(&foreign, "globex"), (&foreign, ""), (&foreign, "acme"), (&absent, "acme")] {
        let user_id = UserId { opaque_id: id.clone(), tenant_id: tenant.into(), ..Default::default() };
        let asked = GetUserRequest { user_id: Some(user_id.clone()), ..Default::default() };
        let answer: GetUserResponse = call(&socket, GET_USER, asked, &[&token]).await.unwrap();
        assert!(answer.user.is_none());
        told.push(answer.status.unwrap());
        let asked = GetUserGroupsRequest { user_id: Some(user_id), ..Default::default() };
        told.push(call::<_, GetUserGroupsResponse>(&socket, GROUPS, asked, &[&token]).await.unwrap().status.unwrap());
    }
    for tenant in ["globex", "nowhere"] {
        let asked = GetTenantRequest { tenant_id: tenant.into() };
        told.push(call::<_, GetTenantResponse>(&socket, TENANT, asked, &[&token]).await.unwrap().status.unwrap());
    }
    assert_eq!(told[0].code(), Cs3Code::NotFound);
    assert!(told.iter().all(|status| *status == told[0]), "{told:?}");
    let own: GetTenantResponse = call(&socket, TENANT, GetTenantRequest { tenant_id: "acme".into() }, &[&token]).await.unwrap();
    assert_eq!(own.tenant.unwrap().name, "Acme");
}

#[tokio::test]
async fn what_there_is_not_and_what_is_too_large_is_told_by_grpc() {
    let door = Door::open().await;
    let channel = door.tcp().await;
    for path in ["/cs3.preferences.v1beta1.PreferencesAPI/GetKey", "/cs3.identity.user.v1beta1.UserAPI/DeleteUser", "/"] {
        assert_eq!(call::<_, GetUserResponse>(&channel, path, (), &[]).await.unwrap_err().code(), Code::Unimplemented, "{path}");
    }
    let large = by_claim("mail", &"a".repeat(super::serve::MOST_MESSAGE_BYTES));
    assert_eq!(call::<_, GetUserByClaimResponse>(&channel, BY_CLAIM, large, &[]).await.unwrap_err().code(), Code::OutOfRange);
    // The connection goes on.
    assert_eq!(call::<_, FindUsersResponse>(&channel, FIND, find(""), &[]).await.unwrap_err().code(), Code::Unauthenticated);
    let headers = "a".repeat(350 * 1024);
    assert_eq!(call::<_, FindUsersResponse>(&channel, FIND, find(""), &[&headers]).await.unwrap_err().code(), Code::Unknown);
    assert_eq!(call::<_, FindUsersResponse>(&channel, FIND, find(""), &[]).await.unwrap_err().code(), Code::Unauthenticated);
    let long = by_claim("mail", &"a".repeat(2_000));
    let token = door.token("jane", "acme").await;
    let answer: GetUserByClaimResponse = call(&door.tcp().await, BY_CLAIM, long, &[&token]).await.unwrap();
    assert_eq!(code(answer.status), Cs3Code::InvalidArgument);
}

#[tokio::test]
async fn t28_a_token_that_names_five_thousand_groups_is_taken_and_a_larger_one_ends_no_connection() {
    let door = Door::open().await;
    let id = json!({"idp": "https://id.example", "opaque_id": door.id("jane", "acme").await, "type": 1, "tenant_id": "acme"});
    let of = |many: u128| {
        let groups: Vec<_> = (0..many).map(|n| uuid::Uuid::from_u128(n).to_string()).collect();
        minted(&json!({"id": id, "username": "jane", "groups": groups}), "user", SECRET)
    };
    let channel = door.tcp().await;
    let answer: FindUsersResponse = call(&channel, FIND, find("jane"), &[&of(5_000)]).await.unwrap();
    assert_eq!((code(answer.status), answer.users.len()), (Cs3Code::Ok, 1));
    // What another client waits for on the same connection goes on.
    let mut health = HealthClient::new(channel.clone());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    watched.message().await.unwrap().unwrap();
    for many in [5_900, 6_500] {
        call::<_, FindUsersResponse>(&channel, FIND, find("jane"), &[&of(many)]).await.unwrap_err();
    }
    assert!(timeout(Duration::from_millis(100), watched.message()).await.is_err(), "nothing has ended");
}

#[tokio::test]
async fn reflection_is_there_where_it_is_configured_and_nowhere_else() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient, server_reflection_request::MessageRequest,
        server_reflection_response::MessageResponse,
    };
    let asked = || {
        let message_request = Some(MessageRequest::ListServices(String::new()));
        one(ServerReflectionRequest { host: String::new(), message_request })
    };
    let closed = Door::open().await;
    let told = ServerReflectionClient::new(closed.tcp().await).server_reflection_info(asked()).await.unwrap_err();
    assert_eq!(told.code(), Code::Unimplemented);
    let open = Door::with(json!({"reflection": true})).await;
    let mut answers = ServerReflectionClient::new(open.tcp().await).server_reflection_info(asked()).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(listed)) = answers.message().await.unwrap().unwrap().message_response else {
        panic!("no list")
    };
    let names: Vec<_> = listed.service.into_iter().map(|service| service.name).collect();
    for service in SERVICES.iter().skip(1).chain(&["grpc.health.v1.Health"]) {
        assert!(names.iter().any(|name| name == service), "{service}: {names:?}");
    }
}

fn one<T: Send + 'static>(value: T) -> impl futures_util::Stream<Item = T> + Send + 'static {
    futures_util::stream::once(std::future::ready(value))
}

#[tokio::test]
async fn the_end_is_told_first_and_the_socket_goes() {
    let door = Door::open().await;
    let mut health = HealthClient::new(door.socket().await);
    for service in SERVICES {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(health.check(HealthCheckRequest { service: "other".into() }).await.unwrap_err().code(), Code::NotFound);
    let mut watched = health.watch(HealthCheckRequest { service: SERVICES[1].into() }).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(fs::metadata(door.path()).unwrap().permissions().mode() & 0o777, 0o600);
    door.stop.cancel();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watched.message().await.unwrap().is_none(), "whoever watches is let go");
    let ended = timeout(Duration::from_secs(5), door.served).await;
    ended.expect("no one holds the door").unwrap().unwrap();
    assert!(!door.folder.path().join("cs3.sock").exists());
    let again = Endpoint::from_shared(format!("http://{}", door.address)).unwrap().connect().await;
    assert!(again.is_err(), "no one is taken any more");
}

#[tokio::test]
async fn a_client_that_stays_holds_the_end_for_ten_seconds_only() {
    let door = Door::open().await;
    // It speaks no HTTP/2, and says nothing.
    let silent = tokio::net::UnixStream::connect(door.path()).await.unwrap();
    HealthClient::new(door.socket().await).check(HealthCheckRequest::default()).await.unwrap();
    tokio::time::pause();
    door.stop.cancel();
    timeout(Duration::from_secs(11), door.served).await.unwrap().unwrap().unwrap();
    drop(silent);
}

#[tokio::test]
async fn tls_is_of_files_and_speaks_http_2_only() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        fs::write(folder.path().join(name), made.cert.pem()).unwrap();
    };
    write("first.pem");
    let files = json!({"certificateFile": folder.path().join("cert.pem"), "keyFile": folder.path().join("key.pem")});
    let door = Door::with(json!({"tls": files})).await;
    let connected = |authority: &str, alpn: &'static [u8]| {
        let pem = fs::read(folder.path().join(authority)).unwrap();
        let address = door.address.clone();
        async move {
            use rustls_pki_types::pem::PemObject as _;
            let mut roots = rustls::RootCertStore::empty();
            roots.add(rustls_pki_types::CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
            let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            config.alpn_protocols = vec![alpn.to_vec()];
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            tokio_rustls::TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await
        }
    };
    let stream = connected("first.pem", b"h2").await.unwrap();
    let mut stream = Some(hyper_util::rt::TokioIo::new(stream));
    let connector = tower::service_fn(move |_| std::future::ready(stream.take().ok_or_else(|| std::io::Error::other("once"))));
    let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await;
    let channel = match channel {
        Ok(channel) => channel,
        Err(error) => panic!("{error:?}"),
    };
    assert_eq!(call::<_, FindUsersResponse>(&channel, FIND, find(""), &[]).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(connected("first.pem", b"http/1.1").await.is_err());
    let plain = Endpoint::from_shared(format!("http://{}", door.address)).unwrap().connect_lazy();
    assert!(HealthClient::new(plain).check(HealthCheckRequest::default()).await.is_err(), "nothing is said without TLS");
}

#[tokio::test]
async fn health_is_what_readiness_is() {
    let store = stand_in();
    let door = Door::over(json!({}), Arc::clone(&store) as _).await;
    let mut health = HealthClient::new(door.tcp().await);
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    for (fails_now, expected) in [(true, ServingStatus::NotServing), (false, ServingStatus::Serving)] {
        store.refuses.store(fails_now, Ordering::Relaxed);
        let told = timeout(Duration::from_secs(15), watched.message()).await.expect("it looks every few seconds");
        assert_eq!(told.unwrap().unwrap().status(), expected);
    }
}

#[tokio::test]
async fn the_socket_is_given_to_a_group_and_has_its_mode() {
    let own = nix::unistd::getgid();
    let name = nix::unistd::Group::from_gid(own).unwrap().unwrap().name;
    for group in [own.to_string(), name] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cs3.sock");
        let door = Door::with(json!({"socket": {"path": path, "mode": "0660", "group": group}})).await;
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.mode() & 0o7777, found.gid()), (0o660, own.as_raw()));
        let beside: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(beside, ["cs3.sock"], "nothing else is left");
        drop(door);
    }
}
