//! kube-apiserver's own `AuthenticationConfiguration`, in a file that the configuration names: what its `jwt` entries lend
//! to the connectors of the same issuers, and which names come out otherwise than there.
//!
//! It owns the file's shape and the lending. What the lent parts must be is checked where the connectors are, and told
//! with the place in that file.

use std::{collections::HashMap, sync::Arc};

use claims_mapping::{ClaimOrExpression, ExtraMapping, PrefixedClaimOrExpression, Tenant, ValidationRule};
use connectors::{config::Upstream, oidc::AudienceMatchPolicy};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ConnectorConfig,
    check::readable,
    load::Parts,
    places::{Places, join},
    structure::Walk,
    tree,
};

/// The configuration's key that names the file.
pub(super) const KEY: &str = "authenticationConfiguration";
/// Entries that the API server takes, at most.
const MOST: usize = 64;

/// The file.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "what is read and left alone belongs to the shape")]
struct AuthenticationConfiguration {
    api_version: ApiVersion,
    kind: Kind,
    #[serde(default)]
    jwt: Vec<Entry>,
    #[serde(default)]
    anonymous: Option<Anonymous>,
}

#[derive(Deserialize, JsonSchema)]
enum ApiVersion {
    #[serde(rename = "apiserver.config.k8s.io/v1")]
    V1,
    #[serde(rename = "apiserver.config.k8s.io/v1beta1")]
    V1Beta1,
    #[serde(rename = "apiserver.config.k8s.io/v1alpha1")]
    V1Alpha1,
}

#[derive(Deserialize, JsonSchema)]
enum Kind {
    AuthenticationConfiguration,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "what is read and left alone belongs to the shape")]
struct Anonymous {
    enabled: bool,
    #[serde(default)]
    conditions: Vec<AnonymousCondition>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "what is read and left alone belongs to the shape")]
struct AnonymousCondition {
    path: String,
}

/// One `jwt` entry.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    issuer: Issuer,
    #[serde(default)]
    claim_validation_rules: Vec<ValidationRule>,
    claim_mappings: Mappings,
    #[serde(default)]
    user_validation_rules: Vec<ValidationRule>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: Option<String>,
    #[serde(default)]
    certificate_authority: Option<String>,
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: Option<AudienceMatchPolicy>,
}

/// The four parts that Kubernetes knows.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mappings {
    username: PrefixedClaimOrExpression,
    #[serde(default)]
    groups: PrefixedClaimOrExpression,
    #[serde(default)]
    uid: ClaimOrExpression,
    #[serde(default)]
    extra: Vec<ExtraMapping>,
}

/// Reads the file, where the configuration names one, and lends what its entries say to the connectors of their issuers.
/// Gives the paths of those connectors.
pub(super) fn lend(parts: &mut Parts, places: &mut Places) -> Vec<String> {
    let Some(file) = parts.authentication_configuration.clone() else { return Vec::new() };
    let Some(text) = readable(&file, KEY, places) else { return Vec::new() };
    let name: Arc<str> = file.display().to_string().into();
    let mut theirs = Places::default();
    let entries = read(&text, &file, &mut theirs);
    let mut lent = Vec::new();
    for (at, entry) in entries {
        let issuer = join(&at, "issuer.url");
        let mut is_known = is_named(parts, &entry.issuer.url);
        for (path, config) in &mut parts.connectors {
            let Upstream::Oidc(oidc) = &config.upstream else { continue };
            if oidc.issuer.url != entry.issuer.url {
                continue;
            }
            is_known = true;
            for part in dropped_rules(config, &entry) {
                places.fault(
                    join(path, part),
                    format!(
                        "these stand in place of the `{part}` that {name} has for this issuer, and do not repeat them all: whom the API server refuses by the others would be let in; repeat them here"
                    ),
                );
            }
            for part in lend_to(config, &entry) {
                places.lend(&name, &theirs, &join(&at, part), &join(path, part));
            }
            lent.push(path.clone());
        }
        if !is_known {
            theirs.fault(
                issuer,
                "no connector has this `issuer.url`; Denizen needs to know whose users they are: add `{ id: …, type: oidc, tenant: { fixed: … }, acceptTokens: true, issuer: { url: … } }` to `connectors`, with this url, and name the connector in the reviewer's `upstreamTokens`",
            );
        }
    }
    let named = |mut list: Vec<super::Fault>| {
        list.iter_mut().for_each(|fault| fault.file = Some(name.to_string()));
        list
    };
    places.faults.extend(named(theirs.faults));
    places.warnings.extend(named(theirs.warnings));
    lent
}

