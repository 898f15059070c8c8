//! The soak: clients that do what people and applications do, faults at the same time, and a checker that knows what each answer promised.
//!
//! The clients use the doors that everyone uses. What is judged, and how, is in `checker.rs`, which knows nothing of the broker.

pub mod chance;
pub mod checker;
pub mod client;
pub mod door;
pub mod earlier;
pub mod embedded;
pub mod history;
pub mod people;
pub mod plant;
pub mod replicated;
pub mod restoring;
