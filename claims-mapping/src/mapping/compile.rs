//! From a configuration to a [`Mapping`]: every fault of it at once, each with its place.

use std::collections::BTreeSet;

use super::{
    ClaimOrExpression, ClaimRule, ExpressionRule, ExtraMapping, ExtraRule, Mapping, MappingConfig, MappingFault, PrefixedClaimOrExpression,
    Rule, Source, ValidationRule,
};
use crate::expression::{Expression, Kind, Names, Patterns, Root, on_deep_stack};

/// Characters of a prefix, at most: it is put before every group.
const PREFIX: usize = 256;
const TEXT: &[Kind] = &[Kind::String];
const TEXT_OR_NONE: &[Kind] = &[Kind::String, Kind::Null];
const TEXTS: &[Kind] = &[Kind::String, Kind::List, Kind::Null];
const TRUTH: &[Kind] = &[Kind::Bool];
const TRUTH_OR_TEXT: &[Kind] = &[Kind::Bool, Kind::String, Kind::Null];
const NUMBER: &[Kind] = &[Kind::Number, Kind::String, Kind::Null];

/// # Errors
/// Every fault.
pub(super) fn compile(config: &MappingConfig) -> Result<Mapping, Vec<MappingFault>> {
    // Only expressions are parsed; most mappings have none, and there may be thousands.
    if !has_expressions(config) {
        return Compiler::default().mapping(config);
    }
    on_deep_stack(|| Compiler::default().mapping(config))
        .unwrap_or_else(|fault| Err(vec![MappingFault { path: "claimMappings".to_owned(), message: fault.to_string() }]))
}

fn has_expressions(config: &MappingConfig) -> bool {
    let parts = &config.claim_mappings;
    let prefixed = [&parts.username, &parts.groups];
    let plain = [&parts.uid, &parts.tenant, &parts.roles, &parts.display_name, &parts.email, &parts.email_verified];
    let numbers = [&parts.uid_number, &parts.gid_number];
    let mut rules = config.claim_validation_rules.iter().chain(&config.user_validation_rules);
    prefixed.iter().any(|part| !part.expression.is_empty())
        || plain.iter().chain(&numbers).any(|part| !part.expression.is_empty())
        || rules.any(|rule| !rule.expression.is_empty())
        || !parts.extra.is_empty()
}

#[derive(Default)]
struct Compiler {
    faults: Vec<MappingFault>,
    patterns: Patterns,
    names: Option<Names>,
}

impl Compiler {
    fn mapping(mut self, config: &MappingConfig) -> Result<Mapping, Vec<MappingFault>> {
        let mappings = &config.claim_mappings;
        let claim_rules = self.claim_rules(&config.claim_validation_rules);
        let username = self.prefixed("claimMappings.username", &mappings.username, TEXT);
        if mappings.username.claim.is_empty() && mappings.username.expression.is_empty() {
            self.fault("claimMappings.username", "`claim` or `expression` is required");
        }
        let groups = self.prefixed("claimMappings.groups", &mappings.groups, TEXTS);
        let uid = self.plain("claimMappings.uid", &mappings.uid, TEXT);
        let extra = self.extra(&mappings.extra);
        self.check_email(username.as_ref(), &extra, &claim_rules);
        let user_rules = self.user_rules(&config.user_validation_rules);
        let tenant = self.plain("claimMappings.tenant", &mappings.tenant, TEXTS);
        let roles = self.plain("claimMappings.roles", &mappings.roles, TEXTS);
        let display_name = self.plain("claimMappings.displayName", &mappings.display_name, TEXT_OR_NONE);
        let email = self.plain("claimMappings.email", &mappings.email, TEXT_OR_NONE);
        let email_verified = self.plain("claimMappings.emailVerified", &mappings.email_verified, TRUTH_OR_TEXT);
        let uid_number = self.plain("claimMappings.uidNumber", &mappings.uid_number, NUMBER);
        let gid_number = self.plain("claimMappings.gidNumber", &mappings.gid_number, NUMBER);
        match username {
            Some(username) if self.faults.is_empty() => Ok(Mapping {
                username,
                groups,
                uid,
                extra,
                claim_rules,
                user_rules,
                tenant,
                roles,
                display_name,
                email,
                email_verified,
                uid_number,
                gid_number,
                names: self.names,
                beside: BTreeSet::new(),
                patterns: self.patterns.into(),
            }),
            _ => Err(self.faults),
        }
    }

    fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.faults.push(MappingFault { path: path.into(), message: message.into() });
    }

    fn expression(&mut self, path: String, source: &str, root: Root, gives: &[Kind]) -> Option<Expression> {
        match Expression::compile(source, root, gives, &mut self.patterns) {
            Ok(expression) => {
                if root == Root::Claims {
                    self.names.get_or_insert_default().merge(expression.names());
                }
                Some(expression)
            }
            Err(fault) => {
                self.fault(path, fault.to_string());
                None
            }
        }
    }

    fn prefixed(&mut self, place: &str, config: &PrefixedClaimOrExpression, gives: &[Kind]) -> Option<Rule> {
        if let Some(prefix) = &config.prefix {
            // An empty prefix without a claim is how an absent mapping may be written; with an expression Kubernetes refuses any.
            if !config.expression.is_empty() || (config.claim.is_empty() && !prefix.is_empty()) {
                self.fault(format!("{place}.prefix"), "it goes with `claim` only; write it into the expression");
            }
            if prefix.chars().take(PREFIX + 1).count() > PREFIX {
                self.fault(format!("{place}.prefix"), format!("it is longer than {PREFIX} characters"));
            }
        }
        self.rule(place, (&config.claim, config.prefix.as_deref().unwrap_or_default(), &config.expression), gives)
    }

    fn plain(&mut self, place: &str, config: &ClaimOrExpression, gives: &[Kind]) -> Option<Rule> {
        self.rule(place, (&config.claim, "", &config.expression), gives)
    }

    fn rule(&mut self, place: &str, (claim, prefix, expression): (&str, &str, &str), gives: &[Kind]) -> Option<Rule> {
        let source = match (claim.is_empty(), expression.is_empty()) {
            (true, true) => return None,
            (false, false) => {
                self.fault(place, "`claim` and `expression` exclude one another");
                return None;
            }
            (false, true) => Source::Claim { name: claim.to_owned(), prefix: prefix.to_owned() },
            (true, false) => Source::Expression(self.expression(format!("{place}.expression"), expression, Root::Claims, gives)?),
        };
        Some(Rule { place: place.to_owned(), source })
    }

    fn claim_rules(&mut self, config: &[ValidationRule]) -> Vec<ClaimRule> {
        let (mut rules, mut claims, mut expressions) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (index, rule) in config.iter().enumerate() {
            let place = format!("claimValidationRules[{index}]");
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (true, true) => self.fault(place, "`claim` or `expression` is required"),
                (false, false) => self.fault(place, "`claim` and `expression` exclude one another"),
                (false, true) => {
                    if !rule.message.is_empty() {
                        self.fault(format!("{place}.message"), "it goes with `expression` only");
                    }
                    if !claims.insert(&rule.claim) {
                        self.fault(format!("{place}.claim"), "a rule for this claim stands above");
                    }
                    rules.push(ClaimRule::Required { place, claim: rule.claim.clone(), value: rule.required_value.clone() });
                }
                (true, false) => {
                    if !rule.required_value.is_empty() {
                        self.fault(format!("{place}.requiredValue"), "it goes with `claim` only");
                    }
                    if !expressions.insert(&rule.expression) {
                        self.fault(format!("{place}.expression"), "the same expression stands above");
                    }
                    rules.extend(self.expression_rule(place, rule, Root::Claims).map(ClaimRule::Expression));
                }
            }
        }
        rules
    }

    fn user_rules(&mut self, config: &[ValidationRule]) -> Vec<ExpressionRule> {
        let (mut rules, mut expressions) = (Vec::new(), BTreeSet::new());
        for (index, rule) in config.iter().enumerate() {
            let place = format!("userValidationRules[{index}]");
            if !rule.claim.is_empty() || !rule.required_value.is_empty() {
                self.fault(&place, "`claim` and `requiredValue` go into claimValidationRules; here `expression` and `message`");
            }
            if rule.expression.is_empty() {
                self.fault(format!("{place}.expression"), "it is required");
                continue;
            }
            if !expressions.insert(&rule.expression) {
                self.fault(format!("{place}.expression"), "the same expression stands above");
            }
            rules.extend(self.expression_rule(place, rule, Root::User));
        }
        rules
    }

    fn expression_rule(&mut self, place: String, rule: &ValidationRule, root: Root) -> Option<ExpressionRule> {
        let expression = self.expression(format!("{place}.expression"), &rule.expression, root, TRUTH)?;
        Some(ExpressionRule { place, expression, message: rule.message.clone() })
    }

    fn extra(&mut self, config: &[ExtraMapping]) -> Vec<ExtraRule> {
        let (mut rules, mut keys) = (Vec::new(), BTreeSet::new());
        for (index, extra) in config.iter().enumerate() {
            let place = format!("claimMappings.extra[{index}]");
            if let Err(message) = extra_key(&extra.key) {
                self.fault(format!("{place}.key"), message);
            } else if !keys.insert(&extra.key) {
                self.fault(format!("{place}.key"), "the same key stands above");
            }
            if extra.value_expression.is_empty() {
                self.fault(format!("{place}.valueExpression"), "it is required");
                continue;
            }
            let expression = self.expression(format!("{place}.valueExpression"), &extra.value_expression, Root::Claims, TEXTS);
            rules.extend(expression.map(|expression| ExtraRule { place, key: extra.key.clone(), expression }));
        }
        rules
    }

    /// An address that nobody verified must not become a username unnoticed: whoever names `claims.email` there must look at
    /// `claims.email_verified` somewhere too.
    fn check_email(&mut self, username: Option<&Rule>, extra: &[ExtraRule], rules: &[ClaimRule]) {
        let Some(Rule { source: Source::Expression(username), .. }) = username else { return };
        let names = |expression: &Expression, claim: &str| expression.names().fields.contains(claim);
        let rules = rules.iter().filter_map(|rule| match rule {
            ClaimRule::Expression(rule) => Some(&rule.expression),
            ClaimRule::Required { .. } => None,
        });
        let mut places = [username].into_iter().chain(extra.iter().map(|extra| &extra.expression)).chain(rules);
        if names(username, "email") && !places.any(|expression| names(expression, "email_verified")) {
            self.fault(
                "claimMappings.username.expression",
                "`claims.email` needs `claims.email_verified` in username.expression, an extra[*].valueExpression or a claimValidationRules[*].expression",
            );
        }
    }
}

/// `domain/path`: a DNS-1123 subdomain, and RFC 3986's characters of a path, all lower case; not of Kubernetes itself.
fn extra_key(key: &str) -> Result<(), &'static str> {
    let Some((domain, path)) = key.split_once('/') else {
        return Err("it must be `domain/path`, as example.org/department");
    };
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| inner(c) || c == '-') && label.starts_with(inner) && label.ends_with(inner)
    };
    if domain.len() > 253 || !domain.split('.').all(label) {
        return Err("what is before the `/` must be a DNS name in lower case");
    }
    if path.is_empty() || !path.chars().all(|c| inner(c) || "/-._~%!$&'()*+,;=:".contains(c)) {
        return Err("what is after the `/` must be a path in lower case");
    }
    if ["k8s.io", "kubernetes.io"].iter().any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))) {
        return Err("k8s.io and kubernetes.io are kept for Kubernetes");
    }
    Ok(())
}
