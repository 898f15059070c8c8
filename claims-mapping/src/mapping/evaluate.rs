//! One person through a [`Mapping`], in Kubernetes' order.

use std::{cell::OnceCell, collections::BTreeMap};

use serde_json::{Map, Value};

use super::{ClaimRule, ExpressionRule, MappedUser, Mapping, Rule, Source};
use crate::{
    Claims, Rejection, Step, UpstreamUser,
    expression::{Expression, Scope, UserView, Worth},
};

/// Who looks on: nobody, or an explanation.
pub(crate) trait Watch {
    /// Called after each step. `step` is costly, and is not made where nobody looks.
    fn step(&mut self, step: impl FnOnce() -> Step);
}

/// Nobody.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn step(&mut self, _step: impl FnOnce() -> Step) {}
}

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const TEXTS: &str = "a string or a list of strings";

/// # Errors
/// The first reason why not.
pub(super) fn evaluate(mapping: &Mapping, user: &UpstreamUser, watch: &mut impl Watch) -> Result<MappedUser, Rejection> {
    let run = Run { mapping, claims: &user.claims, scope: OnceCell::new() };
    let username = run.step(watch, &mapping.username, |rule| run.username(rule), |name| Value::from(name.as_str()))?;
    let groups = run.optional(watch, mapping.groups.as_ref(), |rule| run.texts(rule), texts_shown)?;
    let uid = run.optional(watch, mapping.uid.as_ref(), |rule| run.uid(rule), |uid| Value::from(uid.as_str()))?;
    let extra = run.extra(watch)?;
    run.claim_rules(watch)?;
    run.user_rules(watch, &UserView { username: &username, uid: &uid, groups: &groups, extra: &extra })?;

    let tenant = run.optional(watch, mapping.tenant.as_ref(), |rule| run.tenant(rule), texts_shown)?;
    let roles = run.optional(watch, mapping.roles.as_ref(), |rule| run.texts(rule), texts_shown)?;
    let shown = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let display_name = run.optional(watch, mapping.display_name.as_ref(), |rule| run.text(rule), shown)?;
    let email = run.optional(watch, mapping.email.as_ref(), |rule| run.text(rule), shown)?;
    let email_verified = run.optional(watch, mapping.email_verified.as_ref(), |rule| run.truth(rule), |truth| Value::from(*truth))?;
    let number_shown = |number: &Option<i64>| number.map_or(Value::Null, Value::from);
    let uid_number = run.optional(watch, mapping.uid_number.as_ref(), |rule| run.number(rule), number_shown)?;
    let gid_number = run.optional(watch, mapping.gid_number.as_ref(), |rule| run.number(rule), number_shown)?;
    Ok(MappedUser {
        subject: user.subject.clone(),
        username,
        groups,
        uid,
        extra,
        tenant,
        roles,
        display_name,
        email,
        email_verified,
        uid_number,
        gid_number,
    })
}

#[expect(clippy::ptr_arg, reason = "it is handed on as a function over the step's own type")]
fn texts_shown(texts: &Vec<String>) -> Value {
    texts.iter().map(String::as_str).collect()
}

struct Run<'r> {
    mapping: &'r Mapping,
    claims: &'r Claims,
    /// The context of the expressions over claims, built at the first one.
    scope: OnceCell<Scope<'r>>,
}

