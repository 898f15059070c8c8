//! Kubernetes' structured-authentication mapping, compiled once and evaluated per person.

mod compile;
mod evaluate;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Explanation, Rejection, Subject, UpstreamUser,
    expression::{Expression, Names, Pattern},
};
pub(crate) use evaluate::Watch;

/// The mapping part of a `jwt` entry of `apiserver.config.k8s.io/v1` AuthenticationConfiguration, with what a broker needs besides.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MappingConfig {
    /// What must hold of the claims.
    pub claim_validation_rules: Vec<ValidationRule>,
    /// Which claim becomes what.
    pub claim_mappings: ClaimMappings,
    /// What must hold of the user that comes out, over `user.username`, `.uid`, `.groups` and `.extra`.
    pub user_validation_rules: Vec<ValidationRule>,
}

/// `claim` with `requiredValue`, or `expression` with `message`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ValidationRule {
    /// The claim that must have `requiredValue`; `claimValidationRules` only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// The value that the claim must have; a string.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_value: String,
    /// A CEL expression that must be true.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// What to say where it is not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Which claim becomes what. The first four are Kubernetes' own.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimMappings {
    /// The username; required.
    pub username: PrefixedClaimOrExpression,
    /// The groups.
    pub groups: PrefixedClaimOrExpression,
    /// The uid, for `user.uid` in rules; the uid downstream is always Denizen's own.
    pub uid: ClaimOrExpression,
    /// More for Kubernetes' `extra`.
    pub extra: Vec<ExtraMapping>,
    /// The tenant, as the upstream names it: a string, or a list of strings. Any number but one is no tenant.
    pub tenant: ClaimOrExpression,
    /// Roles; they pass the connector's allow-list.
    pub roles: ClaimOrExpression,
    /// The full name.
    pub display_name: ClaimOrExpression,
    /// The e-mail address.
    pub email: ClaimOrExpression,
    /// Whether the address is theirs: a boolean, or `true`/`false` as text; false where not mapped.
    pub email_verified: ClaimOrExpression,
    /// The POSIX user number (RFC 2307): an integer from 0 to 2^63 - 1, or its decimal digits as text, as a directory says it. What is
    /// no such number is none, and keeps nobody out.
    pub uid_number: ClaimOrExpression,
    /// The POSIX number of the user's own group, likewise.
    pub gid_number: ClaimOrExpression,
}

/// A claim with a prefix, or an expression.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrefixedClaimOrExpression {
    /// The claim's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// What is put before each value of `claim`, at most 256 characters; not with `expression`. Kubernetes asks for it, be it `""`; here
    /// an absent one is `""`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A CEL expression over `claims`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
}

/// A claim, or an expression.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimOrExpression {
    /// The claim's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// A CEL expression over `claims`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
}

impl PrefixedClaimOrExpression {
    /// This claim, as it is.
    #[must_use]
    pub fn of_claim(claim: &str) -> Self {
        Self { claim: claim.to_owned(), prefix: Some(String::new()), expression: String::new() }
    }
}

impl ClaimOrExpression {
    /// This claim.
    #[must_use]
    pub fn of_claim(claim: &str) -> Self {
        Self { claim: claim.to_owned(), expression: String::new() }
    }
}

/// One key of Kubernetes' `extra`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtraMapping {
    /// `domain/path`, lower case.
    pub key: String,
    /// A CEL expression over `claims` that gives a string or a list of strings.
    pub value_expression: String,
}

/// One fault of a mapping's configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct MappingFault {
    /// Where, relative to the mapping: `claimMappings.extra[2].key`.
    pub path: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Someone as the mapping sees them, before a tenant has admitted them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedUser {
    /// Who, at the upstream.
    pub subject: Subject,
    /// The username; `claim` may give an empty one as in Kubernetes, and `Identity::admit` refuses it.
    pub username: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The mapped uid.
    pub uid: String,
    /// Kubernetes' `extra`.
    pub extra: BTreeMap<String, Vec<String>>,
    /// What the tenant rule gave: none, one, or (a fault of the upstream's data) several values.
    pub tenant: Vec<String>,
    /// The roles, before the connector's allow-list.
    pub roles: Vec<String>,
    /// The full name.
    pub display_name: Option<String>,
    /// The e-mail address.
    pub email: Option<String>,
    /// Whether the address is theirs.
    pub email_verified: bool,
    /// The POSIX user number, at least 0.
    pub uid_number: Option<i64>,
    /// The POSIX number of the user's own group, at least 0.
    pub gid_number: Option<i64>,
}

/// A compiled mapping. Evaluating one that has no expression builds no CEL context.
#[derive(Debug)]
pub struct Mapping {
    username: Rule,
    groups: Option<Rule>,
    uid: Option<Rule>,
    extra: Vec<ExtraRule>,
    claim_rules: Vec<ClaimRule>,
    user_rules: Vec<ExpressionRule>,
    tenant: Option<Rule>,
    roles: Option<Rule>,
    display_name: Option<Rule>,
    email: Option<Rule>,
    email_verified: Option<Rule>,
    uid_number: Option<Rule>,
    gid_number: Option<Rule>,
    /// What all expressions over `claims` name together; `None` where there are none.
    names: Option<Names>,
    /// Claims that are read beside the mapping.
    beside: BTreeSet<String>,
    patterns: Arc<[Pattern]>,
}

