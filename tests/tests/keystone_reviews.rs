//! Keystone's own tokens in reviews, with a real Keystone behind a relay: who their bearers are, what whatever Keystone answers comes
//! to, and what floods and outages are to it. What the door does at which tokens are taken back is `keystone_door`'s.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

#[path = "keystone_reviews/bearers.rs"]
mod bearers;
#[path = "keystone_reviews/floods.rs"]
mod floods;
#[path = "keystone_reviews/house.rs"]
mod house;
#[path = "keystone_reviews/log.rs"]
mod log;
#[path = "keystone_reviews/outages.rs"]
mod outages;
#[path = "keystone_reviews/stand_in.rs"]
mod stand_in;
#[path = "keystone_reviews/standing.rs"]
mod standing;
#[path = "keystone_reviews/wrong_answers.rs"]
mod wrong_answers;