/// The entries that can be read, with their paths.
fn read(text: &str, file: &std::path::Path, places: &mut Places) -> Vec<(String, Entry)> {
    let (tree, fault) = tree::parse(text);
    places.faults.extend(fault);
    let Some(tree) = tree else { return Vec::new() };
    let schema = schemars::schema_for!(AuthenticationConfiguration).to_value();
    let folder = file.parent().unwrap_or_else(|| std::path::Path::new(""));
    let root = Walk::new(&schema, folder, places).value(&tree, &schema, "").unwrap_or_default();
    if places.has("anonymous") {
        places.warning("anonymous", "it is left alone: who asks nothing of Denizen stays with the API server");
    }
    let list = root.get("jwt").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if list.len() > MOST {
        places.fault("jwt", format!("the API server takes at most {MOST} entries; put the others into `connectors`"));
    }
    let mut entries: Vec<(String, Entry)> = Vec::new();
    let mut before: HashMap<String, String> = HashMap::new();
    for (index, value) in list.iter().enumerate() {
        // One that can not be read has its fault from the walk.
        let Ok(entry) = Entry::deserialize(value) else { continue };
        let path = format!("jwt[{index}]");
        if let Some(other) = before.insert(entry.issuer.url.clone(), path.clone()) {
            places.fault(join(&path, "issuer.url"), format!("the entry {} has this issuer already", places.line_of(&other)));
            continue;
        }
        entries.push((path, entry));
    }
    entries
}

/// Whether a connector names the issuer, be it one that has faults.
fn is_named(parts: &Parts, url: &str) -> bool {
    let connectors = parts.root.get("connectors").and_then(Value::as_array).into_iter().flatten();
    connectors.filter_map(|connector| connector.pointer("/issuer/url")?.as_str()).any(|known| known == url)
}

/// Gives a connector each part that its own entry does not have, and says which.
fn lend_to(config: &mut ConnectorConfig, entry: &Entry) -> Vec<&'static str> {
    let Upstream::Oidc(oidc) = &mut config.upstream else { return Vec::new() };
    let mut lent = Vec::new();
    let mut lend = |part: &'static str, is_wanted: bool, is_there: bool| {
        let lends = is_wanted && is_there;
        if lends {
            lent.push(part);
        }
        lends
    };
    let (own, theirs) = (&mut oidc.issuer, &entry.issuer);
    if lend("issuer.discoveryURL", own.discovery_url.is_none(), theirs.discovery_url.is_some()) {
        own.discovery_url.clone_from(&theirs.discovery_url);
    }
    let has_authority = own.certificate_authority.is_some() || own.certificate_authority_file.is_some();
    if lend("issuer.certificateAuthority", !has_authority, theirs.certificate_authority.is_some()) {
        own.certificate_authority.clone_from(&theirs.certificate_authority);
    }
    // The policy speaks of the audiences, and goes with them.
    if lend("issuer.audiences", own.audiences.is_empty(), !theirs.audiences.is_empty()) {
        own.audiences.clone_from(&theirs.audiences);
        if lend("issuer.audienceMatchPolicy", own.audience_match_policy.is_none(), theirs.audience_match_policy.is_some()) {
            own.audience_match_policy = theirs.audience_match_policy;
        }
    }
    let mapping = &mut config.mapping;
    let (own, theirs) = (&mut mapping.claim_mappings, &entry.claim_mappings);
    let parts =
        [("claimMappings.username", &mut own.username, &theirs.username), ("claimMappings.groups", &mut own.groups, &theirs.groups)];
    for (part, own, theirs) in parts {
        if lend(part, !is_given(own), is_given(theirs)) {
            own.clone_from(theirs);
        }
    }
    let is_there = |part: &ClaimOrExpression| !part.claim.is_empty() || !part.expression.is_empty();
    if lend("claimMappings.uid", !is_there(&own.uid), is_there(&theirs.uid)) {
        own.uid.clone_from(&theirs.uid);
    }
    if lend("claimMappings.extra", own.extra.is_empty(), !theirs.extra.is_empty()) {
        own.extra.clone_from(&theirs.extra);
    }
    let rules = [
        ("claimValidationRules", &mut mapping.claim_validation_rules, &entry.claim_validation_rules),
        ("userValidationRules", &mut mapping.user_validation_rules, &entry.user_validation_rules),
    ];
    for (part, own, theirs) in rules {
        if lend(part, own.is_empty(), !theirs.is_empty()) {
            own.clone_from(theirs);
        }
    }
    lent
}

