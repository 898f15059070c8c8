//! What the test directory holds: two tenants with same-named users and groups, and everyone who must get no identity.

/// The suffix of the directory.
pub const SUFFIX: &str = "dc=denizen,dc=test";
/// Below it are all people.
pub const PEOPLE: &str = "ou=people,dc=denizen,dc=test";
/// Below it are all groups.
pub const GROUPS: &str = "ou=groups,dc=denizen,dc=test";
/// The account that may read.
pub const READER: &str = "cn=reader,dc=denizen,dc=test";
/// Its password.
pub const READER_PASSWORD: &str = "reads-only";
/// The account that may do everything.
pub const ADMIN: &str = "cn=admin,dc=denizen,dc=test";
/// Its password.
pub const ADMIN_PASSWORD: &str = "does-everything";

/// What the directory calls the tenant `acme`.
pub const ACME: &str = "aaaaaaaa-0000-4000-8000-000000000001";
/// What the directory calls the tenant `globex`.
pub const GLOBEX: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// Everyone's password, but for the two named jane.
pub const PASSWORD: &str = "open sesame";
/// The password of jane of acme.
pub const ACME_JANE_PASSWORD: &str = "jane-of-acme";
/// The password of jane of globex.
pub const GLOBEX_JANE_PASSWORD: &str = "jane-of-globex";

/// Names with characters that mean something in a filter. All are acme's.
pub const ODD_NAMES: [&str; 4] = ["a*b", "p(q", "r)s", r"back\slash"];

