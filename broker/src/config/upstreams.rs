//! The connectors: what must be so within and between them, and the form that tenancy uses.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

use claims_mapping::{
    ClaimOrExpression, ConnectorId, ConnectorPolicy, IdScheme, Mapping, MappingConfig, MappingFault, OperatedBy, TenantId, TenantRule,
};
use connectors::config::{Context, Upstream};
use serde_json::Value;

use super::{
    ConnectorConfig, TenantList, joins, keystone,
    load::{LoadedConnector, Parts, without},
    places::{Places, at, element, join},
    tenants::{display_name, reference, unknown},
    upstream_tokens::issuers,
};

/// Finds the faults of `connectors`, and gives those that have none.
pub(super) fn check(parts: &Parts, places: &mut Places) -> Vec<LoadedConnector> {
    let mut loaded = Vec::new();
    let mut ids: HashMap<&str, &str> = HashMap::new();
    let tenants = Tenants::of(parts, places);
    let mut mappings = HashMap::new();
    for (path, config) in &parts.connectors {
        if let Some(other) = ids.insert(config.id.as_str(), path) {
            places.fault(join(path, "id"), format!("the connector {} has this id already", places.line_of(other)));
        }
        display_name(config.display_name.as_deref(), &join(path, "displayName"), places);
        trust(parts, path, config, places);
        keystone::check(parts, path, config, places);
        let rule = tenant_rule(parts, &tenants, path, config, places);
        if let (Some(entry), Some(issuer)) = (build(parts, path, config, rule.as_ref(), &mut mappings, places), &parts.issuer)
            && let Some(tenant_rule) = rule
        {
            let policy = ConnectorPolicy {
                connector: config.id.clone(),
                issuer: issuer.clone(),
                operated_by: config.operated_by,
                tenant_rule,
                ids: config.ids,
                roles: config.roles.clone(),
            };
            let (mapping, connector) = entry;
            loaded.push(LoadedConnector { config: config.clone(), policy, mapping, connector });
        }
    }
    joins::check(parts, places);
    shared_upstreams(parts, places);
    loaded
}

/// What only an operator's connector may have.
fn trust(parts: &Parts, path: &str, config: &ConnectorConfig, places: &mut Places) {
    for role in config.roles.iter().filter(|role| role.trim().is_empty() || role.chars().any(char::is_control) || role.contains(':')) {
        places.fault(element(&parts.root, &join(path, "roles"), role), "a role is not blank, and has no `:` and no control characters");
    }
    if config.operated_by == OperatedBy::Operator {
        return;
    }
    let only = "only a connector with `operatedBy: operator` may";
    if config.ids == IdScheme::Verbatim {
        places.fault(join(path, "ids"), format!("{only} keep its upstream's ids; leave it out"));
    }
    if matches!(config.tenants, Some(TenantList::All(_))) {
        places.fault(join(path, "tenants"), format!("{only} speak for all tenants; list them"));
    }
    let system = TenantId::system();
    if config.tenant.as_ref().is_some_and(|tenant| tenant.fixed == system) {
        places.fault(join(path, "tenant.fixed"), format!("{only} give the system tenant"));
    }
    if matches!(&config.tenants, Some(TenantList::These(list)) if list.contains(&system)) {
        places.fault(element(&parts.root, &join(path, "tenants"), "system"), format!("{only} give the system tenant"));
    }
    if !config.roles.is_empty() {
        places.warning(join(path, "roles"), "the tenant that operates the connector decides who of its users has these roles");
    }
}

/// The tenants, as connectors refer to them.
struct Tenants<'p> {
    known: BTreeSet<&'p str>,
    /// Those with a list of connectors of their own, by their ids: where each stands, and the list.
    closed: HashMap<&'p str, Vec<(&'p str, &'p BTreeSet<ConnectorId>)>>,
}

