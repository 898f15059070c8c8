//! An entry as claims: text where an attribute is single-valued, else a list of strings; a GUID or UUID as text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use claims_mapping::{Claims, Subject, UpstreamUser};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    filter::{Attribute, Filter},
    search::Entry,
};
use crate::ConnectorError;

/// The attribute that holds the immutable, never re-used id.
#[derive(Debug, Clone)]
pub(super) struct IdAttribute(pub(super) Attribute);

impl IdAttribute {
    /// Active Directory's GUID is 16 bytes, the first three fields little-endian ([MS-DTYP] 2.3.4.2).
    fn is_guid(&self) -> bool {
        self.0.is("objectGUID")
    }

    /// The filter that finds the subject; `None` where no entry can have it.
    pub(super) fn filter(&self, subject: &Subject) -> Option<Filter> {
        if self.is_guid() {
            let guid = Uuid::try_parse(subject.as_str()).ok()?;
            return Some(Filter::Equals(self.0.clone(), guid.to_bytes_le().to_vec()));
        }
        Some(Filter::equals(&self.0, subject.as_str()))
    }

    /// The id as text: a UUID in lower case with hyphens, anything else as it stands.
    pub(super) fn text(&self, value: &[u8]) -> Option<String> {
        if self.is_guid() {
            return Uuid::from_slice_le(value).ok().map(|guid| guid.to_string());
        }
        let text = std::str::from_utf8(value).ok()?;
        Some(Uuid::try_parse(text).map_or_else(|_| text.to_owned(), |uuid| uuid.to_string()))
    }
}

/// Which attributes become claims, and in which form.
#[derive(Debug, Clone)]
pub(super) struct Presentation {
    pub(super) id: IdAttribute,
    /// The attributes that are asked for; a claim has the name that stands here.
    pub(super) attributes: Vec<String>,
    /// Those of which one value is given as text. With several values even these are a list, so that a mapping that expects
    /// one refuses, and none is picked.
    pub(super) single: Vec<String>,
}

impl Presentation {
    /// The user behind an entry, with the groups where they are known.
    pub(super) fn user(&self, entry: &Entry, groups: Vec<String>) -> Result<UpstreamUser, ConnectorError> {
        let unusable = |why: &str| ConnectorError::Unusable(format!("ldap: a user {why}"));
        let id_name = self.id.0.as_str();
        let [id] = entry.values(id_name) else {
            return Err(unusable(&format!("does not have exactly one value of the id attribute `{id_name}`")));
        };
        let subject = self.id.text(id).and_then(|text| Subject::parse(&text).ok());
        let subject = subject.ok_or_else(|| unusable(&format!("has an id attribute `{id_name}` that is no id")))?;
        let mut claims = Map::new();
        claims.insert("dn".to_owned(), entry.dn.as_str().into());
        claims.insert("groups".to_owned(), groups.into());
        for name in &self.attributes {
            let text = |value: &Vec<u8>| {
                Value::String(if self.id.0.is(name) { self.id.text(value) } else { None }.unwrap_or_else(|| readable(value)))
            };
            let values = entry.values(name);
            let value = match values {
                [] => continue,
                [value] if self.single.iter().any(|single| single.eq_ignore_ascii_case(name)) => text(value),
                values => Value::Array(values.iter().map(text).collect()),
            };
            claims.insert(name.clone(), value);
        }
        let claims = Claims::new(Value::Object(claims)).map_err(|error| unusable(&format!("can not be taken: {error}")))?;
        Ok(UpstreamUser { subject, claims })
    }
}

/// Text where it is text, else base64.
fn readable(value: &[u8]) -> String {
    std::str::from_utf8(value).map_or_else(|_| STANDARD.encode(value), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    fn presentation(id: &str) -> Presentation {
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        Presentation {
            id: IdAttribute(Attribute::parse(id).unwrap()),
            attributes: list(&[id, "uid", "mail", "cn", "photo"]),
            single: list(&[id, "UID", "mail"]),
        }
    }

    fn entry(attributes: &[(&str, &[&[u8]])]) -> Entry {
        let attributes = attributes.iter().map(|(name, values)| ((*name).to_owned(), values.iter().map(|v| v.to_vec()).collect()));
        Entry { dn: "uid=jane,dc=example".to_owned(), attributes: attributes.collect() }
    }

    fn guid() -> Vec<u8> {
        vec![0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]
    }

    #[test]
    fn attributes_become_claims() {
        let entry = entry(&[
            ("ENTRYUUID", &[UUID.to_uppercase().as_bytes()]),
            ("uid", &[b"jane"]),
            ("mail", &[b"a@x", b"b@x"]),
            ("cn", &[b"Jane"]),
            ("photo", &[&[0xff, 0x00]]),
            ("userPassword", &[b"never asked for"]),
        ]);
        let user = presentation("entryUUID").user(&entry, vec!["staff".to_owned()]).unwrap();
        assert_eq!(user.subject.as_str(), UUID);
        assert_eq!(
            Value::Object(user.claims.as_map().clone()),
            json!({
                "dn": "uid=jane,dc=example", "groups": ["staff"], "entryUUID": UUID, "uid": "jane", "mail": ["a@x", "b@x"], "cn": ["Jane"], "photo": ["/wA="]
            })
        );
    }

    #[test]
    fn a_guid_is_mixed_endian() {
        let presentation = presentation("objectGUID");
        let user = presentation.user(&entry(&[("objectGUID", &[&guid()])]), vec![]).unwrap();
        assert_eq!(user.subject.as_str(), UUID);
        assert_eq!(user.claims.get("objectGUID"), Some(&json!(UUID)));
        let Some(Filter::Equals(_, bytes)) = presentation.id.filter(&user.subject) else { panic!() };
        assert_eq!(bytes, guid());
        assert_eq!(presentation.id.filter(&Subject::parse("jane").unwrap()), None);
    }

    #[test]
    fn users_without_a_usable_id_or_with_too_much_are_refused() {
        let large = vec![b'x'; Claims::MAX_BYTES];
        for bad in [
            entry(&[("uid", &[b"jane"])]),
            entry(&[("entryUUID", &[b"a", b"b"])]),
            entry(&[("entryUUID", &[b""])]),
            entry(&[("entryUUID", &[&[0xff]])]),
            entry(&[("entryUUID", &[UUID.as_bytes()]), ("cn", &[&large])]),
        ] {
            assert!(matches!(presentation("entryUUID").user(&bad, vec![]), Err(ConnectorError::Unusable(_))));
        }
    }
}
