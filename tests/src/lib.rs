//! The harness: actors that start real servers and speak to the running broker as its peers do.
//!
//! The suites in `tests/tests/` use these and nothing of the broker's inside. Each server listens on a free loopback port,
//! keeps its files in a folder of its own, and dies with the test program, however that ends.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a harness fails loudly, as tests do"
)]

pub mod answer;
pub mod apache;
pub mod application;
pub mod authority;
pub mod authorization;
pub mod broker;
pub mod browser;
pub mod chrome;
pub mod clocked_broker;
pub mod configuration;
pub mod cs3;
pub mod cs3_python;
pub mod directory_conformance;
pub mod ds389;
pub mod folder;
pub mod form;
pub mod glewlwyd;
pub mod issuer;
pub mod jwt;
pub mod keystone;
pub mod kube;
pub mod logout_receiver;
pub mod next_release;
pub mod oidc_provider;
pub mod opencloud;
pub mod ports;
pub mod process;
pub mod redis;
pub mod relay;
pub mod relying_party;
pub mod replicas;
pub mod reva;
pub mod service;
pub mod slapd;
pub mod soak;
pub mod tools;

pub use answer::Answer;
pub use application::Application;
pub use authority::Authority;
pub use authorization::Authorization;
pub use broker::Broker;
pub use browser::Browser;
pub use clocked_broker::ClockedBroker;
pub use configuration::Configuration;
pub use cs3_python::Cs3Python;
pub use ds389::DirectoryServer389;
pub use glewlwyd::Glewlwyd;
pub use issuer::Issuer;
pub use keystone::Keystone;
pub use logout_receiver::LogoutReceiver;
pub use oidc_provider::OidcProvider;
pub use opencloud::OpenCloud;
pub use redis::{Redis, RedisCluster, RedisPair};
pub use relay::Relay;
pub use relying_party::RelyingParty;
pub use replicas::Replicas;
pub use reva::{Reva, RevaToken};
pub use service::{Service, Tokens};
pub use tools::Tools;
