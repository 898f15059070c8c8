//! Whose groups the CS3 door can not ask for, though their connector could tell.

use std::collections::BTreeMap;

use claims_mapping::ConnectorId;

use super::{LoadedConnector, load::Parts, places::Places};
use crate::cs3::group_prefix_of;

/// Tells of connectors whose mapping makes something else of groups than what they are called.
pub(super) fn check(parts: &Parts, connectors: &[LoadedConnector], places: &mut Places) {
    if parts.cs3.is_none() {
        return;
    }
    let paths: BTreeMap<&ConnectorId, &str> = parts.connectors.iter().map(|(path, config)| (&config.id, path.as_str())).collect();
    for loaded in connectors.iter().filter(|loaded| loaded.connector.groups.is_some() && group_prefix_of(&loaded.mapping).is_none()) {
        places.warning(
            super::places::join(paths.get(&loaded.config.id).copied().unwrap_or_default(), "claimMappings.groups"),
            "with `cs3`: groups of this connector are known by the people who are in them only, and are found by no search; they are where `groups` is `{ claim: groups }`, with a `prefix` or without one",
        );
    }
}
