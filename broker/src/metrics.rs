//! What is counted, for Prometheus. Labels are bounded: outcomes and connectors, never tenants or people.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

/// Of one door: which one, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Door {
    /// The route, as in the route table.
    pub route: String,
    /// The HTTP status.
    pub status: u16,
}

/// Of one call at the CS3 door: which method, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Called {
    /// `GetUserByClaim`.
    pub method: &'static str,
    /// `ok`, `not_found`, `refused`, `invalid`, `unavailable`.
    pub outcome: &'static str,
}

/// How something ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Ended {
    /// `ok`, `refused`, `slowed`, `unavailable`, and what else a family names.
    pub outcome: &'static str,
}

/// What is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests, by route and status.
    pub requests: Family<Door, Counter>,
    /// Seconds that a request took.
    pub seconds: Histogram,
    /// Sign-ins.
    pub sign_ins: Family<Ended, Counter>,
    /// Tokens granted or refused.
    pub grants: Family<Ended, Counter>,
    /// Token reviews.
    pub reviews: Family<Ended, Counter>,
    /// User searches.
    pub searches: Family<Ended, Counter>,
    /// Look-ups of one person for OpenCloud: `remembered`, `asked`, `stale` (the directory does not answer, and what it said earlier is
    /// given), `unavailable`.
    pub lookups: Family<Ended, Counter>,
    /// Calls at the CS3 door.
    pub cs3_calls: Family<Called, Counter>,
    /// Seconds that such a call took.
    pub cs3_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("denizen");
        let requests = Family::default();
        let seconds = Histogram::new([0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0]);
        let (sign_ins, grants, reviews, searches) = (Family::default(), Family::default(), Family::default(), Family::default());
        let cs3_calls = Family::default();
        let cs3_seconds = Histogram::new([0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0]);
        registry.register("http_requests", "HTTP requests by route and status", requests.clone());
        registry.register("http_request_seconds", "Seconds that an HTTP request took", seconds.clone());
        registry.register("sign_ins", "Sign-ins by outcome", Clone::clone(&sign_ins));
        registry.register("token_grants", "Answers of the token endpoint by outcome", Clone::clone(&grants));
        registry.register("token_reviews", "Token reviews by outcome", Clone::clone(&reviews));
        registry.register("user_searches", "User searches by outcome", Clone::clone(&searches));
        let lookups = Family::default();
        registry.register("user_lookups", "Look-ups of one person for OpenCloud by outcome", Clone::clone(&lookups));
        registry.register("cs3_calls", "Calls at the CS3 door by method and outcome", Clone::clone(&cs3_calls));
        registry.register("cs3_call_seconds", "Seconds that a call at the CS3 door took", cs3_seconds.clone());
        Self { registry, requests, seconds, sign_ins, grants, reviews, searches, lookups, cs3_calls, cs3_seconds }
    }
}

impl Metrics {
    /// Counts one end.
    pub fn ended(family: &Family<Ended, Counter>, outcome: &'static str) {
        family.get_or_create(&Ended { outcome }).inc();
    }

    /// The text that Prometheus reads (OpenMetrics).
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(_) => String::new(),
        }
    }
}
