//! People in LibreGraph's form.

use claims_mapping::Identity;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    super::{parameters::Parameters, users::page_token},
    query::{Property, Shown},
};
use crate::{directory::PeoplePage, tokens::AccessClaims};

/// What is said of someone.
pub(super) struct Person<'p> {
    id: Uuid,
    username: &'p str,
    display_name: Option<&'p str>,
    mail: Option<&'p str>,
    /// Their groups, each with its id, where they are shown.
    pub(super) groups: Vec<(Uuid, &'p String)>,
}

impl<'p> From<&'p Identity> for Person<'p> {
    fn from(person: &'p Identity) -> Self {
        Self {
            id: person.id().opaque_id(),
            username: person.username(),
            display_name: person.display_name(),
            mail: person.email(),
            groups: Vec::new(),
        }
    }
}

impl<'p> From<&'p AccessClaims> for Person<'p> {
    /// A service, of which there is nothing but its token.
    fn from(claims: &'p AccessClaims) -> Self {
        Self { id: claims.sub, username: &claims.preferred_username, display_name: None, mail: None, groups: Vec::new() }
    }
}

/// One person, of whom `shown` is shown. Names are those within the tenant; who has none for people is called by their username.
pub(super) fn user(issuer: &str, person: &Person<'_>, shown: &Shown) -> Value {
    let mut user = Map::new();
    for property in Property::ALL.into_iter().filter(|property| shown.shows(*property)) {
        let value = match property {
            Property::Id => Some(json!(person.id)),
            Property::DisplayName => Some(json!(person.display_name.unwrap_or(person.username))),
            Property::UserType => Some(json!("Member")),
            Property::Identities => Some(json!([{"issuer": issuer, "issuerAssignedId": person.id}])),
            Property::OnPremisesSamAccountName => Some(json!(person.username)),
            Property::Mail => person.mail.map(|mail| json!(mail)),
        };
        user.extend(value.map(|value| (property.name().to_owned(), value)));
    }
    if shown.groups {
        user.insert("memberOf".to_owned(), person.groups.iter().map(|(id, name)| json!({"id": id, "displayName": name})).collect());
    }
    Value::Object(user)
}

/// A page, and where the next one is (OData 4.01 JSON, 4.5.5). What is said besides are annotations of ours, which clients that do not know
/// them pass over (OData 4.01 JSON, 4.5).
pub(super) fn page(issuer: &str, people: &[Person<'_>], page: &PeoplePage, parameters: &Parameters, shown: &Shown) -> Value {
    let people: Vec<_> = people.iter().map(|person| user(issuer, person, shown)).collect();
    let mut answer = json!({"value": people});
    if let Some(next) = &page.next {
        let kept = parameters.pairs().filter(|(name, _)| *name != "$skiptoken");
        let query =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).append_pair("$skiptoken", &page_token(next)).finish();
        set(&mut answer, "@odata.nextLink", json!(format!("{issuer}/graph/v1.0/users?{query}")));
    }
    if page.truncated {
        set(&mut answer, "@denizen.truncated", json!(true));
    }
    if !page.incomplete.is_empty() {
        set(&mut answer, "@denizen.incomplete", json!(page.incomplete));
    }
    answer
}

fn set(answer: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = answer {
        members.insert(name.to_owned(), value);
    }
}
