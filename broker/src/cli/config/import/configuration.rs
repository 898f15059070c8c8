//! From flags to a configuration with comments. What someone must say themselves is a variable (`${…}`), which `config check`
//! names until it is filled in.

use std::{fmt::Write as _, net::IpAddr, path::Path};

use claims_mapping::ConnectorId;
use url::{Host, Url};

use super::{
    flags::{ABOUT_ITSELF, Flags, KNOWN},
    report::{Outcome, Report},
    subjects::Tenant,
};

/// What the flags do not say.
pub(super) struct Wanted<'w> {
    pub(super) issuer: Option<&'w Url>,
    pub(super) connector: &'w ConnectorId,
    pub(super) audience: &'w str,
    pub(super) tenants: &'w [Tenant],
}

/// Writes the configuration, and tells of each flag.
pub(super) fn write(flags: &Flags, wanted: &Wanted<'_>, report: &mut Report) -> String {
    let address = listen(flags, report);
    let mut file = |flag: &str, becomes: &str, otherwise: &str| match flags.value(flag) {
        Some((path, given)) => {
            let hint = if Path::new(path).is_absolute() { "" } else { "; relative paths begin at the configuration's folder" };
            report.flag(given, Outcome::Translated, format!("{becomes}{hint}"));
            quoted(path)
        }
        None => otherwise.to_owned(),
    };
    let certificate = file("tls-cert-file", "listen.tls.certificateFile", "\"${TLS_CERTIFICATE_FILE}\"");
    let key = file("tls-private-key-file", "listen.tls.keyFile", "\"${TLS_KEY_FILE}\"");
    let authority = file("keystone-ca-file", "connectors[0].certificateAuthorityFile", "");
    let url = keystone(flags, report);
    rest(flags, report);
    notes(wanted, report);

    let connector = as_text(wanted.connector.as_str());
    let issuer = wanted.issuer.map_or_else(|| "\"${DENIZEN_ISSUER}\"".to_owned(), |issuer| quoted(issuer.as_str().trim_end_matches('/')));
    let mut text = String::from(
        "# Made by `denizen config import keystone-auth`. Each `${…}` is to be filled in, here or in the environment:\n\
         # `denizen config check` names those that are not.\n",
    );
    // Writing to a text does not fail.
    _ = write!(
        text,
        "# Denizen's own address, as applications and browsers see it. It is part of every user's id.\n\
         issuer: {issuer}\n\
         listen:\n\
         \x20 address: {}\n\
         \x20 tls: {{ certificateFile: {certificate}, keyFile: {key} }}\n\
         store:\n\
         \x20 file: /var/lib/denizen/denizen.redb\n\n\
         tenants:\n\
         \x20 # What the connector calls a tenant is the id of its domain.\n",
        quoted(&address)
    );
    for Tenant { label, domain } in wanted.tenants {
        _ = writeln!(text, "  - {{ id: {}, externalIds: {{ {connector}: {} }} }}", quoted(label.as_str()), quoted(domain));
    }
    let labels: Vec<_> = wanted.tenants.iter().map(|tenant| quoted(tenant.label.as_str())).collect();
    _ = write!(
        text,
        "\nconnectors:\n\
         \x20 - id: {connector}\n\
         \x20   displayName: OpenStack\n\
         \x20   type: keystone\n\
         \x20   operatedBy: operator\n\
         \x20   tenants: [{}]\n\
         \x20   url: {}\n",
        labels.join(", "),
        quoted(&url)
    );
    if !authority.is_empty() {
        _ = writeln!(text, "    certificateAuthorityFile: {authority}");
    }
    text.push_str("    # Keystone may be in these networks, which are not public ones; 10.0.0.0/8, say.\n");
    match private(&url) {
        Some(address) => _ = writeln!(text, "    allowedNetworks: [\"{address}\"]"),
        None => text.push_str("    # allowedNetworks: []\n"),
    }
    _ = write!(
        text,
        "    # As whom Denizen asks. It needs the role `reader` on the system, to validate tokens and to read users and groups.\n\
         \x20   serviceAccount:\n\
         \x20     name: \"${{KEYSTONE_SERVICE_USER}}\"\n\
         \x20     domain: {{ id: \"${{KEYSTONE_SERVICE_USER_DOMAIN_ID}}\" }}\n\
         \x20     passwordFile: \"${{KEYSTONE_SERVICE_PASSWORD_FILE}}\"\n\
         \x20     scope: {{ system: all }}\n\
         \x20     # Much faster for tokens, with the role `service` on a project besides: that project as `scope`, and this one as `directoryScope`.\n\
         \x20   acceptTokens: true\n\
         \x20   # For how long an answer about a token is believed: a token that is revoked in Keystone is taken so long at most.\n\
         \x20   tokens: {{ cacheSeconds: 120 }}\n\n\
         reviewers:\n\
         \x20 - id: kube-apiserver\n\
         \x20   # k8s-keystone-auth answered whoever asked. Denizen answers those it knows: the file holds what kube-apiserver's kubeconfig has as `token`.\n\
         \x20   bearerTokenFile: \"${{KUBE_APISERVER_TOKEN_FILE}}\"\n\
         \x20   audiences: [{}]\n\
         \x20   upstreamTokens:\n\
         \x20     # The project's id is a group, and `extra` has its keys, as before; all names begin with the tenant's label.\n\
         \x20     - {{ connector: {connector}, compatibility: k8s-keystone-auth }}\n",
        quoted(wanted.audience)
    );
    text
}