impl<'r> Run<'r> {
    fn scope(&self) -> &Scope<'r> {
        self.scope.get_or_init(|| Scope::of_claims(self.claims, self.mapping.names.as_ref(), &self.mapping.patterns))
    }

    /// Takes a step, and shows it to whoever watches.
    fn step<T>(
        &self,
        watch: &mut impl Watch,
        rule: &'r Rule,
        work: impl FnOnce(&'r Rule) -> Result<T, Rejection>,
        show: impl FnOnce(&T) -> Value,
    ) -> Result<T, Rejection> {
        let outcome = work(rule);
        watch.step(|| {
            let (text, saw) = match &rule.source {
                Source::Claim { name, .. } => (format!("claim `{name}`"), self.saw(std::iter::once(name))),
                Source::Expression(expression) => (expression.source().to_owned(), self.saw_by(expression)),
            };
            Step { place: rule.place.clone(), rule: text, saw, gave: outcome.as_ref().map(show).map_err(ToString::to_string) }
        });
        outcome
    }

    /// The same for a rule that may be absent; then the value is the type's empty one.
    fn optional<T: Default>(
        &self,
        watch: &mut impl Watch,
        rule: Option<&'r Rule>,
        work: impl FnOnce(&'r Rule) -> Result<T, Rejection>,
        show: impl FnOnce(&T) -> Value,
    ) -> Result<T, Rejection> {
        rule.map_or_else(|| Ok(T::default()), |rule| self.step(watch, rule, work, show))
    }

    fn saw<'n>(&self, names: impl Iterator<Item = &'n String>) -> Map<String, Value> {
        names.map(|name| (name.clone(), self.claims.get(name).cloned().unwrap_or_default())).collect()
    }

    fn saw_by(&self, expression: &Expression) -> Map<String, Value> {
        if expression.names().whole { self.claims.as_map().clone() } else { self.saw(expression.names().fields.iter()) }
    }

    fn value(&self, place: &str, expression: &Expression) -> Result<Worth, Rejection> {
        value(self.scope(), place, expression)
    }

    fn username(&self, rule: &Rule) -> Result<String, Rejection> {
        match &rule.source {
            Source::Claim { name, prefix } => {
                let text = self.required_text(name)?;
                if name == "email" {
                    match self.claims.get("email_verified") {
                        None | Some(Value::Bool(true)) => {}
                        Some(Value::Bool(false)) => return Err(Rejection::EmailNotVerified),
                        Some(_) => return Err(claim_type("email_verified", "a boolean")),
                    }
                }
                Ok(format!("{prefix}{text}"))
            }
            Source::Expression(expression) => {
                let value = self.value(&rule.place, expression)?;
                let text = value.as_text().ok_or_else(|| wrong(&rule.place, "a string"))?;
                if text.is_empty() { Err(Rejection::EmptyUsername) } else { Ok(text.to_owned()) }
            }
        }
    }

    fn required_text(&self, name: &str) -> Result<&'r str, Rejection> {
        let value = self.claims.get(name).ok_or_else(|| Rejection::MissingClaim(name.to_owned()))?;
        value.as_str().ok_or_else(|| claim_type(name, "a string"))
    }

    fn uid(&self, rule: &Rule) -> Result<String, Rejection> {
        match &rule.source {
            Source::Claim { name, .. } => self.required_text(name).map(ToOwned::to_owned),
            Source::Expression(expression) => {
                let value = self.value(&rule.place, expression)?;
                value.as_text().map(ToOwned::to_owned).ok_or_else(|| wrong(&rule.place, "a string"))
            }
        }
    }

    /// Groups and roles. From a claim: absent is none. From an expression: empty items are dropped too.
    fn texts(&self, rule: &Rule) -> Result<Vec<String>, Rejection> {
        match &rule.source {
            Source::Claim { name, prefix } => Ok(self.claim_texts(name)?.into_iter().map(|text| format!("{prefix}{text}")).collect()),
            Source::Expression(expression) => self.expression_texts(&rule.place, expression),
        }
    }

    fn claim_texts(&self, name: &str) -> Result<Vec<&'r str>, Rejection> {
        match self.claims.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or_else(|| claim_type(name, TEXTS))).collect::<Result<Vec<_>, _>>()
            }
            Some(_) => Err(claim_type(name, TEXTS)),
        }
    }

    fn expression_texts(&self, place: &str, expression: &Expression) -> Result<Vec<String>, Rejection> {
        let mut texts = self.value(place, expression)?.as_texts().ok_or_else(|| wrong(place, TEXTS))?;
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }

    /// The tenant: every item as it is, so that an empty one beside another is not healed into one tenant.
    fn tenant(&self, rule: &Rule) -> Result<Vec<String>, Rejection> {
        let mut texts = match &rule.source {
            Source::Claim { name, .. } => self.claim_texts(name)?.into_iter().map(ToOwned::to_owned).collect(),
            Source::Expression(expression) => self.value(&rule.place, expression)?.as_texts().ok_or_else(|| wrong(&rule.place, TEXTS))?,
        };
        if texts.iter().all(String::is_empty) {
            texts.clear();
        }
        Ok(texts)
    }

    /// Display name and e-mail address: absent, null and empty are none.
    fn text(&self, rule: &Rule) -> Result<Option<String>, Rejection> {
        let text = match &rule.source {
            Source::Claim { name, .. } => match self.claims.get(name) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(_) => return Err(claim_type(name, "a string")),
            },
            Source::Expression(expression) => {
                let value = self.value(&rule.place, expression)?;
                match value.as_text() {
                    Some(text) => Some(text.to_owned()),
                    None if value.is_null() => None,
                    None => return Err(wrong(&rule.place, "a string or null")),
                }
            }
        };
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Whether the address is theirs: absent and null are no; a directory says it as text.
    fn truth(&self, rule: &Rule) -> Result<bool, Rejection> {
        const EXPECTED: &str = "a boolean, or `true` or `false` as text";
        let parse = |text: &str| match text {
            _ if text.eq_ignore_ascii_case("true") => Some(true),
            _ if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        };
        match &rule.source {
            Source::Claim { name, .. } => match self.claims.get(name) {
                None | Some(Value::Null) => Ok(false),
                Some(Value::Bool(truth)) => Ok(*truth),
                Some(Value::String(text)) => parse(text).ok_or_else(|| claim_type(name, EXPECTED)),
                Some(_) => Err(claim_type(name, EXPECTED)),
            },
            Source::Expression(expression) => {
                let value = self.value(&rule.place, expression)?;
                let truth = value.as_bool().or_else(|| value.as_text().and_then(parse)).or_else(|| value.is_null().then_some(false));
                truth.ok_or_else(|| wrong(&rule.place, EXPECTED))
            }
        }
    }

    /// A POSIX number. What is none keeps nobody out: by a number people are looked up, and whoever has none is not found by it.
    fn number(&self, rule: &Rule) -> Result<Option<i64>, Rejection> {
        let number = match &rule.source {
            Source::Claim { name, .. } => match self.claims.get(name) {
                Some(Value::Number(number)) => number.as_i64(),
                Some(Value::String(text)) => decimal(text),
                _ => None,
            },
            Source::Expression(expression) => {
                let value = self.value(&rule.place, expression)?;
                value.as_integer().or_else(|| value.as_text().and_then(decimal))
            }
        };
        Ok(number.filter(|number| *number >= 0))
    }

    fn extra(&self, watch: &mut impl Watch) -> Result<BTreeMap<String, Vec<String>>, Rejection> {
        let mut extra = BTreeMap::new();
        if let Some(Value::String(jti)) = self.claims.get("jti").filter(|jti| jti.as_str() != Some("")) {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={jti}")]);
        }
        for rule in &self.mapping.extra {
            let outcome = self.expression_texts(&rule.place, &rule.expression);
            watch.step(|| Step {
                place: format!("{} ({})", rule.place, rule.key),
                rule: rule.expression.source().to_owned(),
                saw: self.saw_by(&rule.expression),
                gave: outcome.as_ref().map(texts_shown).map_err(ToString::to_string),
            });
            let texts = outcome?;
            if !texts.is_empty() {
                extra.insert(rule.key.clone(), texts);
            }
        }
        Ok(extra)
    }

    /// Required claims first, then expressions, as Kubernetes does.
    fn claim_rules(&self, watch: &mut impl Watch) -> Result<(), Rejection> {
        for rule in &self.mapping.claim_rules {
            let ClaimRule::Required { place, claim, value } = rule else { continue };
            let outcome = self
                .required_text(claim)
                .and_then(|text| if text == value { Ok(true) } else { Err(Rejection::RequiredValue(claim.clone())) });
            watch.step(|| Step {
                place: place.clone(),
                rule: format!("claim `{claim}` is `{value}`"),
                saw: self.saw(std::iter::once(claim)),
                gave: outcome.as_ref().map(|truth| Value::from(*truth)).map_err(ToString::to_string),
            });
            outcome?;
        }
        for rule in &self.mapping.claim_rules {
            let ClaimRule::Expression(rule) = rule else { continue };
            hold(self.scope(), rule, watch, || self.saw_by(&rule.expression))?;
        }
        Ok(())
    }

    fn user_rules(&self, watch: &mut impl Watch, user: &UserView<'_>) -> Result<(), Rejection> {
        if self.mapping.user_rules.is_empty() {
            return Ok(());
        }
        let scope = Scope::of_user(user, self.scope.get(), &self.mapping.patterns);
        for rule in &self.mapping.user_rules {
            hold(&scope, rule, watch, || user.shown(rule.expression.names()))?;
        }
        Ok(())
    }
}

