//! A directory of many people in many tenants, for measurements.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use super::content::{self, PEOPLE};

/// The uid of a person.
#[must_use]
pub fn large_uid(person: u32) -> String {
    format!("user{person:06}")
}

/// The short name of a tenant.
#[must_use]
pub fn large_tenant(tenant: u32) -> String {
    format!("tenant{tenant:05}")
}

/// What the directory calls a tenant.
#[must_use]
pub fn large_tenant_uuid(tenant: u32) -> String {
    format!("dddddddd-0000-4000-8000-{tenant:012}")
}

/// Writes the directory as LDIF (RFC 2849). All passwords are [`content::PASSWORD`].
pub(super) fn write(file: &Path, people: u32, tenants: u32) {
    let mut out = BufWriter::new(File::create(file).unwrap());
    for (dn, attributes) in content::skeleton() {
        writeln!(out, "dn: {dn}").unwrap();
        for (name, values) in attributes {
            for value in values {
                writeln!(out, "{name}: {value}").unwrap();
            }
        }
        writeln!(out).unwrap();
    }
    for person in 0..people {
        let (uid, tenant) = (large_uid(person), person % tenants);
        write!(
            out,
            "dn: uid={uid},{PEOPLE}\n\
             objectClass: inetOrgPerson\nobjectClass: openCloudEducationUser\n\
             uid: {uid}\ncn: Person {person}\nsn: {person}\ndisplayName: Person {person} of {name}\nmail: {uid}@{name}.example\n\
             userPassword: {password}\nopenCloudUUID: {uuid}\nopenCloudUserEnabled: TRUE\nopenCloudMemberOfSchool: {school}\n\n",
            name = large_tenant(tenant),
            password = content::PASSWORD,
            uuid = content::uuid(person),
            school = large_tenant_uuid(tenant),
        )
        .unwrap();
    }
    out.flush().unwrap();
}
