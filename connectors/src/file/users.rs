//! The users themselves: their form in YAML, what must hold of them, and how they are found.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::{BuildHasher as _, RandomState},
};

use claims_mapping::{Claims, Subject, UpstreamUser};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::password::StoredHash;
use crate::{ConfiguredSecret, Found, FoundGroups, Lookup, UpstreamGroup, UserQuery, names::folded};

/// One user.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileUser {
    /// Permanent, unique, and never given to anyone else; a UUID where ids are kept (`ids: verbatim`).
    pub id: String,
    /// The name that they sign in with; unique in their tenant, without regard to case.
    pub username: String,
    /// Their tenant, as the connector calls it. Required, save where the connector's tenant is fixed; then it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The hash of their password: an argon2 PHC string or a bcrypt hash. Without one they can be found and can not sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<ConfiguredSecret>,
    /// The full name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The e-mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether the address is known to be theirs.
    #[serde(default)]
    pub email_verified: bool,
    /// The groups that they are in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Their roles; they pass the connector's allow-list.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The POSIX user number, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub uid_number: Option<i64>,
    /// The POSIX number of their own group, at least 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub gid_number: Option<i64>,
    /// Whether they are switched off: no sign-in, not found.
    #[serde(default)]
    pub disabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsersFile {
    users: Vec<Spanned<FileUser>>,
}

/// One fault: where (`users[2].id`), what, and the line and column of the entry where there is a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: String,
    pub(super) message: String,
    pub(super) position: Option<(u64, u64)>,
}

struct Person {
    subject: Subject,
    tenant: Option<String>,
    username: String,
    email: Option<String>,
    display_name: Option<String>,
    /// By the names of their claims.
    numbers: [(&'static str, Option<i64>); 2],
    hash: Option<StoredHash>,
    full: Claims,
    without_groups: Claims,
}

/// All enabled users, and the hash that an unknown name is checked against. Disabled ones are checked and left out.
pub(super) struct Users {
    people: Vec<Person>,
    by_subject: HashMap<Subject, usize>,
    by_username: HashMap<String, Vec<usize>>,
    by_tenant: HashMap<Option<String>, Vec<usize>>,
    /// By tenant, then by name, who is in a group; letter for letter.
    by_group: HashMap<Option<String>, BTreeMap<String, Vec<usize>>>,
    decoys: Vec<StoredHash>,
    seed: RandomState,
}

impl Users {
    /// Reads the text of a users file.
    pub(super) fn parse(text: &str, fixed_tenant: bool) -> Result<Self, Vec<Fault>> {
        // With snippets an error would quote the lines around it, hashes included.
        let options = serde_saphyr::options! { with_snippet: false };
        let file: UsersFile = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let position = error.location().map(|at| (at.line(), at.column()));
            vec![Fault { place: "users".to_owned(), message: without_position(&error), position }]
        })?;
        Self::new(file.users.into_iter().map(|user| (Some((user.referenced.line(), user.referenced.column())), user.value)), fixed_tenant)
    }

