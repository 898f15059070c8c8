//! A tenant's own host names: whoever begins there is sent on to the issuer, and signs in to that tenant.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, header},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use claims_mapping::TenantId;

use super::authorize::see_other;
use crate::App;

/// The doors that a tenant can be named at.
const TAKE_A_TENANT: [&str; 3] = ["/oauth2/authorize", "/login", "/account"];

/// Sends browsers on from these doors. Nothing is served at a tenant's host: cookies and forms are the issuer's.
pub(crate) fn sent_on(routes: Router<Arc<App>>, app: &Arc<App>) -> Router<Arc<App>> {
    routes.layer(from_fn_with_state(Arc::clone(app), send_on))
}

async fn send_on(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().host().or_else(|| header.map(without_port));
    let Some(tenant) = host.and_then(|host| app.ways.of_host(host)) else { return next.run(request).await };
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    // An application's form becomes the same request as a link, by its own door; any other form is of a page that was not served here.
    if request.method() == Method::POST && path.starts_with("/oauth2/") {
        return next.run(request).await;
    }
    see_other(&address(&app.issuer, path, query, tenant))
}

/// The same address at the issuer; a request that names a tenant itself goes on as it is.
fn address(issuer: &str, path: &str, query: &str, tenant: &TenantId) -> String {
    let names_one = url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "tenant");
    let mut address = format!("{issuer}{path}");
    if !query.is_empty() {
        address = format!("{address}?{query}");
    }
    if TAKE_A_TENANT.contains(&path) && !names_one {
        let pair = url::form_urlencoded::Serializer::new(String::new()).append_pair("tenant", tenant.as_str()).finish();
        address = format!("{address}{}{pair}", if query.is_empty() { '?' } else { '&' });
    }
    address
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, query: &str) -> String {
        address("https://id.example", path, query, &TenantId::parse("a&b").unwrap())
    }

    #[test]
    fn the_tenant_is_added_where_it_can_be_named_and_is_not() {
        assert_eq!(at("/login", ""), "https://id.example/login?tenant=a%26b");
        assert_eq!(
            at("/oauth2/authorize", "client_id=x&state=%26"),
            "https://id.example/oauth2/authorize?client_id=x&state=%26&tenant=a%26b"
        );
        assert_eq!(at("/account", "tenant=globex"), "https://id.example/account?tenant=globex");
        assert_eq!(at("/login/corp", "attempt=1"), "https://id.example/login/corp?attempt=1");
    }

    #[test]
    fn it_leads_to_the_issuer_and_nowhere_else() {
        for path in ["//evil.example/login", "/@evil.example", "/\\evil.example", "/login/..//evil.example"] {
            let url = url::Url::parse(&at(path, "x=//evil.example")).unwrap();
            assert_eq!(url.host_str(), Some("id.example"), "{path}");
        }
    }

    #[test]
    fn a_hosts_port_is_no_part_of_its_name() {
        assert_eq!(without_port("acme.example:8443"), "acme.example");
        assert_eq!(without_port("acme.example"), "acme.example");
        assert_eq!(without_port("[::1]"), "[::1]");
    }
}