impl Mapping {
    /// Checks and compiles a configuration.
    ///
    /// # Errors
    /// Every fault of the configuration, with its place.
    pub fn compile(config: &MappingConfig) -> Result<Self, Vec<MappingFault>> {
        compile::compile(config)
    }

    /// Maps one person. All expressions together do at most [`LIMITS`](crate::LIMITS)`.work`.
    ///
    /// # Errors
    /// The first reason why this user is refused, in Kubernetes' order: username, groups, uid, extra, required claims, claim rules, user
    /// rules; then what Kubernetes does not have.
    pub fn evaluate(&self, user: &UpstreamUser) -> Result<MappedUser, Rejection> {
        evaluate::evaluate(self, user, &mut evaluate::Unwatched)
    }

    /// The same as [`Self::evaluate`], step by step, for people. It holds claim values.
    #[must_use]
    pub fn explain(&self, user: &UpstreamUser) -> Explanation {
        let mut explanation = Explanation::default();
        // The reason of a refusal is in the last step.
        let _: Result<MappedUser, Rejection> = evaluate::evaluate(self, user, &mut explanation);
        explanation
    }

    /// The claim that the tenant is read from where it is a plain one: then a directory can be asked for it.
    #[must_use]
    pub fn tenant_claim(&self) -> Option<&str> {
        plain_claim(self.tenant.as_ref())
    }

    /// The claim that the POSIX user number is read from, where it is a plain one: then a directory can be asked for it.
    #[must_use]
    pub fn uid_number_claim(&self) -> Option<&str> {
        plain_claim(self.uid_number.as_ref())
    }

    /// The same of the number of the user's own group.
    #[must_use]
    pub fn gid_number_claim(&self) -> Option<&str> {
        plain_claim(self.gid_number.as_ref())
    }

    /// The claim that groups are read from, and what is put before each of its values, where it is a plain one: then what a person's groups
    /// are called here says what they are called there.
    #[must_use]
    pub fn groups_claim(&self) -> Option<(&str, &str)> {
        match &self.groups {
            Some(Rule { source: Source::Claim { name, prefix }, .. }) => Some((name, prefix)),
            _ => None,
        }
    }

    /// The same mapping, where this claim of the person is read beside it, as a join with a directory does.
    #[must_use]
    pub fn with_claim(mut self, name: &str) -> Self {
        self.beside.insert(name.to_owned());
        self
    }

    /// The top-level claims that the rules name or that are read beside them, so that a connector knows whether it has to ask for more; `None` where an
    /// expression uses `claims` as a whole, or by a name that only its evaluation knows: then any may matter.
    #[must_use]
    pub fn claim_names(&self) -> Option<BTreeSet<&str>> {
        let rules = [&self.groups, &self.uid, &self.tenant, &self.roles, &self.display_name, &self.email, &self.email_verified];
        let rules = rules.into_iter().chain([&self.uid_number, &self.gid_number]);
        let plain = std::iter::once(&self.username).chain(rules.flatten()).filter_map(|rule| match &rule.source {
            Source::Claim { name, .. } => Some(name.as_str()),
            Source::Expression(_) => None,
        });
        // Kubernetes' rule: an address that is the username is held against whether it was verified.
        let verified = matches!(&self.username.source, Source::Claim { name, .. } if name == "email").then_some("email_verified");
        let required = self.claim_rules.iter().filter_map(|rule| match rule {
            ClaimRule::Required { claim, .. } => Some(claim.as_str()),
            ClaimRule::Expression(_) => None,
        });
        let in_expressions = match &self.names {
            Some(names) if names.whole => return None,
            Some(names) => Some(names.fields.iter().map(String::as_str)),
            None => None,
        };
        let beside = self.beside.iter().map(String::as_str);
        Some(plain.chain(verified).chain(required).chain(beside).chain(in_expressions.into_iter().flatten()).collect())
    }

    /// Whether there is a tenant rule at all.
    #[must_use]
    pub const fn has_tenant_rule(&self) -> bool {
        self.tenant.is_some()
    }
}

fn plain_claim(rule: Option<&Rule>) -> Option<&str> {
    match rule {
        Some(Rule { source: Source::Claim { name, .. }, .. }) => Some(name),
        _ => None,
    }
}

/// One compiled `claim` or `expression`, and where it stands.
#[derive(Debug)]
struct Rule {
    place: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

#[derive(Debug)]
struct ExtraRule {
    place: String,
    key: String,
    expression: Expression,
}

#[derive(Debug)]
enum ClaimRule {
    Required { place: String, claim: String, value: String },
    Expression(ExpressionRule),
}

#[derive(Debug)]
struct ExpressionRule {
    place: String,
    expression: Expression,
    message: String,
}

#[cfg(test)]
mod tests;
