//! What is kept of a sign-in that was refused, for the operator who is asked about it: under the number that its person was
//! told, each step of the mapping. Values of claims are kept only where the configuration says so; else their kinds and lengths.

use std::sync::Arc;

use claims_mapping::{ConnectorId, Explanation, Mapping, Step, UpstreamUser};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    config::{RefusalsConfig, seconds},
    seams::Entropy,
    secret_text::random_uuid,
    store::{Batch, Buckets, Key, Kind, Store, StoreError},
};

/// The most steps of one refusal that are kept.
const MOST_STEPS: usize = 64;
/// The most claims that one step keeps.
const MOST_CLAIMS: usize = 32;
/// The longest text that is kept, in characters.
const LONGEST_TEXT: usize = 500;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Its number: 12 hexadecimal digits.
    pub reference: String,
    /// Through which connector.
    pub connector: ConnectorId,
    /// When (RFC 3339).
    pub at: String,
    /// Why, as in the audit log.
    pub reason: String,
    /// What each step of the mapping saw and gave; empty where the upstream said nothing of the person.
    pub steps: Vec<RefusedStep>,
}

/// One step of the mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStep {
    /// Where it stands in the configuration.
    pub place: String,
    /// The claim or the expression.
    pub rule: String,
    /// The claims that it names: their values, or what kind they are.
    pub saw: serde_json::Map<String, Value>,
    /// What it gave, likewise, or why it failed.
    pub gave: Result<Value, String>,
}

/// The refusals.
pub struct Refusals {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    kept: Duration,
    keep_claims: bool,
    /// Of each connector so many, and so many of all: no one fills the store with refusals, or pushes another connector's out.
    of_connector: Buckets<ConnectorId>,
    of_all: Buckets<()>,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refusals")
    }
}

impl Refusals {
    /// Refusals that are kept as the configuration says: of one connector 30 at once and 4 a minute, of all 200 and 12.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, config: &RefusalsConfig) -> Self {
        Self {
            store,
            entropy,
            kept: seconds(config.kept_seconds),
            keep_claims: config.keep_claims,
            of_connector: Buckets::refilling(30, Duration::seconds(15)),
            of_all: Buckets::refilling(200, Duration::seconds(5)),
        }
    }

    /// Keeps one, as far as there is room, and gives its number, which the audit log must have too. The person is told the
    /// number whatever becomes of the record.
    pub async fn record(
        &self,
        connector: &ConnectorId,
        said: Option<(&Mapping, &UpstreamUser)>,
        reason: &str,
        now: OffsetDateTime,
    ) -> String {
        let reference: String = random_uuid(&*self.entropy).simple().to_string().chars().take(12).collect();
        let has_room = self.of_connector.take(connector.clone(), now).is_ok() && self.of_all.take((), now).is_ok();
        if !has_room {
            tracing::debug!(connector.id = %connector, reference, "too many refusals at once: this one is in the audit log alone");
            return reference;
        }
        let refusal = Refusal {
            reference: reference.clone(),
            connector: connector.clone(),
            at: now.format(&Rfc3339).unwrap_or_default(),
            reason: shortened(reason),
            steps: said.map(|(mapping, user)| self.steps(mapping.explain(user))).unwrap_or_default(),
        };
        let batch = Batch::new().put(key(&reference), serde_json::to_vec(&refusal).unwrap_or_default(), Some(now + self.kept));
        if let Err(error) = self.store.commit(batch, now).await {
            tracing::error!(%error, reference, "what was refused could not be kept");
        }
        reference
    }

    /// One, by its number.
    ///
    /// # Errors
    /// When the store could not tell.
    pub async fn find(&self, reference: &str, now: OffsetDateTime) -> Result<Option<Refusal>, StoreError> {
        let entry = self.store.get(&key(reference), now).await?;
        Ok(entry.and_then(|entry| serde_json::from_slice(&entry.value).ok()))
    }

    fn steps(&self, explanation: Explanation) -> Vec<RefusedStep> {
        let shown = |value: Value| if self.keep_claims { bounded(value) } else { Value::String(kind_of(&value)) };
        let step = |step: Step| RefusedStep {
            place: step.place,
            rule: shortened(&step.rule),
            saw: step.saw.into_iter().take(MOST_CLAIMS).map(|(name, value)| (name, shown(value))).collect(),
            gave: step.gave.map(shown).map_err(|why| shortened(&why)),
        };
        explanation.steps.into_iter().take(MOST_STEPS).map(step).collect()
    }
}

