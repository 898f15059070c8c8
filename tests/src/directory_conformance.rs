//! What every connector with a directory and sign-in by password has to do, whatever is behind it.
//!
//! The directory must hold the people of [`content`](crate::slapd::content): jane in both tenants, joe of acme, greta of
//! globex, dora of acme who is disabled, and those with odd names; and no one else in either tenant.

use std::sync::Arc;

use claims_mapping::{ConnectorId, Subject, Tenant, TenantId, TenantLabel, TenantScope, UpstreamUser};
use connectors::{Connector, Directory, Found, LoginName, Lookup, PasswordLogin, Secret, UserQuery};

use crate::slapd::content::{ACME_JANE_PASSWORD, GLOBEX_JANE_PASSWORD, ODD_NAMES, PASSWORD, mail, uuid};

/// A tenant, and what a connector calls it.
#[must_use]
pub fn tenant(id: &str, connector: &ConnectorId, external_id: &str) -> Arc<Tenant> {
    let id = TenantId::parse(id).unwrap();
    Arc::new(Tenant {
        label: TenantLabel::derived(&id),
        display_name: id.to_string(),
        id,
        external_ids: [(connector.clone(), external_id.to_owned())].into(),
        connectors: None,
        disabled: false,
    })
}

/// A connector and the two tenants.
pub struct Fixture<'a> {
    /// The connector.
    pub connector: &'a Connector,
    /// The attribute that holds the subject, as the directory calls it.
    pub id_attribute: &'a str,
    /// The tenant `acme`, as the connector knows it.
    pub acme: Arc<Tenant>,
    /// The tenant `globex`, as the connector knows it.
    pub globex: Arc<Tenant>,
    /// What it can not do.
    pub lacks: Lacks,
}

/// What a directory may lack. It says so in the connectors' README.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lacks {
    /// It finds people by their names only, and not by their full names.
    pub full_names: bool,
    /// It signs no one in of whom the tenant is not known.
    pub sign_in_anywhere: bool,
}

impl Fixture<'_> {
    fn directory(&self) -> &dyn Directory {
        self.connector.directory.as_deref().expect("it has a directory")
    }

    fn login(&self) -> &dyn PasswordLogin {
        self.connector.password.as_deref().expect("it has sign-in by password")
    }

    /// Searches.
    pub async fn search(&self, tenant: &Arc<Tenant>, text: &str, limit: usize) -> Found {
        let query = UserQuery { text: text.to_owned(), limit };
        self.directory().search(&TenantScope::of_verified_caller(Arc::clone(tenant)), &query).await.unwrap()
    }

    /// Looks someone up.
    pub async fn get(&self, tenant: &Arc<Tenant>, by: Lookup) -> Option<UpstreamUser> {
        self.directory().get(&TenantScope::of_verified_caller(Arc::clone(tenant)), &by).await.unwrap()
    }

    /// The subject of a username.
    pub async fn named(&self, tenant: &Arc<Tenant>, name: &str) -> Option<Subject> {
        self.get(tenant, Lookup::Username(name.to_owned())).await.map(|user| user.subject)
    }

    /// Signs in.
    pub async fn sign_in(&self, tenant: Option<&Arc<Tenant>>, name: &str, password: &str) -> Option<UpstreamUser> {
        let login = LoginName { name: name.to_owned(), tenant: tenant.cloned(), ..LoginName::default() };
        self.login().authenticate(&login, &Secret::new(password.to_owned())).await.unwrap().map(|proven| proven.user)
    }
}

/// The subjects of a search, in order.
#[must_use]
pub fn subjects(found: &Found) -> Vec<Subject> {
    let mut subjects: Vec<_> = found.users.iter().map(|user| user.subject.clone()).collect();
    subjects.sort();
    subjects
}

/// The names of a user's groups.
#[must_use]
pub fn groups(user: &UpstreamUser) -> Vec<String> {
    let groups = user.claims.get("groups").cloned().unwrap_or_default();
    serde_json::from_value(groups).unwrap_or_default()
}

/// All of it.
pub async fn conforms(fixture: &Fixture<'_>) {
    is_a_directory(fixture).await;
    signs_in(fixture).await;
}

/// All of it but sign-in.
pub async fn is_a_directory(fixture: &Fixture<'_>) {
    looks_up(fixture).await;
    searches(fixture).await;
    takes_text_literally(fixture).await;
    joins(fixture).await;
}

