//! The tenants: which there are, who is of which, who may see which.
//!
//! The way from what an upstream says to an identity leads through [`Admission`]; the way from a verified token or session
//! to what may be seen leads through [`Caller`].

mod admission;
mod caller;
mod ids;
mod joining;
mod people;
mod registry;
mod stored_user;

pub use admission::{Admission, AdmissionError, Join, Wired};
pub use caller::{Caller, InstanceLookup, NotYours};
pub use ids::{IdRecords, IdTaken, UserRecord};
pub use people::{Seen, SignedInPeople};
pub use registry::{RegistryError, Tenants};
pub(crate) use stored_user::StoredUser;
