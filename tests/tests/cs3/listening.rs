//! Where the door is, and who can tell: health, reflection, TLS, and the file of the socket from start to end.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
};

use denizen_tests::{
    Authority, Configuration, Reva,
    broker::command,
    cs3::user::{GetUserRequest, user_api_client::UserApiClient},
    folder, ports,
};
use serde_json::json;
use tonic::{Code as GrpcCode, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient, server_reflection_request::MessageRequest,
    server_reflection_response::MessageResponse,
};

use super::Door;

const SERVICES: [&str; 3] =
    ["cs3.identity.user.v1beta1.UserAPI", "cs3.identity.tenant.v1beta1.TenantAPI", "cs3.identity.group.v1beta1.GroupAPI"];

async fn listed(channel: Channel) -> Result<Vec<String>, GrpcCode> {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let asked = futures_util::stream::iter([ServerReflectionRequest { host: String::new(), message_request }]);
    let answer = ServerReflectionClient::new(channel).server_reflection_info(asked).await.map_err(|status| status.code())?;
    let Some(MessageResponse::ListServicesResponse(list)) = answer.into_inner().message().await.unwrap().unwrap().message_response else {
        panic!("no list")
    };
    Ok(list.service.into_iter().map(|service| service.name).collect())
}

#[tokio::test]
async fn health_is_told_of_the_whole_and_of_each_service_to_whoever_asks() {
    let door = Door::of_file().await;
    for reva in [door.socket().await, door.tcp().await] {
        let mut health = HealthClient::new(reva.channel());
        for service in [""].into_iter().chain(SERVICES) {
            let answer = health.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
        }
        let other = health.check(HealthCheckRequest { service: "other".to_owned() }).await.unwrap_err();
        assert_eq!(other.code(), GrpcCode::NotFound);
    }
}

#[tokio::test]
async fn reflection_is_where_it_is_configured_and_nowhere_else() {
    let door = Door::of_file().await;
    assert_eq!(listed(door.socket().await.channel()).await, Err(GrpcCode::Unimplemented));
    assert_eq!(listed(door.tcp().await.channel()).await, Err(GrpcCode::Unimplemented));
    let door = Door::open(Configuration::default(), &json!({"reflection": true})).await;
    let services = listed(door.tcp().await.channel()).await.unwrap();
    for service in SERVICES {
        assert!(services.iter().any(|name| name == service), "{service}: {services:?}");
    }
}

#[tokio::test]
async fn an_address_with_tls_is_spoken_to_with_its_authority_only() {
    let authority = Authority::new("OpenCloud's");
    let files = folder::new("cs3-tls");
    let made = authority.server(files.path(), "cs3", &["localhost"]);
    let tls = json!({"tls": {"certificateFile": made.certificate, "keyFile": made.key}});
    let door = Door::open(Configuration::default(), &tls).await;
    let jane = door.session("jane@acme").await;
    let reva = Reva::tls(door.address, authority.certificate(), "localhost").await.unwrap();
    assert_eq!(reva.search(&jane.token, "jane").await.unwrap(), ["jane@acme"]);
    assert!(Reva::tls(door.address, Authority::new("another").certificate(), "localhost").await.is_err());
    assert!(Reva::tls(door.address, authority.certificate(), "elsewhere.example").await.is_err());
    let plain = UserApiClient::new(Reva::tcp(door.address).await.channel()).get_user(GetUserRequest::default()).await;
    assert!(plain.is_err_and(|status| status.code() != GrpcCode::Unauthenticated), "nothing is said without TLS");
}

#[tokio::test]
async fn the_socket_has_its_mode_goes_at_the_end_and_comes_again_after_a_kill() {
    let mut door = Door::of_file().await;
    let path = door.path();
    let mode = fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let jane = door.session("jane@acme").await;
    assert!(door.broker.stop().await.success(), "SIGTERM ends it in order");
    assert!(!path.exists(), "the file is gone");
    assert!(Reva::socket(&path).await.is_err());

    door.broker.restart().await;
    assert_eq!(door.session("jane@acme").await.user, jane.user);
    door.broker.kill();
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket(), "kill -9 leaves it");
    assert!(Reva::socket(&path).await.is_err(), "and no one is behind it");
    door.broker.restart().await;
    assert_eq!(door.session("jane@acme").await.user, jane.user, "what an earlier run left is replaced");
    let others = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(others, 1, "nothing else is left beside it");
}

#[tokio::test]
async fn what_is_no_left_socket_is_left_alone_and_ends_the_start() {
    let door = Door::of_file().await;
    let jane = door.session("jane@acme").await;
    let folder = folder::new("cs3-second");
    let file = folder.path().join("a-file");
    fs::write(&file, "precious").unwrap();
    // One behind which someone listens, and what is no socket.
    for path in [door.path(), file.clone()] {
        let cs3 = json!({"socket": {"path": path}, "jwtSecret": super::SECRET});
        let config = folder.path().join("denizen.yaml");
        let (port, admin) = (ports::free(), ports::free());
        let text = Configuration::default().with("/cs3", cs3).text(&format!("http://127.0.0.1:{port}"), port, admin, folder.path());
        fs::write(&config, text).unwrap();
        let said = command(&["serve", "--config", config.to_str().unwrap()]);
        assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
        assert!(format!("{}{}", said.out, said.err).contains(path.to_str().unwrap()), "it says which: {said:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(door.session("jane@acme").await.user, jane.user, "the first goes on");
}