impl<'p> Tenants<'p> {
    fn of(parts: &'p Parts, places: &Places) -> Self {
        let mut closed: HashMap<_, Vec<_>> = HashMap::new();
        for (path, tenant) in &parts.tenants {
            if let Some(connectors) = &tenant.connectors {
                closed.entry(tenant.id.as_str()).or_default().push((path.as_str(), connectors));
            }
        }
        Self { known: parts.declared_tenants(places), closed }
    }
}

/// Exactly one of a fixed tenant, a mapping with its allow-list, and the default tenant.
fn tenant_rule(
    parts: &Parts,
    Tenants { known, closed }: &Tenants<'_>,
    path: &str,
    config: &ConnectorConfig,
    places: &mut Places,
) -> Option<TenantRule> {
    let is_mapped = is_given(&config.mapping.claim_mappings.tenant);
    let mapping = join(path, "claimMappings.tenant");
    match (&config.tenant, &config.tenants) {
        (Some(_), Some(_)) => {
            places.fault(join(path, "tenants"), "give either `tenant` (all users are of one tenant) or `tenants` (the mapping says which)");
            None
        }
        (Some(_), None) if is_mapped => {
            places.fault(mapping, "all users are of the tenant that `tenant.fixed` names; leave one of the two out");
            None
        }
        (Some(tenant), None) => {
            if !known.contains(tenant.fixed.as_str()) {
                places.fault(join(path, "tenant.fixed"), unknown("tenant", tenant.fixed.as_str(), known));
            }
            let lists = closed.get(tenant.fixed.as_str()).into_iter().flatten();
            if let Some((other, _)) = lists.copied().find(|(_, connectors)| !connectors.contains(&config.id)) {
                let other = places.line_of(&join(other, "connectors"));
                places.fault(join(path, "tenant.fixed"), format!("the tenant's own list of connectors, {other}, does not have this one"));
            }
            Some(TenantRule::Fixed(tenant.fixed.clone()))
        }
        (None, Some(list)) => {
            if !is_mapped && !is_given(&config.upstream.default_mapping().claim_mappings.tenant) {
                places.fault(
                    join(path, "tenants"),
                    "`tenants` allows what `claimMappings.tenant` gives; say there where the tenant is read from",
                );
            }
            Some(TenantRule::Mapped(match list {
                TenantList::All(_) => None,
                TenantList::These(list) => {
                    if list.is_empty() {
                        places.fault(join(path, "tenants"), "name at least one tenant, or `all`");
                    }
                    list.iter().for_each(|id| reference(parts, &join(path, "tenants"), id.as_str(), "tenant", known, places));
                    Some(list.clone())
                }
            }))
        }
        // What the file says there is faulty, and has its fault.
        (None, None) if places.has(&join(path, "tenants")) || places.has(&join(path, "tenant")) => None,
        (None, None) if is_mapped => {
            places.fault(mapping, "a tenant that is read from the user needs the allow-list `tenants`: a list of tenants, or `all`");
            None
        }
        (None, None) => {
            if parts.default_tenant.is_none() && !places.has("defaultTenant") {
                places.fault(path, "no tenant: give `tenant: { fixed: … }`, or `tenants` with `claimMappings.tenant`, or `defaultTenant` for all such connectors");
            }
            parts.default_tenant.clone().map(TenantRule::Default)
        }
    }
}

type Built = (Arc<Mapping>, connectors::Connector);

/// The mappings that are compiled, by how they are written: a thousand connectors with the same one share it.
type Mappings = HashMap<String, Arc<Mapping>>;

