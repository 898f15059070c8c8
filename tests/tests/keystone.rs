//! Keystone as the broker meets it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "keystone/server.rs"]
mod server;
