//! What a shape can not say of `cs3`, and what must be so between it and the connectors.

use std::{net::SocketAddr, path::Path};

use connectors::Secret;

use super::{Cs3Config, Cs3Socket};
use crate::config::{
    check::{overlap, readable, within},
    load::Parts,
    places::{Places, join},
    tenants::unknown,
};

/// The fewest bytes of the secret. Whoever has one token can try secrets against it as fast as their machines go.
const SECRET_LEAST: usize = 16;
/// The fewest bytes at which nothing is said: those of the digest (RFC 7518, 3.2).
const SECRET_WARNED: usize = 32;
/// The longest path of a Unix socket, in bytes: `sun_path` with its end.
const PATH_MOST: usize = 107;
const DAY: u64 = 86_400;

/// Claims that are an upstream's ids of people, in lower case: no name that OpenCloud could show, and mostly UUIDs.
const IDS: [&str; 9] = ["sub", "oid", "id", "guid", "objectguid", "objectsid", "nsuniqueid", "ipauniqueid", "externalid"];

/// Finds the faults of `cs3`, and what deserves a look.
pub(in crate::config) fn check(parts: &Parts, places: &mut Places) {
    let Some(cs3) = &parts.cs3 else { return };
    if cs3.socket.is_none() && cs3.address.is_none() && !places.is_faulty("cs3") {
        places.fault("cs3", "give `socket`, `address`, or both: there is nowhere to ask");
    }
    if let Some(own) = &cs3.socket {
        socket(own, places);
    }
    match cs3.address {
        Some(at) => address(parts, cs3, at, places),
        None => without_address(places),
    }
    if let Some(tls) = &cs3.tls {
        for (key, file) in [("certificateFile", &tls.certificate_file), ("keyFile", &tls.key_file)] {
            readable(file, &join("cs3.tls", key), places);
        }
    }
    secret(cs3, places);
    let known = parts.declared("connectors");
    if let Some(id) = cs3.external_ids_of.as_ref().filter(|id| !known.contains(id.as_str())) {
        places.fault("cs3.externalIdsOf", unknown("connector", id.as_str(), &known));
    }
    within("cs3.searchLeastCharacters", cs3.search_least_characters as u64, &(0..=64), places);
    within("cs3.results", cs3.results as u64, &(1..=10_000), places);
    within("cs3.cache.seconds", cs3.cache.seconds, &(0..=3_600), places);
    within("cs3.cache.graceSeconds", cs3.cache.grace_seconds, &(0..=DAY), places);
    within("cs3.cache.entries", cs3.cache.entries as u64, &(1..=10_000_000), places);
    within("cs3.cache.entriesPerTenant", cs3.cache.entries_per_tenant as u64, &(1..=10_000_000), places);
    usernames(parts, places);
}

fn socket(socket: &Cs3Socket, places: &mut Places) {
    let mode = &socket.mode;
    let bits = Some(mode).filter(|mode| (3..=4).contains(&mode.len()) && mode.bytes().all(|b| (b'0'..=b'7').contains(&b)));
    match bits.and_then(|mode| u32::from_str_radix(mode, 8).ok()).filter(|bits| *bits <= 0o777) {
        None => places.fault("cs3.socket.mode", "it must be three octal digits, with a 0 before them or not, in quotes: \"0660\""),
        Some(bits) if bits & 0o002 != 0 => places.warning(
            "cs3.socket.mode",
            "whoever is on this machine may open the socket, and look up people of every tenant without a token; give it to OpenCloud's group, with mode \"0660\"",
        ),
        Some(_) => {}
    }
    if socket.path.as_os_str().len() > PATH_MOST {
        places.fault("cs3.socket.path", "the path of a Unix socket has at most 107 bytes");
    }
    if socket.group.as_ref().is_some_and(|group| group.trim().is_empty()) {
        places.fault("cs3.socket.group", "it must be a group's name or number; leave it out for Denizen's own");
    }
}

