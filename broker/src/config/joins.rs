//! Joins: what must be so between a connector and the directory whose people its users are.

use std::collections::BTreeSet;

use claims_mapping::{OperatedBy, TenantId};
use connectors::config::Upstream;

use super::{
    ConnectorConfig, TenantList,
    load::Parts,
    places::{Places, element, join},
    tenants::unknown,
};

/// Claims that name a person and do not stay theirs (OpenID Connect Core, 5.1 and 5.7). Nothing is ever linked by e-mail.
const NO_IDS: [&str; 13] = [
    "email",
    "mail",
    "name",
    "nickname",
    "preferred_username",
    "given_name",
    "family_name",
    "phone_number",
    "upn",
    "userprincipalname",
    "unique_name",
    "username",
    "sid",
];

/// Finds the faults of `directory` and `join`, and of lists that would let someone sign in and take nothing of theirs.
pub(super) fn check(parts: &Parts, places: &mut Places) {
    let clients = parts.clients.iter().map(|(path, client)| (path, &client.connectors));
    let reviewers = parts.reviewers.iter().map(|(path, reviewer)| (path, &reviewer.connectors));
    for (path, list) in clients.chain(reviewers).filter_map(|(path, list)| Some((path, list.as_ref()?))) {
        let joined = parts.connectors.iter().filter(|(_, connector)| list.contains(&connector.id));
        for (id, directory) in joined.filter_map(|(_, connector)| Some((&connector.id, connector.directory.as_ref()?))) {
            if !list.contains(directory) {
                let here = element(&parts.root, &join(path, "connectors"), id.as_str());
                places.fault(here, "its users are the people of its `directory`, and tokens name that one: list the directory too");
            }
        }
    }
    for (path, config) in &parts.connectors {
        let given = (places.has(&join(path, "directory")), places.has(&join(path, "join")));
        match given {
            (false, false) => continue,
            (true, false) => places.fault(join(path, "directory"), "`join` says how its users are found there; give both, or neither"),
            (false, true) => places.fault(join(path, "join"), "`directory` says where its users are found; give both, or neither"),
            (true, true) => {}
        }
        if config.operated_by != OperatedBy::Operator {
            let which = if given.0 { "directory" } else { "join" };
            places.fault(join(path, which), "only a connector with `operatedBy: operator` may say that its users are another's people");
        }
        if !matches!(config.upstream, Upstream::Oidc(_)) {
            places.fault(join(path, "directory"), "its users are in a directory of its own; only an `oidc` connector is joined to another");
        }
        let own = directory(parts, path, config, places);
        if let Some(by) = &config.join {
            if by.claim.is_empty() || NO_IDS.contains(&by.claim.to_lowercase().as_str()) {
                places.fault(
                    join(path, "join.claim"),
                    "it must be a claim that never changes and is one person's only, as an id is: an address or a name changes hands",
                );
            }
            // Which attributes a directory has, it says itself.
            let fault = own.and_then(|own| own.upstream.may_join_by(&by.attribute).err());
            if let Some(fault) = fault {
                places.fault(join(path, "join.attribute"), fault);
            }
        }
    }
}

/// The directory of a connector, where it is one that can be joined.
fn directory<'p>(parts: &'p Parts, path: &str, config: &ConnectorConfig, places: &mut Places) -> Option<&'p ConnectorConfig> {
    let id = config.directory.as_ref()?;
    let here = join(path, "directory");
    if *id == config.id {
        places.fault(here, "it is the connector itself; leave it out");
        return None;
    }
    let Some((_, own)) = parts.connectors.iter().find(|(_, other)| other.id == *id) else {
        let known = parts.declared("connectors");
        // One that is there and can not be read has faults of its own.
        if !known.contains(id.as_str()) {
            places.fault(here, unknown("connector", id.as_str(), &known));
        }
        return None;
    };
    if !own.upstream.has_directory() {
        places.fault(here, "that connector has no directory");
        return None;
    }
    if own.directory.is_some() || own.join.is_some() {
        places.fault(&here, "that connector is itself joined to another");
    }
    if own.operated_by != OperatedBy::Operator {
        places.fault(&here, "only a connector with `operatedBy: operator` may be joined: its people's ids decide who signs in");
    }
    if let (Some(ours), Some(theirs)) = (yields(parts, config), yields(parts, own)) {
        if ours.is_disjoint(&theirs) {
            places.fault(&here, "no tenant of this connector's can be one of that one's, so that no one could sign in");
        } else if !ours.is_subset(&theirs) {
            places.warning(&here, "that connector may not speak for all of this one's tenants: people of the others can not sign in");
        }
    }
    Some(own)
}

/// The tenants that a connector's rule can give, as far as the file says them; `None` where it has a fault there.
fn yields(parts: &Parts, config: &ConnectorConfig) -> Option<BTreeSet<TenantId>> {
    match (&config.tenant, &config.tenants) {
        (Some(fixed), _) => Some([fixed.fixed.clone()].into()),
        (None, Some(TenantList::These(list))) => Some(list.clone()),
        (None, Some(TenantList::All(_))) if parts.create_tenants => None,
        (None, Some(TenantList::All(_))) => {
            let is_operators = parts.system_tenant.as_ref().is_some_and(|system| system.connectors.contains(&config.id));
            Some(parts.tenants.iter().map(|(_, tenant)| tenant.id.clone()).chain(is_operators.then(TenantId::system)).collect())
        }
        (None, None) => parts.default_tenant.clone().map(|id| [id].into()),
    }
}