/// The kinds of rules of an entry that a connector has its own of, some of the entry's missing among them.
fn dropped_rules(config: &ConnectorConfig, entry: &Entry) -> Vec<&'static str> {
    let is_same =
        |a: &ValidationRule, b: &ValidationRule| a.claim == b.claim && a.required_value == b.required_value && a.expression == b.expression;
    let own = &config.mapping;
    let rules = [
        ("claimValidationRules", &own.claim_validation_rules, &entry.claim_validation_rules),
        ("userValidationRules", &own.user_validation_rules, &entry.user_validation_rules),
    ];
    let drops = |own: &[ValidationRule], theirs: &[ValidationRule]| {
        !own.is_empty() && !theirs.iter().all(|rule| own.iter().any(|other| is_same(rule, other)))
    };
    rules.into_iter().filter(|(_, own, theirs)| drops(own, theirs)).map(|(part, ..)| part).collect()
}

fn is_given(part: &PrefixedClaimOrExpression) -> bool {
    !part.claim.is_empty() || !part.expression.is_empty() || part.prefix.is_some()
}

/// Says of each connector that an entry lent to which names come out otherwise than at the API server, with examples, so that
/// RBAC bindings can be changed. `lent` is what [`lend`] gave.
pub(super) fn names(parts: &Parts, lent: &[String], tenants: &[Tenant], places: &mut Places) {
    for (path, config) in &parts.connectors {
        let Upstream::Oidc(oidc) = &config.upstream else { continue };
        let is_lent = lent.contains(path);
        if !oidc.accept_tokens {
            if is_lent {
                places.warning(path, "it does not have `acceptTokens: true`, so that its tokens are not taken in reviews");
            }
            continue;
        }
        let label = || label(config, tenants);
        for (part, mapped, kind) in [
            ("claimMappings.username", &config.mapping.claim_mappings.username, &USER),
            ("claimMappings.groups", &config.mapping.claim_mappings.groups, &GROUP),
        ] {
            let here = join(path, part);
            let prefix = mapped.prefix.as_deref().unwrap_or_default();
            if prefix.contains(':') {
                places.warning(here, kind.with_colon(&mapped.claim, prefix, &label()));
            } else if is_lent && is_given(mapped) {
                places.warning(here, kind.renamed(prefix, &label()));
            }
        }
        if is_lent && places.has(&join(path, "claimMappings.uid")) {
            places.warning(
                join(path, "claimMappings.uid"),
                "downstream `uid` is Denizen's own permanent id, a UUID; this one is seen by `userValidationRules` alone",
            );
        }
    }
}

/// The label that names of a connector's users begin with.
fn label(config: &ConnectorConfig, tenants: &[Tenant]) -> String {
    let fixed = config.tenant.as_ref().and_then(|tenant| tenants.iter().find(|known| known.id == tenant.fixed));
    fixed.map_or_else(|| "<label of the tenant>".to_owned(), |tenant| tenant.label.to_string())
}

/// How one kind of RBAC subject is told of.
struct Subject {
    kind: &'static str,
    part: &'static str,
    example: &'static str,
    without: &'static str,
    otherwise: &'static str,
}

const USER: Subject = Subject {
    kind: "User",
    part: "username",
    example: "jane",
    without: "everyone is refused: a username has no `:` here",
    otherwise: "A username that holds a `:`, as one under `system:` does, is refused",
};

const GROUP: Subject = Subject {
    kind: "Group",
    part: "groups",
    example: "developers",
    without: "every group is left out: a group has no `:` here",
    otherwise: "A group that holds a `:`, as one under `system:` does, is left out",
};

impl Subject {
    fn with_colon(&self, claim: &str, prefix: &str, label: &str) -> String {
        let Self { kind, part, example, without, .. } = self;
        let (claim, prefix) = (shown(claim), shown(prefix));
        format!(
            "{without}, and this prefix does. Give the connector `claimMappings: {{ {part}: {{ claim: {claim}, prefix: \"\" }} }}`; then change RBAC subjects from {kind} `{prefix}{example}` to {kind} `{label}:{example}`"
        )
    }

    fn renamed(&self, prefix: &str, label: &str) -> String {
        let Self { kind, example, otherwise, .. } = self;
        let prefix = shown(prefix);
        format!("change RBAC subjects from {kind} `{prefix}{example}` to {kind} `{label}:{prefix}{example}`. {otherwise}")
    }
}

/// A text of the configuration in an example: nothing that could mislead a reader or a terminal.
fn shown(text: &str) -> &str {
    if text.chars().all(|c| c.is_ascii_graphic() && c != '`') { text } else { "…" }
}

#[cfg(test)]
mod tests;