fn address(parts: &Parts, cs3: &Cs3Config, address: SocketAddr, places: &mut Places) {
    for (key, other) in [("address", parts.listen.address), ("adminAddress", parts.listen.admin_address)] {
        if overlap(address, other) {
            places.fault("cs3.address", format!("it must not be the same as `listen.{key}`"));
        }
    }
    if address.ip().is_loopback() {
        return;
    }
    if !places.has("cs3.tls") && !cs3.allow_plain {
        places.fault(
            "cs3.address",
            "OpenCloud's tokens would cross the network in the clear: give `tls`, or `allowPlain: true` where the network is private",
        );
    }
    if cs3.tokenless_lookups {
        places.warning(
            "cs3.tokenlessLookups",
            "whoever reaches `address` can look up people of every tenant, one at a time, whose id or name they know; let only OpenCloud reach it, or use `socket`",
        );
    }
}

fn without_address(places: &mut Places) {
    for key in ["tls", "allowPlain", "tokenlessLookups"] {
        let path = join("cs3", key);
        if places.has(&path) {
            places.warning(path, "it is about `address`, and there is none");
        }
    }
}

fn secret(cs3: &Cs3Config, places: &mut Places) {
    let (value, file): (_, Option<&Path>) = (cs3.jwt_secret.as_ref(), cs3.jwt_secret_file.as_deref());
    let path = if file.is_some() { "cs3.jwtSecretFile" } else { "cs3.jwtSecret" };
    let length = match (value, file) {
        (None, None) => {
            if !places.is_faulty("cs3") {
                places.fault("cs3", "`jwtSecretFile` is missing: the file of OpenCloud's `OC_JWT_SECRET`");
            }
            return;
        }
        (Some(_), Some(_)) => return places.fault(path, "give `jwtSecret` or `jwtSecretFile`, not both"),
        (None, Some(file)) if readable(file, path, places).is_none() => return,
        // A file that is there and empty, or the same of a value.
        (value, file) => Secret::read(value, file).ok().flatten().map_or(0, |secret| secret.expose().len()),
    };
    if length < SECRET_LEAST {
        places.fault(
            path,
            "the secret is empty, or shorter than 16 bytes: whoever guesses it is every user of every tenant. `openssl rand -base64 32` makes one, for here and for `OC_JWT_SECRET`",
        );
    } else if length < SECRET_WARNED {
        places.warning(
            path,
            "the secret is shorter than 32 bytes; `openssl rand -base64 32` makes a better one, for here and for `OC_JWT_SECRET`",
        );
    }
}

