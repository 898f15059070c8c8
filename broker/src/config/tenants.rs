//! The tenants: what must be so between them, and the form that tenancy uses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use claims_mapping::{ConnectorId, OperatedBy, Tenant, TenantId, TenantLabel};

use super::{
    AllTenants, ConnectorConfig, TenantList,
    load::Parts,
    places::{Places, element, join},
    schema::{nearest, shown},
};

/// Finds the faults of `tenants`, `systemTenant`, `defaultTenant`, `createTenants`, and gives the tenants.
pub(super) fn check(parts: &Parts, places: &mut Places) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    let mut paths = Vec::new();
    for (path, config) in &parts.tenants {
        display_name(config.display_name.as_deref(), &join(path, "displayName"), places);
        tenants.push(Tenant {
            id: config.id.clone(),
            label: config.label.clone().unwrap_or_else(|| TenantLabel::derived(&config.id)),
            display_name: config.display_name.clone().unwrap_or_else(|| config.id.as_str().to_owned()),
            external_ids: config.external_ids.clone(),
            connectors: config.connectors.clone(),
            disabled: config.disabled,
        });
        paths.push(path.clone());
    }
    names(parts, &tenants, &paths, places);
    ways_in(parts, places);
    if let Some(system) = &parts.system_tenant {
        system_connectors(parts, &system.connectors, places);
        tenants.push(Tenant {
            id: TenantId::system(),
            label: system.label.clone(),
            display_name: "System".to_owned(),
            external_ids: system.external_ids.clone(),
            connectors: Some(system.connectors.clone()),
            disabled: false,
        });
        paths.push("systemTenant".to_owned());
    }
    labels(parts, &tenants, &paths, places);
    external_ids(&tenants, &paths, places);
    let known = parts.declared("connectors");
    for (tenant, path) in tenants.iter().zip(&paths) {
        for id in tenant.connectors.iter().flatten() {
            reference(parts, &join(path, "connectors"), id.as_str(), "connector", &known, places);
        }
        for id in tenant.external_ids.keys().filter(|id| !known.contains(id.as_str())) {
            places.fault(join(&join(path, "externalIds"), id.as_str()), unknown("connector", id.as_str(), &known));
        }
    }
    default_tenant(parts, &tenants, places);
    tenants
}

fn names(parts: &Parts, tenants: &[Tenant], paths: &[String], places: &mut Places) {
    let mut folded: HashMap<String, &str> = HashMap::new();
    folded.insert(TenantId::system().folded(), "systemTenant");
    for (tenant, path) in tenants.iter().zip(paths) {
        let here = join(path, "id");
        match folded.insert(tenant.id.folded(), path) {
            None => {}
            Some("systemTenant") => {
                places.fault(here, "`system`, however it is written, is the tenant of the operators; it stands under `systemTenant`");
            }
            Some(other) => {
                let same = parts.tenants.iter().any(|(path, config)| path == other && config.id == tenant.id);
                let how = if same { "has this id already" } else { "has an id that looks the same (only case or width differ)" };
                places.fault(here, format!("the tenant {} {how}", places.line_of(other)));
            }
        }
    }
}

fn labels(parts: &Parts, tenants: &[Tenant], paths: &[String], places: &mut Places) {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for (tenant, path) in tenants.iter().zip(paths) {
        let given = join(path, "label");
        let here = if places.has(&given) { given } else { join(path, "id") };
        let label = tenant.label.as_str();
        let advice = "give it another `label`";
        if parts.reserved_labels.contains(label) {
            places.fault(here, format!("its label is one of `reservedLabels`; {advice}"));
        } else if let Some(other) = taken.insert(label, path) {
            let same_id = tenants.iter().zip(paths).any(|(t, p)| p == other && t.id == tenant.id);
            if !same_id {
                places.fault(here, format!("the tenant {} has this label already; {advice}", places.line_of(other)));
            }
        }
    }
}

/// What an upstream calls a tenant must name one tenant only. A tenant without a name of its own there is called by its id.
fn external_ids(tenants: &[Tenant], paths: &[String], places: &mut Places) {
    let mut named: BTreeMap<(&ConnectorId, &str), &str> = BTreeMap::new();
    let by_id: HashMap<&str, (&Tenant, &String)> = tenants.iter().zip(paths).rev().map(|entry| (entry.0.id.as_str(), entry)).collect();
    for (tenant, path) in tenants.iter().zip(paths) {
        for (connector, external) in &tenant.external_ids {
            let here = join(&join(path, "externalIds"), connector.as_str());
            if external.is_empty() || external.chars().count() > 255 || external.chars().any(char::is_control) {
                places.fault(&here, "it must be 1 to 255 characters without control characters");
            }
            if let Some(other) = named.insert((connector, external), path) {
                places.fault(&here, format!("the tenant {} has this name at the connector already", places.line_of(other)));
            }
            let by_id = by_id.get(external.as_str()).filter(|(t, _)| !t.external_ids.contains_key(connector) && t.id != tenant.id);
            if let Some((_, other)) = by_id {
                places.fault(
                    &here,
                    format!(
                        "it is the id of the tenant {}, which has no name of its own at the connector; give that one a name too",
                        places.line_of(other)
                    ),
                );
            }
        }
    }
}

