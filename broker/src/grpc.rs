//! The CS3 door: gRPC on a Unix socket or an address. Each handler parses, bounds, calls one use case of `cs3.rs`, and renders.

pub mod messages {
    //! The messages, by their packages.

    #[expect(missing_docs, unreachable_pub, unused_qualifications, clippy::all, reason = "generated from proto/")]
    mod generated {
        include!(concat!(env!("OUT_DIR"), "/messages.rs"));
    }

    pub use generated::cs3::{
        identity::{group::v1beta1 as group, tenant::v1beta1 as tenant, user::v1beta1 as user},
        rpc::v1beta1 as rpc,
        types::v1beta1 as types,
    };
}
