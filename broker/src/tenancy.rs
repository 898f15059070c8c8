//! The tenants: which there are, who is of which, who may see which.
//!
//! The way from what an upstream says to an identity leads through [`Admission`]; the way from a verified token or session
//! to what may be seen leads through [`Caller`].

mod admission;
mod caller;
mod ids;
mod registry;

pub use admission::{Admission, AdmissionError, Join, Wired};
pub use caller::{Caller, NotYours};
pub use ids::{IdRecords, IdTaken, UserRecord};
pub use registry::{RegistryError, Tenants};