/// Decimal digits as LDAP writes an integer (RFC 4517, 3.3.16): no sign, no leading zero.
fn decimal(text: &str) -> Option<i64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

fn value(scope: &Scope<'_>, place: &str, expression: &Expression) -> Result<Worth, Rejection> {
    scope.evaluate(expression).map_err(|reason| Rejection::Expression { place: place.to_owned(), reason })
}

/// A rule must be true.
fn hold(
    scope: &Scope<'_>,
    rule: &ExpressionRule,
    watch: &mut impl Watch,
    saw: impl FnOnce() -> Map<String, Value>,
) -> Result<(), Rejection> {
    let outcome = value(scope, &rule.place, &rule.expression)
        .and_then(|value| value.as_bool().ok_or_else(|| wrong(&rule.place, "true or false")))
        .and_then(|truth| if truth { Ok(()) } else { Err(refusal(rule)) });
    watch.step(|| Step {
        place: rule.place.clone(),
        rule: rule.expression.source().to_owned(),
        saw: saw(),
        gave: outcome.as_ref().map(|()| Value::from(true)).map_err(ToString::to_string),
    });
    outcome
}

fn refusal(rule: &ExpressionRule) -> Rejection {
    let message = if rule.message.is_empty() { format!("`{}` does not hold", rule.expression.source()) } else { rule.message.clone() };
    Rejection::Rule { place: rule.place.clone(), message }
}

fn claim_type(claim: &str, expected: &'static str) -> Rejection {
    Rejection::ClaimType { claim: claim.to_owned(), expected }
}

fn wrong(place: &str, expected: &str) -> Rejection {
    Rejection::Expression { place: place.to_owned(), reason: format!("it must give {expected}") }
}