/// An entry: its DN, and its attributes.
pub type Entry = (String, Vec<(&'static str, Vec<String>)>);

/// The DN of a person of `acme` or `globex`.
#[must_use]
pub fn person_dn(tenant: &str, uid: &str) -> String {
    format!("uid={},ou={tenant},{PEOPLE}", uid.replace('\\', r"\5C"))
}

/// The DN of a group of `acme` or `globex`.
#[must_use]
pub fn group_dn(tenant: &str, name: &str) -> String {
    format!("cn={name},ou={tenant},{GROUPS}")
}

/// A person. `number` becomes the `openCloudUUID`, `ou` is the tenant's short name.
#[must_use]
pub fn person(dn: &str, uid: &str, full_name: &str, number: u32, tenants: &[&str], password: &str) -> Entry {
    let ou = dn.split(",ou=").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let mut attributes = vec![
        ("objectClass", texts(&["inetOrgPerson", "openCloudEducationUser"])),
        ("uid", texts(&[uid])),
        ("cn", texts(&[full_name])),
        ("sn", texts(&[full_name.rsplit(' ').next().unwrap_or(full_name)])),
        ("displayName", texts(&[full_name])),
        ("mail", vec![mail(uid, ou)]),
        ("ou", texts(&[ou])),
        ("userPassword", texts(&[password])),
        ("openCloudUUID", vec![uuid(number)]),
        ("openCloudUserEnabled", texts(&["TRUE"])),
    ];
    if !tenants.is_empty() {
        attributes.push(("openCloudMemberOfSchool", texts(tenants)));
    }
    (dn.to_owned(), attributes)
}

/// The same person as POSIX knows them.
#[must_use]
pub fn numbered((dn, mut attributes): Entry, uid: i64, gid: i64) -> Entry {
    for (name, values) in &mut attributes {
        if *name == "objectClass" {
            values.push("posixAccount".to_owned());
        }
    }
    attributes.push(("uidNumber", vec![uid.to_string()]));
    attributes.push(("gidNumber", vec![gid.to_string()]));
    attributes.push(("homeDirectory", texts(&["/nonexistent"])));
    (dn, attributes)
}

/// The same person, disabled.
#[must_use]
pub fn disabled((dn, mut attributes): Entry) -> Entry {
    attributes.retain(|(name, _)| *name != "openCloudUserEnabled");
    attributes.push(("openCloudUserEnabled", texts(&["FALSE"])));
    (dn, attributes)
}

/// People with numbers, whom nobody but [`by_number`](crate::directory_conformance::by_number) knows: `pia` and `pit` of acme have one group,
/// `pam` of globex has pia's number, and `dan` of acme is disabled.
#[must_use]
pub fn numbered_people() -> Vec<Entry> {
    let of = |tenant: &str, uid: &str, name: &str, number: u32, tenant_uuid: &str| {
        person(&person_dn(tenant, uid), uid, name, number, &[tenant_uuid], PASSWORD)
    };
    vec![
        numbered(of("acme", "pia", "Pia Posix", 21, ACME), 5001, 500),
        numbered(of("acme", "pit", "Pit Posix", 22, ACME), 5002, 500),
        numbered(of("globex", "pam", "Pam Posix", 23, GLOBEX), 5001, 700),
        disabled(numbered(of("acme", "dan", "Dan Posix", 24, ACME), 5004, 504)),
    ]
}

/// The `openCloudUUID` of the person with this number.
#[must_use]
pub fn uuid(number: u32) -> String {
    format!("cccccccc-0000-4000-8000-{number:012}")
}

/// The mail address of a person.
#[must_use]
pub fn mail(uid: &str, tenant: &str) -> String {
    format!("{}@{tenant}.example", uid.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

/// A group of a tenant.
#[must_use]
pub fn group(tenant: &str, name: &str, tenant_uuid: &str, members: &[String]) -> Entry {
    let attributes = vec![
        ("objectClass", texts(&["groupOfNames", "openCloudEducationClass"])),
        ("cn", texts(&[name])),
        ("member", members.to_vec()),
        ("openCloudMemberOfSchool", texts(&[tenant_uuid])),
    ];
    (group_dn(tenant, name), attributes)
}

fn unit(dn: String, name: &str) -> Entry {
    (dn, vec![("objectClass", texts(&["organizationalUnit"])), ("ou", texts(&[name]))])
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// The suffix, the units, the tenants and the reader; then, for [`Slapd::start`](super::Slapd::start), the people and groups.
#[must_use]
pub fn skeleton() -> Vec<Entry> {
    let mut entries = vec![(
        SUFFIX.to_owned(),
        vec![("objectClass", texts(&["dcObject", "organization"])), ("dc", texts(&["denizen"])), ("o", texts(&["Denizen's tests"]))],
    )];
    for name in ["people", "groups", "tenants"] {
        entries.push(unit(format!("ou={name},{SUFFIX}"), name));
    }
    let reader = vec![
        ("objectClass", texts(&["organizationalRole", "simpleSecurityObject"])),
        ("cn", texts(&["reader"])),
        ("userPassword", texts(&[READER_PASSWORD])),
    ];
    entries.push((READER.to_owned(), reader));
    entries
}

/// The two tenants with their people and groups.
#[must_use]
pub fn everyone() -> Vec<Entry> {
    let mut entries = skeleton();
    for (name, uuid) in [("acme", ACME), ("globex", GLOBEX)] {
        entries.push(unit(format!("ou={name},{PEOPLE}"), name));
        entries.push(unit(format!("ou={name},{GROUPS}"), name));
        entries.push((
            format!("ou={name},ou=tenants,{SUFFIX}"),
            vec![
                ("objectClass", texts(&["organizationalUnit", "openCloudEducationSchool"])),
                ("ou", texts(&[name])),
                ("openCloudUUID", texts(&[uuid])),
                ("openCloudEducationExternalId", texts(&[name])),
            ],
        ));
    }
    let acme = |uid: &str| person_dn("acme", uid);
    let globex = |uid: &str| person_dn("globex", uid);
    entries.push(person(&acme("jane"), "jane", "Jane Doe", 1, &[ACME], ACME_JANE_PASSWORD));
    entries.push(person(&globex("jane"), "jane", "Jane Roe", 2, &[GLOBEX], GLOBEX_JANE_PASSWORD));
    entries.push(person(&acme("joe"), "joe", "Joe Doe", 3, &[ACME], PASSWORD));
    entries.push(person(&globex("greta"), "greta", "Greta Roe", 4, &[GLOBEX], PASSWORD));
    // Two who are in no tenant, or in two.
    entries.push(person(&format!("uid=nils,{PEOPLE}"), "nils", "Nils None", 5, &[], PASSWORD));
    entries.push(person(&format!("uid=zoe,{PEOPLE}"), "zoe", "Zoe Both", 6, &[ACME, GLOBEX], PASSWORD));
    entries.push(disabled(person(&acme("dora"), "dora", "Dora Disabled Doe", 7, &[ACME], PASSWORD)));
    for (number, uid) in (10..).zip(ODD_NAMES) {
        entries.push(person(&acme(uid), uid, &format!("Odd {uid}"), number, &[ACME], PASSWORD));
    }

    entries.push(group("acme", "staff", ACME, &[acme("jane"), acme("joe")]));
    entries.push(group("globex", "staff", GLOBEX, &[globex("jane"), globex("greta")]));
    entries.push(group("globex", "owners", GLOBEX, &[globex("jane")]));
    // A tenant's group that lists another tenant's user.
    entries.push(group("globex", "admins", GLOBEX, &[acme("jane"), globex("greta")]));
    // Groups in groups, in a circle.
    entries.push(group("acme", "inner", ACME, &[acme("jane"), group_dn("acme", "outer")]));
    entries.push(group("acme", "outer", ACME, &[group_dn("acme", "inner")]));
    // An own group that is reached over another tenant's only.
    entries.push(group("globex", "bridge", GLOBEX, &[group_dn("acme", "inner")]));
    entries.push(group("acme", "beyond", ACME, &[group_dn("globex", "bridge")]));
    entries
}
