//! Who the provider is: one `iss`, or a template that stands for one `iss` for each tenant of the provider's.

use std::collections::BTreeMap;

/// What stands for the provider's tenant in a templated issuer, as Microsoft's documents write it.
pub(super) const PLACEHOLDER: &str = "{tenantid}";

/// The issuers that a connector takes for its provider, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issuer {
    text: String,
    /// Each `iss`, and which tenant of the provider's it stands for where the issuer is templated.
    accepted: BTreeMap<String, Option<String>>,
}

impl Issuer {
    /// The text, and what its placeholder may be; without a placeholder the text itself.
    pub(super) fn new(text: &str, tenant_ids: &[String]) -> Self {
        let accepted = if text.contains(PLACEHOLDER) {
            tenant_ids.iter().map(|id| (text.replace(PLACEHOLDER, id), Some(id.clone()))).collect()
        } else {
            BTreeMap::from([(text.to_owned(), None)])
        };
        Self { text: text.to_owned(), accepted }
    }

    /// As it is configured.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has a placeholder.
    pub(super) fn is_template(&self) -> bool {
        self.text.contains(PLACEHOLDER)
    }

    /// Whether an `iss` is this provider's.
    pub(super) fn accepts(&self, iss: &str) -> bool {
        self.accepted.contains_key(iss)
    }

    /// Which tenant of the provider's an accepted `iss` stands for; `None` where the issuer has no template.
    pub(super) fn tenant_of(&self, iss: &str) -> Option<&str> {
        self.accepted.get(iss)?.as_deref()
    }

    /// Whether a discovery document may name this issuer (OpenID Connect Discovery, 4.3): the text itself, or an `iss` that is accepted.
    pub(super) fn is_named_by(&self, document: &str) -> bool {
        document == self.text || self.accepts(document)
    }
}