fn build(
    parts: &Parts,
    path: &str,
    config: &ConnectorConfig,
    rule: Option<&TenantRule>,
    mappings: &mut Mappings,
    places: &mut Places,
) -> Option<Built> {
    let is_mapped = config.tenants.is_some() || is_given(&config.mapping.claim_mappings.tenant);
    let quiet = |message: &str| without(message, quotable(at(&parts.root, path)).iter().map(String::as_str));
    let written = merged(&config.mapping, config.upstream.default_mapping(), is_mapped);
    let mapping = match compiled(&written, config.join.as_ref().map(|join| join.claim.as_str()), mappings) {
        Ok(mapping) => mapping,
        Err(faults) => {
            if faults.is_empty() {
                places.fault(path, "the mapping can not be used");
            }
            faults.into_iter().for_each(|fault| places.fault(join(path, &fault.path), quiet(&fault.message)));
            return None;
        }
    };
    let fixed_tenant = match rule {
        Some(rule) => !matches!(rule, TenantRule::Mapped(_)),
        None => !is_mapped,
    };
    match config.upstream.build(Context { id: &config.id, mapping: &mapping, fixed_tenant, issuer: parts.issuer.as_ref() }) {
        Ok(connector) => Some((mapping, connector)),
        Err(faults) => {
            if faults.is_empty() {
                places.fault(path, "the connector can not be used");
            }
            // Without a tenant rule, what a connector says of tenants is about a guess.
            for (below, message) in faults.into_iter().filter(|(below, _)| rule.is_some() || !below.to_lowercase().contains("tenant")) {
                let below = if below.is_empty() { path.to_owned() } else { join(path, &below) };
                places.fault(below, quiet(&message));
            }
            None
        }
    }
}

fn compiled(config: &MappingConfig, beside: Option<&str>, mappings: &mut Mappings) -> Result<Arc<Mapping>, Vec<MappingFault>> {
    // What can not be written can not be compared, and is compiled each time.
    let written = serde_json::to_string(&(config, beside)).ok();
    if let Some(mapping) = written.as_ref().and_then(|written| mappings.get(written)) {
        return Ok(Arc::clone(mapping));
    }
    let mapping = Mapping::compile(config)?;
    let mapping = Arc::new(beside.into_iter().fold(mapping, Mapping::with_claim));
    if let Some(written) = written {
        mappings.insert(written, Arc::clone(&mapping));
    }
    Ok(mapping)
}

/// The texts of an entry that a message made elsewhere might quote: all but its ids and choices, words too short to be told
/// from others, and the name of a file that there is.
fn quotable(entry: Option<&Value>) -> Vec<String> {
    fn gather(value: &Value, texts: &mut Vec<String>) {
        match value {
            Value::String(text) if text.len() >= 8 && !Path::new(text).exists() => texts.push(text.clone()),
            Value::Array(list) => list.iter().for_each(|value| gather(value, texts)),
            Value::Object(object) => object.values().for_each(|value| gather(value, texts)),
            _ => {}
        }
    }
    let mut texts = Vec::new();
    for (key, value) in entry.and_then(Value::as_object).into_iter().flatten() {
        if !["id", "type", "operatedBy", "ids", "tenant", "tenants"].contains(&key.as_str()) {
            gather(value, &mut texts);
        }
    }
    texts
}

/// The mapping with the type's own for each part that the entry does not give. A tenant is read from the user only where
/// the entry wants it so.
fn merged(own: &MappingConfig, default: MappingConfig, is_mapped: bool) -> MappingConfig {
    let mut mapping = own.clone();
    let parts = &mut mapping.claim_mappings;
    let default_parts = default.claim_mappings;
    for (part, default) in [(&mut parts.username, default_parts.username), (&mut parts.groups, default_parts.groups)] {
        if part.claim.is_empty() && part.expression.is_empty() && part.prefix.is_none() {
            *part = default;
        }
    }
    let tenant = if is_mapped { default_parts.tenant } else { ClaimOrExpression::default() };
    for (part, default) in [
        (&mut parts.uid, default_parts.uid),
        (&mut parts.tenant, tenant),
        (&mut parts.roles, default_parts.roles),
        (&mut parts.display_name, default_parts.display_name),
        (&mut parts.email, default_parts.email),
        (&mut parts.email_verified, default_parts.email_verified),
        (&mut parts.uid_number, default_parts.uid_number),
        (&mut parts.gid_number, default_parts.gid_number),
    ] {
        if !is_given(part) {
            *part = default;
        }
    }
    if parts.extra.is_empty() {
        parts.extra = default_parts.extra;
    }
    if mapping.claim_validation_rules.is_empty() {
        mapping.claim_validation_rules = default.claim_validation_rules;
    }
    if mapping.user_validation_rules.is_empty() {
        mapping.user_validation_rules = default.user_validation_rules;
    }
    mapping
}

