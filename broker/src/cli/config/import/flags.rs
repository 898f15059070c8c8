//! k8s-keystone-auth's command line, as it reads it itself (Go's pflag): `--name=value`, `--name value`, the last one counts.

/// The flags that it has, and the variable that stands for each where it is not given.
pub(super) const KNOWN: [(&str, Option<&str>); 10] = [
    ("listen", None),
    ("tls-cert-file", Some("TLS_CERT_FILE")),
    ("tls-private-key-file", Some("TLS_PRIVATE_KEY_FILE")),
    ("keystone-url", Some("OS_AUTH_URL")),
    ("keystone-ca-file", Some("KEYSTONE_CA_FILE")),
    ("keystone-policy-file", Some("KEYSTONE_POLICY_FILE")),
    ("policy-configmap-name", Some("KEYSTONE_POLICY_CONFIGMAP_NAME")),
    ("sync-config-file", Some("KEYSTONE_SYNC_CONFIG_FILE")),
    ("sync-configmap-name", Some("KEYSTONE_SYNC_CONFIGMAP_NAME")),
    ("kubeconfig", Some("KEYSTONE_KUBECONFIG_FILE")),
];

/// Flags that say how it logs and introduces itself.
pub(super) const ABOUT_ITSELF: [&str; 17] = [
    "v",
    "vmodule",
    "logtostderr",
    "alsologtostderr",
    "stderrthreshold",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "log-backtrace-at",
    "log-flush-frequency",
    "skip-headers",
    "skip-log-headers",
    "add-dir-header",
    "one-output",
    "user-agent",
    "version",
    "help",
];

/// Of those, the ones that stand alone.
const ALONE: [&str; 8] =
    ["logtostderr", "alsologtostderr", "skip-headers", "skip-log-headers", "add-dir-header", "one-output", "version", "help"];

/// One flag as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name without dashes in front, or the variable's.
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// Whether it is an environment variable.
    pub(super) variable: bool,
}

/// Everything that was given, in its order.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) given: Vec<Given>,
    /// How many arguments are neither a flag, nor the value of one, nor the program.
    pub(super) strays: usize,
}

impl Flags {
    /// The value that counts, with how it was given: a flag comes before its variable.
    pub(super) fn value(&self, name: &str) -> Option<(&str, String)> {
        let given = |name: &str, variable| {
            let found = self.given.iter().rev().find(|given| given.name == name && given.variable == variable);
            found.and_then(|given| given.value.as_deref()).filter(|value| !value.is_empty())
        };
        let variable = KNOWN.iter().find(|(known, _)| *known == name).and_then(|(_, variable)| *variable);
        given(name, false)
            .map(|value| (value, format!("--{name}")))
            .or_else(|| variable.and_then(|variable| given(variable, true).map(|value| (value, variable.to_owned()))))
    }
}

/// Reads the arguments. The program's own name may come first.
pub(super) fn parse(arguments: &[String]) -> Flags {
    let mut flags = Flags::default();
    let mut rest = arguments.iter().enumerate().peekable();
    while let Some((index, argument)) = rest.next() {
        let Some(flag) = argument.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            let is_program = index == 0 && argument.rsplit('/').next().is_some_and(|name| name == "k8s-keystone-auth");
            flags.strays += usize::from(!is_program);
            continue;
        };
        let (name, mut value) = match (flag.strip_prefix('-'), flag.split_once('=')) {
            (Some(""), _) => continue,
            (Some(_), Some((name, value))) => (name.trim_start_matches('-'), Some(value.to_owned())),
            (Some(long), None) => (long, None),
            (None, Some((name, value))) => (name, Some(value.to_owned())),
            // `-v4`
            (None, None) => match flag.strip_prefix('v').filter(|level| !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit())) {
                Some(level) => ("v", Some(level.to_owned())),
                None => (flag, None),
            },
        };
        let name = name.replace('_', "-");
        if value.is_none() && !ALONE.contains(&name.as_str()) {
            value = rest.next_if(|(_, next)| !next.starts_with('-')).map(|(_, next)| next.clone());
        }
        flags.given.push(Given { name, value, variable: false });
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Flags {
        parse(&arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read_as_the_program_reads_them() {
        let flags =
            parsed(&["./bin/k8s-keystone-auth", "--keystone-url", "https://a/v3", "--listen=:8443", "--logtostderr", "-v=2", "-v4"]);
        assert_eq!(flags.strays, 0);
        assert_eq!(flags.value("keystone-url"), Some(("https://a/v3", "--keystone-url".to_owned())));
        assert_eq!(flags.value("listen").unwrap().0, ":8443");
        assert_eq!(flags.value("v").unwrap().0, "4");
        assert_eq!(flags.given[2], Given { name: "logtostderr".into(), value: None, variable: false });
        let twice = parsed(&["--keystone_url=https://a", "--keystone-url=https://b=c"]);
        assert_eq!(twice.value("keystone-url").unwrap().0, "https://b=c");
        assert_eq!(parsed(&["sh", "-c", "k8s-keystone-auth --listen=:1"]).strays, 1);
        assert_eq!(parsed(&["--listen", "--tls-cert-file", "x"]).value("listen"), None);
    }

    #[test]
    fn a_flag_comes_before_its_variable() {
        let mut flags = parsed(&["--keystone-url=https://a"]);
        for (name, value) in [("OS_AUTH_URL", "https://b"), ("TLS_CERT_FILE", "c.pem")] {
            flags.given.push(Given { name: name.into(), value: Some(value.into()), variable: true });
        }
        assert_eq!(flags.value("keystone-url").unwrap().0, "https://a");
        assert_eq!(flags.value("tls-cert-file"), Some(("c.pem", "TLS_CERT_FILE".to_owned())));
    }
}
