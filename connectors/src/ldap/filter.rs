//! Search filters and DN values: the one place that escapes.
//!
//! A filter is a value of [`Filter`]; only here does it become text (RFC 4515). What a person typed can stand in a value
//! and nowhere else. What an operator wrote is parsed when the configuration is loaded.

use std::fmt::Write as _;

/// The most characters of an operator's filter.
const MOST_LENGTH: usize = 4096;
/// The most brackets inside brackets of an operator's filter.
const MOST_DEPTH: usize = 16;
/// What stands for the tenant in a template.
pub(super) const TENANT: &str = "{tenant}";

/// An attribute's name or OID (RFC 4512, 1.4), without options.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attribute(String);

impl Attribute {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let name = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let oid = text.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit())) && text.contains('.');
        if (name || oid) && text.len() <= 128 { Ok(Self(text.to_owned())) } else { Err("it is not the name of an attribute".to_owned()) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Names are the same without regard to case (RFC 4512, 2.5).
    pub(super) fn is(&self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }
}

/// A filter that an operator wrote: well formed, and bounded in length and depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OperatorFilter(String);

impl OperatorFilter {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(TENANT) {
            return Err("`{tenant}` has no meaning here; it belongs into tenantFilter or tenantBase".to_owned());
        }
        well_formed(text).map(|()| Self(text.to_owned()))
    }
}

/// A filter with `{tenant}` in values of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilterTemplate(String);

impl FilterTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains(TENANT) {
            return Err("it must hold `{tenant}`, as `(ou={tenant})` does".to_owned());
        }
        // `x` is no hexadecimal digit, so that a backslash before the place is a fault and can not swallow what comes there.
        well_formed(&text.replace(TENANT, "x"))?;
        let mut item = "";
        for (part, _) in text.match_indices(TENANT).map(|(at, found)| (text.get(..at).unwrap_or_default(), found)) {
            item = part.rsplit('(').next().unwrap_or_default();
            if !item.contains('=') || item.contains(')') {
                break;
            }
        }
        if !item.contains('=') || item.contains(')') {
            return Err("`{tenant}` may stand in a value only, as in `(ou={tenant})`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn of(&self, tenant: &str) -> Filter {
        Filter::Operator(OperatorFilter(self.0.replace(TENANT, &escaped(tenant.as_bytes()))))
    }
}

fn well_formed(text: &str) -> Result<(), String> {
    let malformed = || "it is not a well-formed filter (RFC 4515), as `(objectClass=person)` is".to_owned();
    if text.len() > MOST_LENGTH {
        return Err(format!("it is longer than {MOST_LENGTH} bytes"));
    }
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(malformed)?,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > MOST_DEPTH {
        return Err(format!("it nests deeper than {MOST_DEPTH} brackets"));
    }
    // The parser of the protocol crate also takes an item without brackets; inside an AND that would be another filter.
    if depth != 0 || !text.starts_with('(') || !text.ends_with(')') || ldap3::parse_filter(text).is_err() {
        return Err(malformed());
    }
    Ok(())
}

/// A search filter (RFC 4511, 4.5.1.7), as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Filter {
    /// All of them; of none, true (RFC 4526).
    And(Vec<Filter>),
    /// Any of them; of none, false (RFC 4526).
    Or(Vec<Filter>),
    /// The attribute has this value, by its own matching rule.
    Equals(Attribute, Vec<u8>),
    /// The attribute has a value that holds this text, by its own matching rule.
    Contains(Attribute, String),
    /// The attribute is there.
    Present(Attribute),
    /// What an operator wrote.
    Operator(OperatorFilter),
}

impl Filter {
    pub(super) fn equals(attribute: &Attribute, value: &str) -> Self {
        Self::Equals(attribute.clone(), value.as_bytes().to_vec())
    }

    /// The filter as text, after RFC 4515.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        let list = |out: &mut String, sign: &str, filters: &[Self]| {
            out.push('(');
            out.push_str(sign);
            for filter in filters {
                filter.write(out);
            }
            out.push(')');
        };
        // Writing to a String does not fail.
        _ = match self {
            Self::And(filters) => return list(out, "&", filters),
            Self::Or(filters) => return list(out, "|", filters),
            Self::Equals(attribute, value) => write!(out, "({}={})", attribute.0, escaped(value)),
            // An empty text would make `=**`, which is malformed: everything holds it, so all that is asked is presence.
            Self::Contains(attribute, text) if text.is_empty() => return Self::Present(attribute.clone()).write(out),
            Self::Contains(attribute, text) => write!(out, "({}=*{}*)", attribute.0, escaped(text.as_bytes())),
            Self::Present(attribute) => write!(out, "({}=*)", attribute.0),
            Self::Operator(OperatorFilter(text)) => write!(out, "{text}"),
        };
    }
}

/// A value in a filter: what RFC 4515, section 3, reserves, and every byte that is not printable ASCII or part of UTF-8.
fn escaped(value: &[u8]) -> String {
    let text = std::str::from_utf8(value).ok();
    let mut out = String::with_capacity(value.len() + 8);
    let escape = |out: &mut String, byte: u8| _ = write!(out, "\\{byte:02x}");
    match text {
        Some(text) => {
            for c in text.chars() {
                match c {
                    '*' | '(' | ')' | '\\' | '\0'..='\x1f' | '\x7f' => escape(&mut out, u8::try_from(c).unwrap_or_default()),
                    _ => out.push(c),
                }
            }
        }
        None => value.iter().for_each(|byte| escape(&mut out, *byte)),
    }
    out
}

