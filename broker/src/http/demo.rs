//! `/demo`, in demo mode only: a small application of its own, which a newcomer walks through.

use std::sync::Arc;

use axum::{Router, http::StatusCode, response::Response, routing::get};

use super::pages::{DEMO_POLICY, Demo, DemoPerson, DemoTenant, render};
use crate::App;

/// The people whose passwords the page shows.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The tenants.
    pub tenants: Vec<WalkTenant>,
}

/// A tenant of the walk.
#[derive(Debug, Clone)]
pub struct WalkTenant {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: String,
    /// Its name.
    pub name: String,
    /// Username, password and full name of its people.
    pub people: Vec<[String; 3]>,
}

/// The demo's doors.
pub(crate) fn routes(walk: Walk) -> Router<Arc<App>> {
    let walk = Arc::new(walk);
    let show = move || {
        let walk = Arc::clone(&walk);
        async move { page(&walk) }
    };
    Router::new().route("/demo", get(show.clone())).route("/demo/callback", get(show))
}

fn page(walk: &Walk) -> Response {
    let person = |[username, password, display_name]: &[String; 3]| DemoPerson {
        username: username.clone(),
        password: password.clone(),
        display_name: display_name.clone(),
    };
    let tenant = |t: &WalkTenant| DemoTenant {
        id: t.id.clone(),
        label: t.label.clone(),
        name: t.name.clone(),
        people: t.people.iter().map(person).collect(),
    };
    render(Arc::default(), StatusCode::OK, &Demo { tenants: walk.tenants.iter().map(tenant).collect() }, DEMO_POLICY)
}
