//! Which ways are offered for what is known, and that what is not there looks like what has nothing of its own.

use std::collections::BTreeMap;

use async_trait::async_trait;
use claims_mapping::{ConnectorPolicy, IdScheme, Mapping, MappingConfig, OperatedBy, TenantLabel};
use connectors::{ConnectorError, LoginName, PasswordLogin, Proven, Secret};
use serde_json::json;
use time::{OffsetDateTime, macros::datetime};

use super::*;
use crate::{
    store::{Store, embedded::Embedded},
    tenancy::{IdRecords, Join, Tenants},
};

const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

struct NoOne;

#[async_trait]
impl PasswordLogin for NoOne {
    async fn authenticate(&self, _: &LoginName, _: &Secret) -> Result<Option<Proven>, ConnectorError> {
        Ok(None)
    }
}

fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

fn list(ids: &[&str]) -> BTreeSet<TenantId> {
    ids.iter().map(|id| tenant(id)).collect()
}

fn wired(id: &str, rule: TenantRule, listed: bool) -> Arc<Wired> {
    let id = ConnectorId::parse(id).unwrap();
    let policy = ConnectorPolicy {
        connector: id.clone(),
        issuer: url::Url::parse("https://id.example").unwrap(),
        operated_by: OperatedBy::Operator,
        tenant_rule: rule,
        ids: IdScheme::Derived,
        roles: BTreeSet::new(),
    };
    let join = (id.as_str() == "joined").then(|| Join {
        directory: ConnectorId::parse("corp").unwrap(),
        claim: String::new(),
        attribute: String::new(),
    });
    let mut mapping = MappingConfig::default();
    mapping.claim_mappings.username = claims_mapping::PrefixedClaimOrExpression::of_claim("sub");
    Arc::new(Wired {
        display_name: id.to_string(),
        id,
        disabled: false,
        is_keystone: false,
        mapping: Arc::new(Mapping::compile(&mapping).unwrap()),
        policy,
        password: Some(Arc::new(NoOne)),
        directory: None,
        redirect: None,
        groups: None,
        credential: None,
        renewal: None,
        revocation: None,
        token: None,
        logout: None,
        join,
        listed,
        within: std::time::Duration::from_secs(5),
    })
}

/// `corp` is for all; `acme-sso` is acme's own, `acme` by the domain `acme.example`; globex and initech have none of their own;
/// initech is switched off.
async fn ways(connectors: Vec<Arc<Wired>>) -> Ways {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    let known = ["acme", "globex", "initech", "system"].map(|id| Tenant {
        id: tenant(id),
        label: if id == "system" { TenantLabel::parse("operators").unwrap() } else { TenantLabel::derived(&tenant(id)) },
        display_name: id.to_owned(),
        external_ids: BTreeMap::new(),
        connectors: (id == "system").then(|| [ConnectorId::parse("operators").unwrap()].into()),
        disabled: id == "initech",
    });
    let tenants = Arc::new(Tenants::open(known.into(), None, Arc::clone(&store), NOW).await.unwrap());
    let config: Vec<TenantConfig> = serde_json::from_value(json!([
        {"id": "acme", "emailDomains": ["acme.example"], "hosts": ["acme.id.example"]},
        {"id": "globex", "emailDomains": ["globex.example"]},
        {"id": "initech", "emailDomains": ["initech.example"]},
    ]))
    .unwrap();
    Ways::new(Arc::new(Admission::new(tenants, IdRecords::new(store), connectors)), &config)
}

async fn usual() -> Ways {
    let rest = [
        wired("acme-sso", TenantRule::Fixed(tenant("acme")), false),
        wired("initech-sso", TenantRule::Fixed(tenant("initech")), false),
        wired("operators", TenantRule::Fixed(TenantId::system()), false),
    ];
    ways([wired("corp", TenantRule::Mapped(None), true)].into_iter().chain(rest).collect()).await
}

fn attempt(wanted: &serde_json::Value, typed: Option<&str>) -> Attempt {
    let mut whole = json!({"tenant": null, "login_hint": null, "anew": false, "select": false, "max_age": null});
    for (key, value) in wanted.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({"request": null, "wanted": whole, "typed": typed, "csrf": "", "browser": "", "until": 0})).unwrap()
}

/// The offer, in a word: `corp acme-sso`, with `…` where there is a form.
fn offered(ways: &Ways, attempt: &Attempt, limits: Limits<'_>, known: Known<'_>) -> String {
    let offer = ways.offer(attempt, limits, known);
    let ids = offer.ways.iter().map(|way| way.id.as_str());
    let rest = [(offer.find, "…"), (offer.unknown, "?")].into_iter().filter(|(is, _)| *is).map(|(_, text)| text);
    ids.chain(rest).collect::<Vec<_>>().join(" ")
}

fn of(ways: &Ways, wanted: &serde_json::Value, typed: Option<&str>) -> String {
    offered(ways, &attempt(wanted, typed), Limits::default(), Known::default())
}

#[tokio::test]
async fn what_is_known_leads_to_a_tenants_own_ways() {
    let ways = usual().await;
    assert_eq!(of(&ways, &json!({}), None), "corp …", "nothing is known");
    assert_eq!(of(&ways, &json!({"tenant": "acme"}), None), "acme-sso corp");
    assert_eq!(of(&ways, &json!({"tenant": "system"}), None), "operators");
    for hint in ["jane@acme.example", "jane@ACME.example.", "jane@acme"] {
        assert_eq!(of(&ways, &json!({"login_hint": hint}), None), "acme-sso corp", "{hint}");
        assert_eq!(of(&ways, &json!({}), Some(hint)), "acme-sso corp", "{hint}");
    }
    for typed in ["acme", " acme.example ", "Acme"] {
        assert_eq!(of(&ways, &json!({}), Some(typed)), "acme-sso corp", "{typed}");
    }
    assert_eq!(of(&ways, &json!({"login_hint": "acme"}), None), "corp …", "a name alone is no organisation");
    assert_eq!(of(&ways, &json!({"tenant": "globex"}), Some("jane@acme.example")), "corp", "the request's tenant decides");
    assert_eq!(ways.of_host("ACME.id.example.").map(TenantId::as_str), Some("acme"));
    assert_eq!(ways.of_host("globex.id.example"), None);
}