fn key(reference: &str) -> Key {
    Key::system(Kind::Refusal, reference)
}

/// What can be told of a value without telling it.
fn kind_of(value: &Value) -> String {
    let count = |n: usize, what: &str| format!("{what} {n}");
    match value {
        Value::Null => "absent or null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => match text.chars().count() {
            1 => "text of 1 character".to_owned(),
            n => format!("text of {n} characters"),
        },
        Value::Array(list) => count(list.len(), "list of"),
        Value::Object(object) => count(object.len(), "object of"),
    }
}

/// The value, or what kind it is where it is too long to be kept.
fn bounded(value: Value) -> Value {
    if value.to_string().chars().count() <= LONGEST_TEXT { value } else { Value::String(kind_of(&value)) }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use claims_mapping::{ClaimMappings, ClaimOrExpression, Claims, MappingConfig, PrefixedClaimOrExpression, Subject};
    use serde_json::json;
    use time::macros::datetime;

    use super::*;
    use crate::{seams::SystemEntropy, store::embedded::Embedded};

    const NOW: OffsetDateTime = datetime!(2026-11-21 08:00 UTC);

    fn refusals(keep_claims: bool) -> Refusals {
        let config = RefusalsConfig { kept_seconds: 3_600, keep_claims };
        Refusals::new(Arc::new(Embedded::in_memory().unwrap()), Arc::new(SystemEntropy), &config)
    }

    fn mapping() -> Mapping {
        let mut claim_mappings = ClaimMappings { username: PrefixedClaimOrExpression::of_claim("sub"), ..ClaimMappings::default() };
        claim_mappings.tenant = ClaimOrExpression::of_claim("school");
        Mapping::compile(&MappingConfig { claim_mappings, ..MappingConfig::default() }).unwrap()
    }

    fn user() -> UpstreamUser {
        let claims = json!({"sub": "jane-the-secret", "school": ["north-school", "south-school"]});
        UpstreamUser { subject: Subject::parse("jane-the-secret").unwrap(), claims: Claims::new(claims).unwrap() }
    }

    async fn kept(refusals: &Refusals) -> Refusal {
        let connector = ConnectorId::parse("corp").unwrap();
        let reference = refusals.record(&connector, Some((&mapping(), &user())), "no tenant", NOW).await;
        assert!(reference.len() == 12 && reference.bytes().all(|b| b.is_ascii_hexdigit()), "{reference}");
        refusals.find(&reference, NOW).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn the_steps_are_kept_without_the_claims_values() {
        let refusal = kept(&refusals(false)).await;
        let text = serde_json::to_string(&refusal).unwrap();
        assert!(text.contains("text of 15 characters") && text.contains("list of 2"), "{text}");
        assert!(!text.contains("secret") && !text.contains("north"), "{text}");
        assert_eq!(
            (refusal.connector.as_str(), refusal.at.as_str(), refusal.reason.as_str()),
            ("corp", "2026-11-21T08:00:00Z", "no tenant")
        );
    }

    #[tokio::test]
    async fn the_values_are_kept_where_the_operator_wants_them() {
        let text = serde_json::to_string(&kept(&refusals(true)).await).unwrap();
        assert!(text.contains("jane-the-secret") && text.contains("south-school"), "{text}");
    }

    #[tokio::test]
    async fn one_ends_with_its_time_and_a_flood_is_not_kept() {
        let refusals = refusals(false);
        let refusal = kept(&refusals).await;
        assert_eq!(refusals.find(&refusal.reference, NOW + Duration::hours(1)).await.unwrap(), None);
        let connectors = ["corp", "other"].map(|id| ConnectorId::parse(id).unwrap());
        let mut found = [0, 0];
        for (connector, found) in connectors.iter().zip(&mut found) {
            for _ in 0..100 {
                let reference = refusals.record(connector, None, "no", NOW).await;
                *found += usize::from(refusals.find(&reference, NOW).await.unwrap().is_some());
            }
        }
        assert_eq!(found, [29, 30], "and one connector's flood leaves room for another's");
    }
}