/// Where it listened, as an address; `0.0.0.0:8443` where nothing is said, as there.
fn listen(flags: &Flags, report: &mut Report) -> String {
    let otherwise = "0.0.0.0:8443".to_owned();
    let Some((given, flag)) = flags.value("listen") else { return otherwise };
    let address = match given.rsplit_once(':') {
        Some(("", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => given.to_owned(),
    };
    if address.parse::<std::net::SocketAddr>().is_ok() {
        report.flag(flag, Outcome::Translated, "listen.address");
        return address;
    }
    report.flag(flag, Outcome::NotTranslated, "a host's name is no address to listen on; it listens on all of them, set `listen.address`");
    otherwise
}

/// The Identity API, version 3.
fn keystone(flags: &Flags, report: &mut Report) -> String {
    let becomes = "connectors[0].url";
    let Some((given, flag)) = flags.value("keystone-url") else {
        let message = "neither it nor OS_AUTH_URL was given; fill in `connectors[0].url`";
        report.flag("--keystone-url", Outcome::NotTranslated, message);
        return BLANK_URL.to_owned();
    };
    let bare = given.trim_end_matches('/');
    let (url, hint) = match bare.strip_suffix("/v2.0") {
        Some(base) => (format!("{base}/v3"), ", of version 3"),
        None if bare.ends_with("/v3") => (bare.to_owned(), ""),
        None => (format!("{bare}/v3"), ", of version 3"),
    };
    let parsed = Url::parse(&url).ok();
    let is_loopback = parsed.as_ref().and_then(Url::host).is_some_and(|host| match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    });
    match parsed.as_ref().map(Url::scheme) {
        Some("https") => report.flag(flag, Outcome::Translated, format!("{becomes}{hint}")),
        Some("http") if is_loopback => report.flag(flag, Outcome::Translated, format!("{becomes}{hint}")),
        Some("http") => {
            let message = format!("{becomes}; Denizen sends tokens over https only: Keystone needs TLS, then change it there");
            report.flag(flag, Outcome::NotTranslated, message);
        }
        _ => {
            report.flag(flag, Outcome::NotTranslated, format!("it is no web address; fill in `{becomes}`"));
            return BLANK_URL.to_owned();
        }
    }
    url
}

/// What stands for an address that is not known.
const BLANK_URL: &str = "${OS_AUTH_URL}";

/// The address of a host that is named by one which is not public.
fn private(url: &str) -> Option<IpAddr> {
    let address = match Url::parse(url).ok()?.host()? {
        Host::Ipv4(ip) => IpAddr::V4(ip),
        Host::Ipv6(ip) => IpAddr::V6(ip),
        Host::Domain(_) => return None,
    };
    let is_private = match address {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    };
    is_private.then_some(address)
}

/// The flags that become nothing.
fn rest(flags: &Flags, report: &mut Report) {
    let policy = "Denizen does not authorize: say the same by RBAC, by roles and bindings for the new names. Until then leave k8s-keystone-auth \
                  running as the authorization webhook alone; it judges by projects and roles, which it finds in `extra` as before, and \
                  its rules with `user` or `group` need the new names";
    let sync = "Denizen makes no namespaces and no bindings, and gives no groups by role: make them beforehand. Bindings that it made \
                are renamed by --rbac; a group of its `role-mappings` is no longer given: bind the project's id or a group of Keystone";
    for (flag, why) in
        [("keystone-policy-file", policy), ("policy-configmap-name", policy), ("sync-config-file", sync), ("sync-configmap-name", sync)]
    {
        if let Some((_, given)) = flags.value(flag) {
            report.flag(given, Outcome::NotTranslated, why);
        }
    }
    if let Some((_, given)) = flags.value("kubeconfig") {
        report.flag(given, Outcome::NotNeeded, "Denizen does not ask the API server");
    }
    let mut told: Vec<&str> = Vec::new();
    for given in flags.given.iter().filter(|given| !given.variable) {
        let name = given.name.as_str();
        let is_known = KNOWN.iter().any(|(known, _)| *known == name);
        if is_known || told.contains(&name) {
            continue;
        }
        told.push(name);
        let dashes = if name.len() == 1 { "-" } else { "--" };
        if ABOUT_ITSELF.contains(&name) {
            report.flag(
                format!("{dashes}{name}"),
                Outcome::NotNeeded,
                "how it logs or introduces itself; see DENIZEN_LOG and --log-format",
            );
        } else {
            report.flag(format!("{dashes}{name}"), Outcome::NotTranslated, "no flag that is known here; see whether it matters");
        }
    }
    if flags.strays > 0 {
        let message = "not a flag of k8s-keystone-auth; where a shell starts it, give its flags after `--`";
        report.flag(format!("{} more arguments", flags.strays), Outcome::NotTranslated, message);
    }
}

fn notes(wanted: &Wanted<'_>, report: &mut Report) {
    let label = wanted.tenants.first().map(|tenant| tenant.label.as_str()).unwrap_or_default();
    report.notes.extend([
        "kube-apiserver's webhook kubeconfig needs another `server` (…/apis/authentication.k8s.io/v1/tokenreviews in place of …/webhook), \
         `certificate-authority` in place of `insecure-skip-tls-verify`, and the user's `token`; --authentication-token-webhook-version=v1"
            .to_owned(),
        format!(
            "users and groups are named `{label}:alice`, by the domain of the user; `uid` is Denizen's own; give RoleBindings by --rbac"
        ),
        "people of domains that no --tenant names are refused from now on, and tokens of trusts with impersonation are".to_owned(),
    ]);
}

/// A connector's id as YAML: in quotes where it would be taken for a number, a truth or nothing.
fn as_text(id: &str) -> String {
    let is_plain =
        id.starts_with(|c: char| c.is_ascii_alphabetic()) && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&id);
    if is_plain { id.to_owned() } else { quoted(id) }
}