#[tokio::test]
async fn what_is_not_there_looks_like_what_has_nothing_of_its_own() {
    let ways = usual().await;
    for tenant in ["globex", "nobody", "initech", "../acme", "ACME", "all"] {
        assert_eq!(of(&ways, &json!({"tenant": tenant}), None), "corp", "{tenant}");
    }
    for typed in ["jane@globex.example", "jane@nobody.example", "jane@initech.example", "globex", "nobody", "initech", "@", "jane"] {
        assert_eq!(of(&ways, &json!({}), Some(typed)), "corp", "{typed}");
        assert_eq!(of(&ways, &json!({"login_hint": typed}), None), "corp …", "{typed}");
    }
    let without = self::ways(vec![
        wired("acme-sso", TenantRule::Fixed(tenant("acme")), false),
        wired("initech-sso", TenantRule::Fixed(tenant("initech")), false),
    ])
    .await;
    assert_eq!(of(&without, &json!({}), None), "…");
    for name in ["globex", "nobody", "initech"] {
        assert_eq!(of(&without, &json!({}), Some(name)), "… ?", "{name}");
        assert_eq!(of(&without, &json!({"tenant": name}), None), "", "{name}");
    }
}

#[tokio::test]
async fn a_remembered_way_goes_first_unless_they_want_to_choose() {
    let ways = usual().await;
    let with = |wanted: serde_json::Value, typed, others| {
        let known = Known { remembered: Some("acme-sso"), others };
        offered(&ways, &attempt(&wanted, typed), Limits::default(), known)
    };
    assert_eq!(with(json!({}), None, false), "acme-sso");
    assert_eq!(with(json!({"tenant": "acme"}), None, false), "acme-sso");
    assert_eq!(with(json!({"tenant": "globex"}), None, false), "corp", "it is no way of globex");
    assert_eq!(with(json!({}), Some("globex"), false), "corp", "what was typed is newer");
    assert_eq!(with(json!({"select": true}), None, false), "corp …");
    assert_eq!(with(json!({}), None, true), "corp …");
    let gone = Known { remembered: Some("gone"), others: false };
    assert_eq!(offered(&ways, &attempt(&json!({}), None), Limits::default(), gone), "corp …");
}

#[tokio::test]
async fn an_applications_limits_hold_everywhere() {
    let ways = usual().await;
    let (acme, corp) = (list(&["acme"]), BTreeSet::from([ConnectorId::parse("corp").unwrap()]));
    let acme_only = Limits { tenants: Some(&acme), connectors: None };
    let corp_only = Limits { tenants: None, connectors: Some(&corp) };
    let remembered = Known { remembered: Some("operators"), others: false };
    assert_eq!(offered(&ways, &attempt(&json!({}), None), acme_only, remembered), "acme-sso corp");
    assert_eq!(offered(&ways, &attempt(&json!({"tenant": "system"}), None), acme_only, remembered), "corp");
    assert_eq!(offered(&ways, &attempt(&json!({}), None), corp_only, remembered), "corp");
    assert_eq!(offered(&ways, &attempt(&json!({"tenant": "acme"}), None), corp_only, remembered), "corp");
    assert_eq!(offered(&ways, &attempt(&json!({}), Some("jane@acme.example")), corp_only, remembered), "corp");
    let joined = self::ways(vec![wired("joined", TenantRule::Mapped(None), true), wired("other", TenantRule::Mapped(None), true)]).await;
    assert_eq!(offered(&joined, &attempt(&json!({}), None), corp_only, remembered), "joined", "its people are those of `corp`");
}

#[tokio::test]
async fn people_are_not_asked_for_an_address_because_of_the_operators() {
    let only = [wired("corp", TenantRule::Mapped(None), true), wired("operators", TenantRule::Fixed(TenantId::system()), false)];
    let ways = ways(only.to_vec()).await;
    assert_eq!(of(&ways, &json!({}), None), "corp");
    let others = Known { remembered: None, others: true };
    assert_eq!(offered(&ways, &attempt(&json!({}), None), Limits::default(), others), "corp …");
    assert_eq!(of(&ways, &json!({}), Some("olga@operators")), "operators");
}

#[test]
fn a_tenants_own_way_is_not_listed_where_there_are_others() {
    let tenants: Vec<TenantConfig> = serde_json::from_value(json!([{"id": "acme"}, {"id": "globex"}])).unwrap();
    let (own, one) = (TenantRule::Fixed(tenant("acme")), TenantRule::Mapped(Some(list(&["acme"]))));
    for rule in [&own, &one] {
        assert!(!listed_by_default(rule, &tenants, false));
        assert!(listed_by_default(rule, &tenants[..1], false));
        assert!(!listed_by_default(rule, &tenants[..1], true), "there may be others one day");
    }
    assert!(listed_by_default(&TenantRule::Mapped(Some(list(&["acme", "globex"]))), &tenants, false));
    assert!(listed_by_default(&TenantRule::Mapped(None), &tenants, true));
    assert!(listed_by_default(&TenantRule::Default(tenant("acme")), &tenants, false));
    assert!(!listed_by_default(&TenantRule::Fixed(TenantId::system()), &tenants[..1], false));
}
