//! Who may share with whom: exceptions that can not be, or say nothing.

use std::collections::HashMap;

use super::{
    load::Parts,
    places::{Places, join},
    tenants::unknown,
};

/// Finds the faults of `sharing.exceptions`.
pub(super) fn check(parts: &Parts, places: &mut Places) {
    let known = parts.declared("tenants");
    let mut given = HashMap::new();
    for (index, exception) in parts.sharing.exceptions.iter().enumerate() {
        let path = format!("sharing.exceptions[{index}]");
        for (key, id) in [("from", &exception.from), ("to", &exception.to)] {
            let here = join(&path, key);
            if id.is_system() {
                places.fault(here, "operators share with no one, and no one with them; name another tenant");
            } else if !parts.create_tenants && !known.contains(id.as_str()) {
                places.fault(here, unknown("tenant", id.as_str(), &known));
            } else if parts.tenants.iter().any(|(_, tenant)| tenant.id == *id && tenant.disabled) {
                places.warning(here, "the tenant is disabled");
            }
        }
        if exception.from == exception.to {
            places.fault(join(&path, "to"), "people of one tenant may share with each other in any case; leave the exception out");
        } else if let Some(other) = given.insert((&exception.from, &exception.to), path.clone()) {
            let line = places.line_of(&other);
            places.fault(path, format!("the exception {line} says the same; leave one of them out"));
        }
    }
}