/// A text as YAML, in which nothing is a variable.
fn quoted(text: &str) -> String {
    let escaped = if text == BLANK_URL { text.to_owned() } else { text.replace("${", "$${") };
    serde_json::Value::String(escaped).to_string()
}

#[cfg(test)]
mod tests {
    use super::{super::flags::parse, *};

    #[test]
    fn an_id_stays_a_text() {
        for (id, expected) in [("cloud", "cloud"), ("123", "\"123\""), ("true", "\"true\""), ("1e3", "\"1e3\"")] {
            assert_eq!(as_text(id), expected);
        }
    }
    use crate::config::load_text;

    fn written(arguments: &[&str], issuer: Option<&str>) -> (String, Report) {
        let mut report = Report::default();
        let tenants = ["acme=0a1b", "globex=default"].map(|text| text.parse().unwrap());
        let issuer = issuer.map(|url| Url::parse(url).unwrap());
        let connector = ConnectorId::parse("cloud").unwrap();
        let wanted =
            Wanted { issuer: issuer.as_ref(), connector: &connector, audience: "https://kubernetes.default.svc", tenants: &tenants };
        let arguments: Vec<_> = arguments.iter().map(|&a| a.to_owned()).collect();
        (write(&parse(&arguments), &wanted, &mut report), report)
    }

