//! What is wrong with a connector's configuration: every fault at once, each with its place, so that an operator sees all of them.

use crate::network::Networks;

/// Faults, as (path relative to the connector's entry, message).
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(String, String)>);

impl Faults {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push((path.into(), message.into()));
    }

    /// The value, or its fault at this place.
    pub(crate) fn check<T>(&mut self, path: &str, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|message| self.add(path, message)).ok()
    }

    /// The networks of `allowedNetworks`.
    pub(crate) fn networks(&mut self, texts: &[String]) -> Networks {
        Networks::parse(texts).unwrap_or_else(|wrong| {
            wrong.into_iter().for_each(|(index, message)| self.add(format!("allowedNetworks[{index}]"), message));
            Networks::default()
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_list(self) -> Vec<(String, String)> {
        self.0
    }
}