fn is_given(part: &ClaimOrExpression) -> bool {
    !part.claim.is_empty() || !part.expression.is_empty()
}

/// Two connectors on one upstream would let one person in as two, in two tenants, unless something tells their users apart.
fn shared_upstreams(parts: &Parts, places: &mut Places) {
    let mut at: HashMap<String, Vec<&(String, ConnectorConfig)>> = HashMap::new();
    for entry in parts.connectors.iter().filter(|(_, config)| !config.disabled) {
        let (path, config) = entry;
        let own = addresses(&config.upstream);
        let before = own.iter().filter_map(|address| at.get(address)).flatten();
        if let Some((other, _)) = before.copied().find(|(_, other)| !are_apart(config, other)) {
            let message = format!(
                "it has the same upstream as the connector {}, and no rule tells their users apart: give each `tenants` of its own with a tenant that is read from the user, or `claimValidationRules`, or another base, filter or `domainId`",
                places.line_of(other)
            );
            places.fault(path, message);
        }
        own.into_iter().for_each(|address| at.entry(address).or_default().push(entry));
    }
}

/// Where an upstream is: its file, its servers, or each issuer that it may be.
fn addresses(upstream: &Upstream) -> BTreeSet<String> {
    let all: Vec<String> = match upstream {
        Upstream::File(file) => file.path.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        Upstream::Ldap(ldap) => ldap.url.iter().chain(&ldap.urls).cloned().collect(),
        Upstream::Oidc(oidc) => issuers(oidc),
        Upstream::Keystone(keystone) => keystone.url.iter().chain(keystone.endpoints.values()).cloned().collect(),
    };
    all.iter().map(|text| text.trim_end_matches('/').to_owned()).collect()
}

fn are_apart(a: &ConnectorConfig, b: &ConnectorConfig) -> bool {
    if let (Some(TenantList::These(a)), Some(TenantList::These(b))) = (&a.tenants, &b.tenants)
        && a.is_disjoint(b)
    {
        return true;
    }
    // The same user is of one domain only.
    if let (Upstream::Keystone(a), Upstream::Keystone(b)) = (&a.upstream, &b.upstream)
        && a.domain_id.as_ref().zip(b.domain_id.as_ref()).is_some_and(|(a, b)| a != b)
    {
        return true;
    }
    let rules =
        |config: &ConnectorConfig| serde_json::to_value((&config.mapping.claim_validation_rules, &config.mapping.user_validation_rules));
    let has_rules = |c: &ConnectorConfig| !(c.mapping.claim_validation_rules.is_empty() && c.mapping.user_validation_rules.is_empty());
    if has_rules(a) && has_rules(b) && rules(a).ok() != rules(b).ok() {
        return true;
    }
    let (bases, filters) = (base(&a.upstream).zip(base(&b.upstream)), (filters(&a.upstream), filters(&b.upstream)));
    let is_below = |a: &str, b: &str| a == b || a.ends_with(&format!(",{b}"));
    bases.is_some_and(|(a, b)| !is_below(&a, &b) && !is_below(&b, &a)) || filters.0 != filters.1
}

/// The DN below which a directory's users are.
fn base(upstream: &Upstream) -> Option<String> {
    let config = serde_json::to_value(upstream).ok()?;
    let base = config.get("userSearch")?.get("base")?.as_str()?.to_lowercase();
    Some(base.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

/// What a directory's entries must be to be this connector's users.
fn filters(upstream: &Upstream) -> Vec<Value> {
    let config = serde_json::to_value(upstream).unwrap_or_default();
    let search = config.get("userSearch");
    ["filter", "tenantFilter", "tenantBase"].iter().filter_map(|key| search?.get(key).cloned()).collect()
}