/// Connectors whose people have no names: a username that looks like a UUID is refused at every door, and other ids tell no one who it is.
fn usernames(parts: &Parts, places: &mut Places) {
    for (path, connector) in parts.connectors.iter().filter(|(_, connector)| !connector.disabled) {
        let username = &connector.mapping.claim_mappings.username;
        let plain = username.expression.trim().strip_prefix("claims.").unwrap_or_default();
        let claim = [username.claim.as_str(), plain].into_iter().find(|claim| !claim.is_empty()).unwrap_or_default().to_ascii_lowercase();
        if IDS.contains(&claim.as_str()) || claim.ends_with("_id") || claim.ends_with("uuid") {
            places.warning(
                join(path, "claimMappings.username"),
                "this is an id, and OpenCloud needs names: people whose username looks like a UUID are left out everywhere, and other ids are shown as they are; map a name that people know",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_text;

    const SECRET: &str = "jwtSecret: 0123456789abcdef0123456789abcdef";
    const SOCKET: &str = "socket: {path: /run/denizen/cs3.sock}";
    const CONNECTORS: &str = "tenants: [{id: a}]\nconnectors: [{id: corp, type: file, tenants: [a], users: []}]\n";

    /// What is told of a configuration with this door: the warnings where there is no fault.
    fn told_of(connectors: &str, cs3: &str, folder: &std::path::Path) -> Result<Vec<String>, Vec<String>> {
        let text = format!("issuer: http://127.0.0.1:5556\n{connectors}cs3: {{{cs3}}}\n");
        match load_text(&text, folder, "d.yaml") {
            Ok(loaded) => Ok(loaded.warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect()),
            Err(faults) => Err(faults.list().iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect()),
        }
    }

    fn told(cs3: &str) -> Result<Vec<String>, Vec<String>> {
        told_of(CONNECTORS, cs3, std::path::Path::new("/nowhere"))
    }

    /// One fault, or one warning, that begins so.
    #[track_caller]
    fn one(told: &[String], begins: &str) {
        assert!(told.len() == 1 && told[0].starts_with(begins), "{told:?}");
    }

    #[test]
    fn a_door_needs_a_place_and_a_secret() {
        assert_eq!(told(&format!("{SOCKET}, {SECRET}")), Ok(Vec::new()));
        assert_eq!(told(&format!("address: '127.0.0.1:9144', {SECRET}, tokenlessLookups: true")), Ok(Vec::new()));
        one(&told(SECRET).unwrap_err(), "cs3: give `socket`, `address`, or both");
        one(&told(SOCKET).unwrap_err(), "cs3: `jwtSecretFile` is missing");
        one(&told(&format!("{SOCKET}, jwtSecret: ''")).unwrap_err(), "cs3.jwtSecret: the secret is empty, or shorter than 16 bytes");
        one(&told(&format!("{SOCKET}, jwtSecret: 0123456789abcde")).unwrap_err(), "cs3.jwtSecret: the secret is empty, or shorter");
        one(&told(&format!("{SOCKET}, jwtSecret: \"0123456789abcde\\n\"")).unwrap_err(), "cs3.jwtSecret: the secret is empty, or shorter");
        one(&told(&format!("{SOCKET}, jwtSecret: 0123456789abcdex")).unwrap(), "cs3.jwtSecret: the secret is shorter than 32 bytes");
        one(&told(&format!("{SOCKET}, jwtSecretFile: absent")).unwrap_err(), "cs3.jwtSecretFile: the file can not be read");
        one(&told(&format!("{SOCKET}, {SECRET}, jwtSecretFile: absent")).unwrap_err(), "cs3.jwtSecretFile: give `jwtSecret` or");
    }

    #[test]
    fn a_secret_in_a_file_is_its_content_without_the_line_end() {
        let folder = tempfile::tempdir().unwrap();
        for (content, expected) in [("0123456789abcdef0123456789abcdef\n", 0), ("0123456789abcdef\n", 1)] {
            std::fs::write(folder.path().join("secret"), content).unwrap();
            assert_eq!(told_of(CONNECTORS, &format!("{SOCKET}, jwtSecretFile: secret"), folder.path()).unwrap().len(), expected);
        }
        for content in ["", "\n", "0123456789abcde\r\n"] {
            std::fs::write(folder.path().join("secret"), content).unwrap();
            let faults = told_of(CONNECTORS, &format!("{SOCKET}, jwtSecretFile: secret"), folder.path()).unwrap_err();
            one(&faults, "cs3.jwtSecretFile: the secret is empty, or shorter");
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_tls_or_a_word() {
        let of = |rest: &str| told(&format!("address: '0.0.0.0:9144', {SECRET}{rest}"));
        one(&of("").unwrap_err(), "cs3.address: OpenCloud's tokens would cross the network in the clear");
        assert_eq!(of(", allowPlain: true"), Ok(Vec::new()));
        one(&of(", allowPlain: true, tokenlessLookups: true").unwrap(), "cs3.tokenlessLookups: whoever reaches `address`");
        let faults = of(", tls: {certificateFile: absent, keyFile: absent}").unwrap_err();
        let wanted = ["cs3.tls.certificateFile: the file can not be read", "cs3.tls.keyFile: the file can not be read"];
        assert!(faults.len() == 2 && faults.iter().zip(wanted).all(|(fault, wanted)| fault.starts_with(wanted)), "{faults:?}");
        for (port, listener) in [(5556, "address"), (5558, "adminAddress")] {
            let faults = told(&format!("address: '127.0.0.1:{port}', {SECRET}")).unwrap_err();
            one(&faults, &format!("cs3.address: it must not be the same as `listen.{listener}`"));
        }
        let warnings = told(&format!("{SOCKET}, {SECRET}, tokenlessLookups: true, allowPlain: true")).unwrap();
        assert_eq!(warnings.len(), 2);
        assert!(warnings.iter().all(|warning| warning.ends_with("it is about `address`, and there is none")), "{warnings:?}");
    }

    #[test]
    fn a_socket_has_a_mode_that_can_be_one() {
        let of = |mode: &str| told(&format!("socket: {{path: cs3.sock, mode: {mode}}}, {SECRET}"));
        for mode in ["\"0660\"", "\"660\"", "\"0600\"", "\"0000\""] {
            assert_eq!(of(mode), Ok(Vec::new()), "{mode}");
        }
        for mode in ["\"0668\"", "\"rw\"", "\"\"", "\"04660\"", "\"4660\"", "\"+660\"", "\"66\""] {
            one(&of(mode).unwrap_err(), "cs3.socket.mode: it must be three octal digits");
        }
        one(&of("0660").unwrap_err(), "cs3.socket.mode: it must be a text");
        for mode in ["\"0666\"", "\"0777\"", "\"662\""] {
            one(&of(mode).unwrap(), "cs3.socket.mode: whoever is on this machine");
        }
        let long = "x".repeat(108);
        one(&told(&format!("socket: {{path: /{long}}}, {SECRET}")).unwrap_err(), "cs3.socket.path: the path of a Unix socket");
        one(&told(&format!("socket: {{path: /a, group: ' '}}, {SECRET}")).unwrap_err(), "cs3.socket.group: it must be");
    }

    #[test]
    fn numbers_and_references() {
        let of = |rest: &str| told(&format!("{SOCKET}, {SECRET}, {rest}"));
        for (rest, fault) in [
            ("externalIdsOf: corpp", "cs3.externalIdsOf: no connector has this id; is it `corp`?"),
            ("searchLeastCharacters: 65", "cs3.searchLeastCharacters: it must be 0 to 64"),
            ("results: 0", "cs3.results: it must be 1 to 10000"),
            ("results: 10001", "cs3.results: it must be 1 to 10000"),
            ("cache: {seconds: 3601}", "cs3.cache.seconds: it must be 0 to 3600"),
            ("cache: {graceSeconds: 86401}", "cs3.cache.graceSeconds: it must be 0 to 86400"),
            ("cache: {entries: 0}", "cs3.cache.entries: it must be 1 to 10000000"),
            ("cache: {entriesPerTenant: 0}", "cs3.cache.entriesPerTenant: it must be 1 to 10000000"),
        ] {
            assert_eq!(of(rest), Err(vec![fault.to_owned()]));
        }
        assert_eq!(of("externalIdsOf: corp, results: 10000, cache: {seconds: 0, graceSeconds: 0}"), Ok(Vec::new()));
    }

    #[test]
    fn a_username_that_is_an_id_deserves_a_look() {
        let of = |username: &str| {
            let ldap = format!(
                "tenants: [{{id: a}}]\nconnectors: [{{id: corp, type: ldap, tenant: {{fixed: a}}, url: 'ldaps://x.example', userSearch: {{base: dc=x}}, claimMappings: {{username: {username}}}}}]\n"
            );
            told_of(&ldap, &format!("{SOCKET}, {SECRET}"), std::path::Path::new("/nowhere")).unwrap()
        };
        for id in ["{claim: entryUUID}", "{claim: employee_id}", "{expression: 'claims.openCloudUUID'}", "{claim: objectGUID}"] {
            one(&of(id), "connectors[0].claimMappings.username: this is an id");
        }
        for name in ["{claim: uid}", "{claim: mail}", "{expression: 'claims.entryUUID + claims.uid'}"] {
            assert_eq!(of(name), Vec::<String>::new(), "{name}");
        }
    }
}