    /// Checks all users; `fixed_tenant` says whether they are all of one tenant, so that none names one.
    pub(super) fn new(entries: impl Iterator<Item = (Option<(u64, u64)>, FileUser)>, fixed_tenant: bool) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut ids = HashMap::new();
        let mut names = HashMap::new();
        let mut people = Vec::new();
        let mut decoys = Vec::new();
        for (index, (position, user)) in entries.enumerate() {
            let mut fault = |field: &str, message: String| {
                faults.push(Fault { place: format!("users[{index}].{field}"), message, position });
            };
            match ids.entry(user.id.clone()) {
                Entry::Occupied(first) => fault("id", format!("users[{}] has the same id", first.get())),
                Entry::Vacant(place) => _ = place.insert(index),
            }
            match names.entry((user.tenant.clone(), folded(&user.username))) {
                Entry::Occupied(first) => fault("username", format!("users[{}] of the same tenant has the same username", first.get())),
                Entry::Vacant(place) => _ = place.insert(index),
            }
            match (&user.tenant, fixed_tenant) {
                (Some(_), true) => fault("tenant", "leave it out: the connector's tenant is fixed".to_owned()),
                (None, false) => fault("tenant", "give the user's tenant, or fix the connector's (`tenant: { fixed: … }`)".to_owned()),
                _ => {}
            }
            let (person, disabled) = match Person::new(user, &mut fault) {
                Some(made) => made,
                None => continue,
            };
            decoys.extend(person.hash.clone());
            if !disabled {
                people.push(person);
            }
        }
        if decoys.is_empty() {
            decoys.extend(StoredHash::of_nobody());
        }
        if faults.is_empty() { Ok(Self::indexed(people, decoys)) } else { Err(faults) }
    }

    fn indexed(people: Vec<Person>, decoys: Vec<StoredHash>) -> Self {
        let (mut by_subject, mut by_username, mut by_tenant) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut by_group: HashMap<_, BTreeMap<String, Vec<usize>>> = HashMap::new();
        for (index, person) in people.iter().enumerate() {
            by_subject.insert(person.subject.clone(), index);
            by_username.entry(person.username.clone()).or_insert_with(Vec::new).push(index);
            by_tenant.entry(person.tenant.clone()).or_insert_with(Vec::new).push(index);
            for group in person.groups() {
                let people = by_group.entry(person.tenant.clone()).or_default().entry(group.to_owned()).or_default();
                // Someone may name a group twice.
                if people.last() != Some(&index) {
                    people.push(index);
                }
            }
        }
        Self { people, by_subject, by_username, by_tenant, by_group, decoys, seed: RandomState::new() }
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.people.len()
    }

    /// What a sign-in is checked against, and the person where the name is of exactly one who has a password. Any
    /// other name gets someone's hash, always the same for the same name, so that the time taken says nothing.
    pub(super) fn sign_in(&self, tenant: Option<&str>, name: &str) -> (Option<StoredHash>, Option<UpstreamUser>) {
        let name = folded(name);
        let person = one(self.named(tenant, &name));
        match person.and_then(|person| Some((person, person.hash.clone()?))) {
            Some((person, hash)) => (Some(hash), Some(person.full())),
            None => {
                let turn = usize::try_from(self.seed.hash_one(&name) % self.decoys.len().max(1) as u64).unwrap_or_default();
                (self.decoys.get(turn).cloned(), None)
            }
        }
    }

    /// Users whose username, full name or e-mail address holds the text; `tenant` is `None` where all are of one.
    pub(super) fn search(&self, tenant: Option<&str>, query: &UserQuery) -> Found {
        let text = folded(&query.text);
        let holds = |field: &str| field.contains(&text);
        let matches = |person: &&Person| {
            holds(&person.username) || person.display_name.as_deref().is_some_and(holds) || person.email.as_deref().is_some_and(holds)
        };
        let mut hits = self.of_tenant(tenant).filter(matches);
        let users = hits.by_ref().take(query.limit).map(Person::without_groups).collect();
        Found { users, truncated: hits.next().is_some() }
    }

    /// One user; `None` where there is none, or more than one.
    pub(super) fn get(&self, tenant: Option<&str>, by: &Lookup) -> Option<UpstreamUser> {
        let person = match by {
            Lookup::Subject(subject) => {
                self.by_subject.get(subject).and_then(|i| self.people.get(*i)).filter(|p| tenant.is_none() || p.tenant.as_deref() == tenant)
            }
            Lookup::Username(name) => one(self.named(tenant, &folded(name))),
            Lookup::Mail(address) => {
                let address = folded(address);
                one(self.of_tenant(tenant).filter(|p| p.email.as_deref() == Some(&*address)))
            }
            // Of what the file says of people, only the id never changes.
            Lookup::Attribute { name, value } => {
                let subject = Subject::parse(value).ok().filter(|_| name == "id")?;
                return self.get(tenant, &Lookup::Subject(subject));
            }
            Lookup::Number { attribute, number } => {
                one(self.of_tenant(tenant).filter(|p| p.numbers.iter().any(|(name, own)| name == attribute && *own == Some(*number))))
            }
        };
        person.map(Person::full)
    }

    /// Groups whose name holds the text.
    pub(super) fn groups(&self, tenant: Option<&str>, query: &UserQuery) -> FoundGroups {
        let text = folded(&query.text);
        let of_tenant = self.by_group.get(&tenant.map(str::to_owned)).into_iter().flatten().map(|(name, _)| name);
        let mut hits = of_tenant.filter(|name| folded(name).contains(&text));
        let group = |name: &String| UpstreamGroup { name: name.clone(), display_name: None, mail: None };
        let groups = hits.by_ref().take(query.limit).map(group).collect();
        FoundGroups { groups, truncated: hits.next().is_some() }
    }

    /// Who is in a group.
    pub(super) fn members(&self, tenant: Option<&str>, group: &str, limit: usize) -> Found {
        let mut people = self.in_group(tenant, group);
        let users = people.by_ref().take(limit).map(Person::without_groups).collect();
        Found { users, truncated: people.next().is_some() }
    }

    /// The same.
    fn in_group(&self, tenant: Option<&str>, group: &str) -> impl Iterator<Item = &Person> {
        let people = self.by_group.get(&tenant.map(str::to_owned)).and_then(|groups| groups.get(group));
        people.into_iter().flatten().filter_map(|i| self.people.get(*i))
    }

    /// Whether there is such a group: someone is in it.
    pub(super) fn has_group(&self, tenant: Option<&str>, group: &str) -> bool {
        self.in_group(tenant, group).next().is_some()
    }

    fn named(&self, tenant: Option<&str>, name: &str) -> impl Iterator<Item = &Person> {
        let people = self.by_username.get(name).into_iter().flatten().filter_map(|i| self.people.get(*i));
        people.filter(move |p| tenant.is_none() || p.tenant.as_deref() == tenant)
    }

    fn of_tenant(&self, tenant: Option<&str>) -> impl Iterator<Item = &Person> {
        let some =
            tenant.map(|tenant| self.by_tenant.get(&Some(tenant.to_owned())).into_iter().flatten().filter_map(|i| self.people.get(*i)));
        let all = tenant.is_none().then_some(&self.people);
        some.into_iter().flatten().chain(all.into_iter().flatten())
    }
}

