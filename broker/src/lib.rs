//! Denizen, a multi-tenant identity broker.

mod app;
pub mod branding;
pub mod breaker;
pub mod cli;
pub mod config;
pub mod cs3;
pub mod deadline;
pub mod directory;
pub mod grants;
pub mod grpc;
pub mod hearing;
pub mod http;
pub mod log;
pub mod login;
pub mod logout_notices;
pub mod metrics;
mod outage;
mod readiness;
pub mod refusals;
pub mod replicas;
pub mod review;
pub mod sealing;
pub mod seams;
pub mod secret_text;
pub mod sharing;
mod slots;
pub mod standing;
pub mod store;
pub mod tenancy;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod transfer;
pub mod vouching;

pub use app::{App, BuildError, build, build_as};

/// The issuer as it stands in tokens and metadata: without the slash that a URL of a bare host gains when it is parsed.
#[must_use]
pub fn issuer_text(issuer: &url::Url) -> String {
    issuer.as_str().trim_end_matches('/').to_owned()
}
