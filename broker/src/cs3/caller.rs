//! Who asks at the CS3 door: someone with OpenCloud's token, one of its service accounts, or OpenCloud's proxy, which has none.

use uuid::Uuid;

use crate::tenancy::{Caller, InstanceLookup};

/// By which way a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The Unix socket, whose permissions say who may.
    Socket,
    /// The address.
    Address,
}

/// Who asks, and so what they may know.
#[derive(Debug, Clone)]
pub enum Cs3Caller {
    /// A user, within their tenant.
    User(Caller),
    /// Someone with a link: they may know its owner, and no one else.
    Link {
        /// The owner.
        owner: Caller,
    },
    /// A service account of OpenCloud's: one person at a time, exactly, of whatever tenant.
    Service {
        /// The account's id.
        id: Uuid,
        /// Its right.
        lookup: InstanceLookup,
    },
    /// OpenCloud's proxy, without a token: the same, and less of it.
    Tokenless(InstanceLookup),
}