/// The domains and hosts that lead to tenants: each to one.
fn ways_in(parts: &Parts, places: &mut Places) {
    let issuer = parts.issuer.as_ref().and_then(url::Url::host_str);
    let (mut domains, mut hosts) = (HashMap::new(), HashMap::new());
    for (path, config) in &parts.tenants {
        let lists = [("emailDomains", &config.email_domains, &mut domains), ("hosts", &config.hosts, &mut hosts)];
        for (key, names, taken) in lists {
            for name in names {
                let here = element(&parts.root, &join(path, key), name);
                if !is_host_name(name) {
                    places.fault(here, "it must be a host name in lower case, without port or final dot; an international one as `xn--…`");
                } else if key == "emailDomains" && !name.contains('.') {
                    places.fault(here, "a domain without a dot would be taken for a tenant's label");
                } else if key == "hosts" && Some(name.as_str()) == issuer {
                    places.fault(here, "it is the issuer's own host, where all tenants are");
                } else if let Some(other) = taken.insert(name.as_str(), path) {
                    places.fault(here, format!("the tenant {} has it already", places.line_of(other)));
                }
            }
        }
    }
}

/// A host name (RFC 1123, 2.1), in lower case.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let ends = !label.starts_with('-') && !label.ends_with('-');
        (1..=63).contains(&label.len()) && ends && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn system_connectors(parts: &Parts, connectors: &BTreeSet<ConnectorId>, places: &mut Places) {
    if connectors.is_empty() && !places.is_faulty("systemTenant.connectors") {
        places.fault("systemTenant.connectors", "name the connectors whose users may be operators");
    }
    for id in connectors {
        let Some((_, connector)) = parts.connectors.iter().find(|(_, connector)| connector.id == *id) else { continue };
        let here = element(&parts.root, "systemTenant.connectors", id.as_str());
        if connector.operated_by != OperatedBy::Operator {
            places.fault(here, "only a connector with `operatedBy: operator` may speak for the system tenant");
        } else if !may_yield(connector, &TenantId::system()) {
            places.fault(here, "the connector's own tenant rule never gives `system`; put `system` there, or leave the connector out here");
        }
    }
}

/// Whether a connector's own rule can give the tenant.
pub(super) fn may_yield(connector: &ConnectorConfig, tenant: &TenantId) -> bool {
    match (&connector.tenant, &connector.tenants) {
        (Some(fixed), _) => fixed.fixed == *tenant,
        (None, Some(TenantList::All(AllTenants::All))) => true,
        (None, Some(TenantList::These(list))) => list.contains(tenant),
        (None, None) => false,
    }
}

fn default_tenant(parts: &Parts, tenants: &[Tenant], places: &mut Places) {
    if let Some(id) = &parts.default_tenant {
        let known = parts.declared_tenants(places);
        if id.is_system() {
            places.fault("defaultTenant", "no one becomes an operator by default; name another tenant");
        } else if !known.contains(id.as_str()) {
            places.fault("defaultTenant", unknown("tenant", id.as_str(), &known));
        } else if tenants.iter().any(|tenant| tenant.id == *id && tenant.disabled) {
            places.warning("defaultTenant", "the tenant is disabled");
        }
    }
    let all = |c: &ConnectorConfig| c.operated_by == OperatedBy::Operator && matches!(c.tenants, Some(TenantList::All(_)));
    if parts.create_tenants && !parts.connectors.iter().any(|(_, connector)| all(connector)) && !places.is_faulty("connectors") {
        places.warning("createTenants", "no connector has `operatedBy: operator` and `tenants: all`, so that none can create a tenant");
    }
}

/// A name for people.
pub(super) fn display_name(name: Option<&str>, path: &str, places: &mut Places) {
    if name.is_some_and(|name| name.trim().is_empty() || name.chars().count() > 255 || name.chars().any(char::is_control)) {
        places.fault(path, "it must be 1 to 255 characters, not all blank, without control characters");
    }
}

/// Checks one element of a list of ids.
pub(super) fn reference(parts: &Parts, list: &str, id: &str, what: &str, known: &BTreeSet<&str>, places: &mut Places) {
    if !known.contains(id) {
        places.fault(element(&parts.root, list, id), unknown(what, id, known));
    }
}

/// What to say of an id that no entry has. It shows no id but one that the wrong one was most likely meant to be.
pub(super) fn unknown(what: &str, id: &str, known: &BTreeSet<&str>) -> String {
    let meant = nearest(id, known.iter().copied()).filter(|meant| shown(meant) == *meant);
    let hint = meant.map(|meant| format!("; is it `{meant}`?")).unwrap_or_default();
    format!("no {what} has this id{hint}")
}