    fn outcomes(report: &Report) -> Vec<(&str, Outcome)> {
        report.flags.iter().map(|told| (told.flag.as_str(), told.outcome)).collect()
    }

    #[test]
    fn what_is_to_be_filled_in_is_said_by_the_check() {
        let (text, _) = written(&[], None);
        let faults = load_text(&text, Path::new("/nowhere"), "d.yaml").unwrap_err();
        let at = |path: &str| faults.list().iter().any(|fault| fault.path == path);
        for path in ["issuer", "listen.tls.certificateFile", "connectors[0].url", "connectors[0].serviceAccount.name"] {
            assert!(at(path), "{path}: {faults}");
        }
        for path in ["domain.id", "passwordFile"] {
            assert!(at(&format!("connectors[0].serviceAccount.{path}")), "{path}: {faults}");
        }
        assert!(at("reviewers[0].bearerTokenFile"), "{faults}");
    }

    #[test]
    fn flags_become_keys() {
        let (text, report) = written(
            &[
                "--keystone-url=https://10.1.2.3:5000/",
                "--keystone-ca-file=ca.pem",
                "--listen=:9443",
                "--tls-cert-file=/a${b}.crt",
                "--tls-private-key-file=/k.key",
                "-v=4",
            ],
            Some("https://id.example"),
        );
        for line in [
            "issuer: \"https://id.example\"",
            "  address: \"0.0.0.0:9443\"",
            "  tls: { certificateFile: \"/a$${b}.crt\", keyFile: \"/k.key\" }",
            "  - { id: \"acme\", externalIds: { cloud: \"0a1b\" } }",
            "    tenants: [\"acme\", \"globex\"]",
            "    url: \"https://10.1.2.3:5000/v3\"",
            "    certificateAuthorityFile: \"ca.pem\"",
            "    allowedNetworks: [\"10.1.2.3\"]",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
        assert!(report.is_whole(), "{report}");
        assert!(report.to_string().contains("--keystone-ca-file: connectors[0].certificateAuthorityFile; relative"), "{report}");
    }

    #[test]
    fn what_can_not_be_is_said() {
        let (text, report) = written(
            &[
                "--listen=auth.example:1",
                "--keystone-url=http://keystone.example/v2.0/",
                "--policy-configmap-name=p",
                "--sync-config-file=s",
                "--new=1",
            ],
            None,
        );
        assert!(text.contains("address: \"0.0.0.0:8443\"") && text.contains("http://keystone.example/v3"), "{text}");
        let names = ["--listen", "--keystone-url", "--policy-configmap-name", "--sync-config-file", "--new"];
        assert_eq!(outcomes(&report), names.map(|name| (name, Outcome::NotTranslated)));
        let (_, report) = written(&["--keystone-url=http://127.0.0.1:5000/v3", "--kubeconfig=k", "sh"], None);
        let expected =
            [("--keystone-url", Outcome::Translated), ("--kubeconfig", Outcome::NotNeeded), ("1 more arguments", Outcome::NotTranslated)];
        assert_eq!(outcomes(&report), expected);
    }
}