async fn looks_up(fixture: &Fixture<'_>) {
    let Fixture { acme, globex, .. } = fixture;
    let (ours, theirs) = (fixture.named(acme, "jane").await.unwrap(), fixture.named(globex, "jane").await.unwrap());
    assert_ne!(ours, theirs, "same-named people of two tenants");
    assert_eq!(fixture.named(acme, "JANE").await.as_ref(), Some(&ours), "names do not differ in case");
    for (tenant, other, subject) in [(acme, globex, &ours), (globex, acme, &theirs)] {
        let found = fixture.get(tenant, Lookup::Subject(subject.clone())).await.expect("found by their subject");
        assert_eq!(&found.subject, subject);
        assert_eq!(groups(&found), fixture.get(tenant, Lookup::Username("jane".to_owned())).await.map(|u| groups(&u)).unwrap());
        assert!(groups(&found).contains(&"staff".to_owned()), "a look-up has the groups");
        assert_eq!(fixture.get(other, Lookup::Subject(subject.clone())).await, None, "another tenant's id is an unknown id");
    }
    assert_eq!(fixture.get(acme, Lookup::Mail(mail("jane", "acme"))).await.map(|u| u.subject), Some(ours));
    assert_eq!(fixture.get(acme, Lookup::Mail(mail("jane", "globex"))).await, None);
    assert_eq!(fixture.get(acme, Lookup::Mail(String::new())).await, None);
    for name in ["greta", "dora", "nobody", "", "*", "jan*"] {
        assert_eq!(fixture.named(acme, name).await, None, "{name:?}");
    }
    assert_eq!(fixture.get(acme, Lookup::Subject(Subject::parse("no-such-subject").unwrap())).await, None);
}

/// Look-ups by number, in a directory that holds [`numbered_people`](crate::slapd::content::numbered_people) as well. Its connector's mapping takes the
/// numbers from `uidNumber` and `gidNumber`.
pub async fn by_number(fixture: &Fixture<'_>) {
    let Fixture { acme, globex, .. } = fixture;
    for (tenant, attribute, number, found) in [
        (acme, "uidNumber", 5001, Some(21)),
        (acme, "uidNumber", 5002, Some(22)),
        (globex, "uidNumber", 5001, Some(23)),
        (globex, "gidNumber", 700, Some(23)),
        // Two of them have it; it is the other tenant's; they are disabled; nobody has it.
        (acme, "gidNumber", 500, None),
        (globex, "uidNumber", 5002, None),
        (acme, "gidNumber", 700, None),
        (acme, "uidNumber", 5004, None),
        (acme, "gidNumber", 504, None),
        (acme, "uidNumber", 0, None),
        (acme, "uidNumber", i64::MAX, None),
    ] {
        let user = fixture.get(tenant, Lookup::Number { attribute: attribute.to_owned(), number }).await;
        assert_eq!(user.map(|user| user.subject.to_string()), found.map(uuid), "{attribute} {number} of {}", tenant.id);
    }
    let scope = TenantScope::of_verified_caller(Arc::clone(acme));
    for attribute in ["employeeNumber", "uid", "userPassword", "uidNumber)(uid"] {
        let by = Lookup::Number { attribute: attribute.to_owned(), number: 5001 };
        assert!(!matches!(fixture.directory().get(&scope, &by).await, Ok(Some(_))), "{attribute} is no number of the mapping's");
    }
}

/// Whether someone of acme, whose subject is the UUID of this number, is found: by everything or by nothing.
///
/// # Panics
/// When some things find them and others do not.
pub async fn is_found(fixture: &Fixture<'_>, uid: &str, number: u32) -> bool {
    let Fixture { acme, id_attribute, .. } = fixture;
    let subject = Subject::parse(&uuid(number)).unwrap();
    let mut found = Vec::new();
    for by in [
        Lookup::Subject(subject.clone()),
        Lookup::Username(uid.to_owned()),
        Lookup::Mail(mail(uid, "acme")),
        Lookup::Attribute { name: (*id_attribute).to_owned(), value: uuid(number) },
    ] {
        found.push(fixture.get(acme, by).await.is_some_and(|user| user.subject == subject));
    }
    for text in ["", uid, &mail(uid, "acme")] {
        found.push(subjects(&fixture.search(acme, text, 100).await).contains(&subject));
    }
    assert!(found.iter().all(|one| *one == found[0]), "{uid}: {found:?}");
    found[0]
}

async fn joins(fixture: &Fixture<'_>) {
    let Fixture { acme, globex, id_attribute, .. } = fixture;
    let by = |value: &str| Lookup::Attribute { name: (*id_attribute).to_owned(), value: value.to_owned() };
    let ours = fixture.named(acme, "jane").await.unwrap();
    let found = fixture.get(acme, by(ours.as_str())).await.expect("found by the attribute");
    assert_eq!(found.subject, ours);
    assert!(groups(&found).contains(&"staff".to_owned()), "a look-up has the groups");
    assert_eq!(fixture.get(globex, by(ours.as_str())).await, None, "another tenant's value is an unknown value");
    let longer = format!("{ours} ");
    for value in ["", " ", "*", "no-such-value", "\0", &longer, "*)(uid=*"] {
        assert_eq!(fixture.get(acme, by(value)).await, None, "{value:?}");
    }
}

