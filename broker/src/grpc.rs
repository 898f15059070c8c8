//! The CS3 door: gRPC on a Unix socket or an address. Each handler parses, bounds, calls one use case of `cs3.rs`, and renders.

mod call;
mod connection;
mod groups;
mod health;
mod listen;
mod metadata;
mod parse;
mod render;
mod serve;
mod socket_file;
mod status;
mod tenants;
#[cfg(test)]
mod tests;
mod users;

pub use listen::{DoorError, Listeners};
pub use serve::{ServeError, serve};
pub use socket_file::SocketError;

pub mod messages {
    //! The messages, by their packages.

    #[expect(
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated from proto/"
    )]
    mod generated {
        include!(concat!(env!("OUT_DIR"), "/messages.rs"));
    }

    pub use generated::cs3::{
        identity::{group::v1beta1 as group, tenant::v1beta1 as tenant, user::v1beta1 as user},
        rpc::v1beta1 as rpc,
        types::v1beta1 as types,
    };
}
