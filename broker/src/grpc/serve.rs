//! The server behind the listeners: its services, its bounds, and the graceful end.

use std::{io, sync::Arc, time::Duration};

use futures_util::stream::poll_fn;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::Router};

use super::{
    connection::{self, AGE, Connection},
    groups::GroupsApi,
    health::Health,
    listen::{Listeners, Tls},
    messages::{group::group_api_server::GroupApiServer, tenant::tenant_api_server::TenantApiServer, user::user_api_server::UserApiServer},
    tenants::TenantsApi,
    users::UsersApi,
};
use crate::App;

/// The largest message that is taken, in bytes.
pub(super) const MOST_MESSAGE_BYTES: usize = 64 * 1024;
/// The largest list of headers, in bytes: a token of OpenCloud's names all of its user's groups, 52 bytes each, and 5,000 of them are no
/// attack. A list of more than a quarter above it ends the connection, which in OpenCloud's case is everyone's.
const MOST_HEADER_BYTES: u32 = 320 * 1024;
/// The most calls of a connection at a time: OpenCloud's gateway has one connection for all of its users.
const MOST_CALLS: u32 = 512;
/// How long a call may take with everything: its message, too, must have come by then.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// How often a client is asked whether it is there, and by when it must say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// How long calls under way may take after the end was asked for: as at the HTTP doors.
const GRACE: Duration = Duration::from_secs(10);
/// Connections that wait to be served.
const WAITING: usize = 64;

/// What reflection tells: the messages and services, and no one's data.
const DESCRIBED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cs3.bin"));

/// The door could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server failed.
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
    /// What reflection tells can not be read.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// Serves until `stop`. Then health says so, the socket's file goes, no one new is taken, and calls under way end.
///
/// # Errors
/// When the server fails.
pub async fn serve(app: Arc<App>, listeners: Listeners, stop: CancellationToken) -> Result<(), ServeError> {
    let health = Health::new(Arc::clone(&app)).await;
    let services = services(&app, &health)?;
    let (ready, mut connections) = mpsc::channel::<io::Result<Connection>>(WAITING);
    // They end with this function, however it ends.
    let (mut accepting, mut looking) = (JoinSet::new(), JoinSet::new());
    let mut file = None;
    if let Some((listener, its)) = listeners.socket {
        file = Some(its);
        accepting.spawn(connection::accept_at_socket(listener, ready.clone()));
    }
    if let Some((listener, tls)) = listeners.address {
        tls.clone().map(|tls| accepting.spawn(read_again_on_hangup(tls)));
        accepting.spawn(connection::accept_at_address(listener, tls, ready));
    }
    let is_ready = health.look(false).await;
    looking.spawn(health.clone().keep_looking(is_ready));
    let ending = CancellationToken::new();
    let incoming = poll_fn(move |context| connections.poll_recv(context));
    let served = services.serve_with_incoming_shutdown(incoming, ending.clone().cancelled_owned());
    let end = async {
        stop.cancelled().await;
        looking.shutdown().await;
        health.ends().await;
        drop(file);
        accepting.shutdown().await;
        ending.cancel();
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = served => Ok(served?),
        () = end => Ok(()),
    }
}

/// Every service, within the bounds.
fn services(app: &Arc<App>, health: &Health) -> Result<Router, tonic_reflection::server::Error> {
    let users = UserApiServer::new(UsersApi(Arc::clone(app))).max_decoding_message_size(MOST_MESSAGE_BYTES);
    let tenants = TenantApiServer::new(TenantsApi(Arc::clone(app))).max_decoding_message_size(MOST_MESSAGE_BYTES);
    let groups = GroupApiServer::new(GroupsApi(Arc::clone(app))).max_decoding_message_size(MOST_MESSAGE_BYTES);
    let mut server = Server::builder()
        .timeout(CALL_WITHIN)
        .max_concurrent_streams(MOST_CALLS)
        .http2_max_header_list_size(MOST_HEADER_BYTES)
        .http2_keepalive_interval(Some(PING.0))
        .http2_keepalive_timeout(Some(PING.1))
        .max_connection_age(AGE);
    let routes = server.add_service(users).add_service(tenants).add_service(groups);
    let routes = routes.add_service(health.service().max_decoding_message_size(MOST_MESSAGE_BYTES));
    if !app.config.cs3.as_ref().is_some_and(|config| config.reflection) {
        return Ok(routes);
    }
    let described = || {
        let builder = tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIBED);
        builder.register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Older clients know the second name only.
    let (v1, v1alpha) = (described().build_v1()?, described().build_v1alpha()?);
    Ok(routes
        .add_service(v1.max_decoding_message_size(MOST_MESSAGE_BYTES))
        .add_service(v1alpha.max_decoding_message_size(MOST_MESSAGE_BYTES)))
}

/// Reads the TLS files again at SIGHUP.
async fn read_again_on_hangup(tls: Tls) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    while hangup.recv().await.is_some() {
        tls.read_again();
    }
}
