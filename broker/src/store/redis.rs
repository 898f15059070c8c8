//! The store on Redis, which several replicas share.

mod connecting;
mod message;
mod nodes;
mod recent;
mod topology;
mod watch;

pub use connecting::ConnectError;
