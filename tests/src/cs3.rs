//! The CS3 messages and clients of the suites.

#[expect(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

pub use generated::cs3::{
    identity::{group::v1beta1 as group, tenant::v1beta1 as tenant, user::v1beta1 as user},
    rpc::v1beta1 as rpc,
    types::v1beta1 as types,
};