async fn searches(fixture: &Fixture<'_>) {
    let Fixture { acme, globex, .. } = fixture;
    let (jane, joe) = (fixture.named(acme, "jane").await.unwrap(), fixture.named(acme, "joe").await.unwrap());
    let (their_jane, greta) = (fixture.named(globex, "jane").await.unwrap(), fixture.named(globex, "greta").await.unwrap());
    let sorted = |mut list: Vec<Subject>| {
        list.sort();
        list
    };
    assert_eq!(subjects(&fixture.search(acme, "jane", 10).await), std::slice::from_ref(&jane));
    assert_eq!(subjects(&fixture.search(globex, "JAN", 10).await), std::slice::from_ref(&their_jane), "without regard to case");
    let does = if fixture.lacks.full_names { Vec::new() } else { sorted(vec![jane.clone(), joe.clone()]) };
    assert_eq!(subjects(&fixture.search(acme, "doe", 10).await), does, "by full name; dora is disabled");
    let joes = sorted(vec![joe.clone()]);
    assert_eq!(subjects(&fixture.search(acme, "JO", 10).await), joes, "by a part of the name");
    assert!(fixture.search(globex, "doe", 10).await.users.is_empty());
    assert!(fixture.search(acme, "globex.example", 10).await.users.is_empty(), "the other tenant's addresses find nothing");
    assert_eq!(
        subjects(&fixture.search(globex, "", 10).await),
        sorted(vec![their_jane, greta]),
        "an empty text finds everyone of the tenant"
    );

    let all = fixture.search(acme, "", 100).await;
    assert_eq!(all.users.len(), 2 + ODD_NAMES.len());
    assert!(!all.truncated);
    assert!(all.users.iter().all(|user| groups(user).is_empty()), "a search has no groups");
    assert!(!fixture.search(acme, "", all.users.len()).await.truncated, "exactly as many as were asked for");
    for limit in [1, all.users.len() - 1] {
        let some = fixture.search(acme, "", limit).await;
        assert_eq!((some.users.len(), some.truncated), (limit, true));
    }
}

async fn takes_text_literally(fixture: &Fixture<'_>) {
    let Fixture { acme, .. } = fixture;
    for (text, name) in [("*", "a*b"), ("(", "p(q"), (")", "r)s"), ("\\", r"back\slash")] {
        let expected = fixture.named(acme, name).await.expect("odd names are found");
        assert_eq!(subjects(&fixture.search(acme, text, 10).await), [expected], "{text}");
    }
    for text in ["**", "*)(uid=*", "jane)(uid=*", "\0", "jane\0", "\\2a", "x*y", ")(|(uid=*"] {
        assert!(fixture.search(acme, text, 10).await.users.is_empty(), "{text:?}");
        assert_eq!(fixture.named(acme, text).await, None, "{text:?}");
        assert_eq!(fixture.get(acme, Lookup::Mail(text.to_owned())).await, None, "{text:?}");
    }
}

async fn signs_in(fixture: &Fixture<'_>) {
    let Fixture { acme, globex, .. } = fixture;
    let cases = [(acme, ACME_JANE_PASSWORD, GLOBEX_JANE_PASSWORD), (globex, GLOBEX_JANE_PASSWORD, ACME_JANE_PASSWORD)];
    for (tenant, right, wrong) in cases {
        let user = fixture.sign_in(Some(tenant), "jane", right).await.expect("the right password");
        assert_eq!(Some(&user.subject), fixture.named(tenant, "jane").await.as_ref());
        assert!(groups(&user).contains(&"staff".to_owned()), "a sign-in has the groups");
        assert_eq!(fixture.sign_in(Some(tenant), "jane", wrong).await, None, "the other jane's password");
    }
    let anywhere = fixture.sign_in(None, "joe", PASSWORD).await.is_some();
    assert_ne!(anywhere, fixture.lacks.sign_in_anywhere, "a name that only one person has needs no tenant");
    assert_eq!(fixture.sign_in(None, "jane", ACME_JANE_PASSWORD).await, None, "t25: two people have this name");
    assert_eq!(fixture.sign_in(Some(acme), "greta", PASSWORD).await, None, "another tenant's person");
    assert_eq!(fixture.sign_in(Some(acme), "dora", PASSWORD).await, None, "disabled");
    assert_eq!(fixture.sign_in(Some(acme), "nobody", PASSWORD).await, None);
    for password in ["", " ", "\t \n", "\0", "open sesame\0", "\0open sesame", "Open sesame"] {
        assert_eq!(fixture.sign_in(Some(acme), "joe", password).await, None, "t23: {password:?}");
    }
    for name in
        ["", "*", "j*e", "joe\0", " joe", "joe ", "joe\u{200b}", "jo\u{ad}e", "*)(uid=joe", "joe)(objectClass=*", "joe)(|(uid=*", r"j\6fe"]
    {
        assert_eq!(fixture.sign_in(Some(acme), name, PASSWORD).await, None, "t24: {name:?}");
    }
    for name in ODD_NAMES {
        assert!(fixture.sign_in(Some(acme), name, PASSWORD).await.is_some(), "t24: {name:?}");
    }
}