fn one<'a>(mut people: impl Iterator<Item = &'a Person>) -> Option<&'a Person> {
    let first = people.next()?;
    people.next().is_none().then_some(first)
}

impl Person {
    /// The person, and whether they are disabled.
    fn new(user: FileUser, fault: &mut impl FnMut(&str, String)) -> Option<(Self, bool)> {
        let subject = Subject::parse(&user.id).map_err(|error| fault("id", error.to_string())).ok();
        let hash = user.password.as_ref().map(|hash| StoredHash::parse(hash.expose()).map_err(|why| fault("password", why.to_owned())));
        if user.username.trim().is_empty() {
            fault("username", "it is empty".to_owned());
            return None;
        }
        for (name, _) in user.numbers().into_iter().filter(|(_, number)| number.is_some_and(|number| number < 0)) {
            fault(name, "it must be at least 0".to_owned());
        }
        let claims = |with_groups: bool| Claims::new(user.claims(with_groups));
        let full = claims(true).map_err(|error| fault("groups", error.to_string())).ok()?;
        let person = Self {
            subject: subject?,
            full,
            without_groups: claims(false).ok()?,
            username: folded(&user.username),
            email: user.email.as_deref().map(folded),
            display_name: user.display_name.as_deref().map(folded),
            numbers: user.numbers(),
            tenant: user.tenant,
            hash: hash.transpose().ok()?,
        };
        Some((person, user.disabled))
    }

    fn groups(&self) -> impl Iterator<Item = &str> {
        self.full.get("groups").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    fn full(&self) -> UpstreamUser {
        UpstreamUser { subject: self.subject.clone(), claims: self.full.clone() }
    }

    fn without_groups(&self) -> UpstreamUser {
        UpstreamUser { subject: self.subject.clone(), claims: self.without_groups.clone() }
    }
}

impl FileUser {
    fn numbers(&self) -> [(&'static str, Option<i64>); 2] {
        [("uidNumber", self.uid_number), ("gidNumber", self.gid_number)]
    }

    fn claims(&self, with_groups: bool) -> Value {
        let mut claims = Map::new();
        let mut put = |name: &str, value: Value| _ = claims.insert(name.to_owned(), value);
        put("id", self.id.as_str().into());
        put("username", self.username.as_str().into());
        for (name, value) in [("tenant", &self.tenant), ("displayName", &self.display_name), ("email", &self.email)] {
            if let Some(value) = value {
                put(name, value.as_str().into());
            }
        }
        put("email_verified", self.email_verified.into());
        put("groups", if with_groups { self.groups.clone().into() } else { Vec::<Value>::new().into() });
        put("roles", self.roles.clone().into());
        for (name, number) in self.numbers() {
            if let Some(number) = number {
                put(name, number.into());
            }
        }
        Value::Object(claims)
    }
}

/// The parser's message without the position, which stands beside it.
fn without_position(error: &serde_saphyr::Error) -> String {
    error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned()
}