/// A DN with `{tenant}` as the whole value of one of its RDNs, or without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnTemplate(String);

impl DnTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().any(char::is_control) || text.len() > MOST_LENGTH {
            return Err("it is not a DN".to_owned());
        }
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(TENANT) {
            if !before.ends_with('=') || !(after.is_empty() || after.starts_with([',', '+'])) {
                return Err("`{tenant}` must be the whole value of an RDN, as in `ou={tenant},dc=example`".to_owned());
            }
            rest = after;
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn has_tenant(&self) -> bool {
        self.0.contains(TENANT)
    }

    /// The DN; one with a tenant in it only where a tenant is given.
    pub(super) fn of(&self, tenant: Option<&str>) -> Option<String> {
        match tenant {
            Some(tenant) => Some(self.0.replace(TENANT, &dn_value(tenant))),
            None => (!self.has_tenant()).then(|| self.0.clone()),
        }
    }
}

/// A value in a DN (RFC 4514, 2.4).
fn dn_value(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 8);
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        match c {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', c]),
            '#' | ' ' if at == 0 => out.extend(['\\', c]),
            ' ' if at == last => out.extend(['\\', c]),
            '\0'..='\x1f' | '\x7f' => _ = write!(out, "\\{:02x}", u32::from(c)),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(name: &str) -> Attribute {
        Attribute::parse(name).unwrap()
    }

    #[test]
    fn t24_what_is_reserved_is_escaped() {
        let uid = attribute("uid");
        assert_eq!(Filter::equals(&uid, "*)(uid=*").render(), r"(uid=\2a\29\28uid=\2a)");
        assert_eq!(Filter::equals(&uid, "a\\b\0").render(), r"(uid=a\5cb\00)");
        assert_eq!(Filter::Contains(uid.clone(), "é*".to_owned()).render(), r"(uid=*é\2a*)");
        assert_eq!(Filter::Contains(uid.clone(), String::new()).render(), "(uid=*)");
        assert_eq!(Filter::Equals(uid.clone(), vec![0xff, 0x41]).render(), r"(uid=\ff\41)");
        let both = Filter::And(vec![Filter::Or(vec![Filter::equals(&uid, "a"), Filter::Present(attribute("mail"))]), Filter::And(vec![])]);
        assert_eq!(both.render(), "(&(|(uid=a)(mail=*))(&))");
    }

    #[test]
    fn operators_filters_are_checked() {
        for good in ["(objectClass=person)", "(&(a=b)(|(c=*d*)(!(e=f))))", "(memberOf:1.2.840.113556.1.4.1941:=cn=x)", r"(a=\2a)"] {
            assert_eq!(OperatorFilter::parse(good).map(|f| f.0).as_deref(), Ok(good));
        }
        let deep = |n| format!("{}(a=b){}", "(!".repeat(n), ")".repeat(n));
        assert!(OperatorFilter::parse(&deep(15)).is_ok());
        for bad in ["", "a=b", "(a=b", "(a=b))", "(a=b)(c=d)", "(a)", "(&", "(a=b)c", "(=b)", "(ou={tenant})", &deep(16), &deep(5000)] {
            assert!(OperatorFilter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn templates_take_the_tenant_in_values_only() {
        let filter = FilterTemplate::parse("(&(ou={tenant})(l=a{tenant}b))").unwrap();
        assert_eq!(filter.of("a)(b=*").render(), r"(&(ou=a\29\28b=\2a)(l=aa\29\28b=\2ab))");
        for bad in
            ["(ou=x)", "({tenant}=x)", "{tenant}", r"(ou=\{tenant})", r"(ou=\2{tenant})", "(&(a={tenant})({tenant}=b))", "(a=b){tenant}"]
        {
            assert!(FilterTemplate::parse(bad).is_err(), "{bad}");
        }
        let base = DnTemplate::parse("ou={tenant},dc=example").unwrap();
        assert_eq!(base.of(Some("a,dc=other")).as_deref(), Some(r"ou=a\,dc\=other,dc=example"));
        assert_eq!(base.of(Some(" #a ")).as_deref(), Some(r"ou=\ #a\ ,dc=example"));
        assert_eq!(base.of(None), None);
        assert_eq!(DnTemplate::parse("dc=example").unwrap().of(None).as_deref(), Some("dc=example"));
        for bad in ["ou=a{tenant},dc=x", "ou={tenant}b,dc=x", "{tenant},dc=x", "dc=a\n"] {
            assert!(DnTemplate::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn attribute_names_are_names() {
        for good in ["uid", "openCloudUUID", "x-y", "2.5.4.3"] {
            assert!(Attribute::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a=b", "a)(b", "1a", "a;binary", "é", "*", "1..2", "7"] {
            assert!(Attribute::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Whatever is typed comes out of the protocol's own parser as one item, whose value is what was typed.
        #[test]
        fn t24_typed_text_stays_a_value(value in any::<String>()) {
            let expected = Filter::Equals(attribute("uid"), value.clone().into_bytes());
            let text = expected.render();
            let parsed = ldap3::asn1::ASNTag::into_structure(ldap3::parse_filter(&text).unwrap());
            prop_assert_eq!(parsed.id, 3);
            let parts = parsed.expect_constructed().unwrap();
            prop_assert_eq!(parts.len(), 2);
            prop_assert_eq!(parts[1].clone().expect_primitive().unwrap(), value.into_bytes());
        }
    }
}
