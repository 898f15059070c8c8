//! The flags of k8s-keystone-auth out of a Kubernetes manifest: its container, wherever that stands, with its variables.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{
    documents,
    flags::{self, Flags, Given, KNOWN},
    report::{Outcome, Report},
};

/// What images and containers of it are called.
const PROGRAM: &str = "k8s-keystone-auth";

/// Finds the container and reads its command, arguments and variables.
///
/// # Errors
/// Where the text is no YAML, or not one container fits.
pub(super) fn flags(text: &str, container: Option<&str>, report: &mut Report) -> anyhow::Result<Flags> {
    let mut containers = Vec::new();
    let mut documents = Vec::new();
    for (line, document) in documents::split(text) {
        documents.push(documents::value(document).with_context(|| format!("the document at line {line}"))?);
    }
    documents.iter().for_each(|document| find(document, &mut containers));
    let name = |container: &Value| container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let fits = |found: &&Value| match container {
        Some(wanted) => name(found) == wanted,
        None => found.get("image").and_then(Value::as_str).is_some_and(|image| image.contains(PROGRAM)) || name(found) == PROGRAM,
    };
    let fitting: Vec<_> = containers.iter().copied().filter(fits).collect();
    let names = || containers.iter().map(|container| name(container)).collect::<Vec<_>>().join(", ");
    match fitting.as_slice() {
        [one] => Ok(of_container(one, report)),
        [] => bail!("no container here is {PROGRAM}; name it by --container (there are: {})", names()),
        _ => bail!("several containers are {PROGRAM}; name one by --container, or give a manifest with one (there are: {})", names()),
    }
}

/// Every container below, in its order.
fn find<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| find(value, found)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(list) if key == "containers" => found.extend(list),
                    value => find(value, found),
                }
            }
        }
        _ => {}
    }
}

fn of_container(container: &Value, report: &mut Report) -> Flags {
    // `None`: its value comes from elsewhere in the cluster.
    let mut variables: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = variable.get("name").and_then(Value::as_str) {
            let value = variable.get("value").and_then(Value::as_str);
            variables.insert(name, if variable.get("valueFrom").is_some() { None } else { Some(value.unwrap_or_default()) });
        }
    }
    if container.get("envFrom").is_some() {
        report.notes.push("the container has `envFrom`: what it takes from there was not seen; give such flags after `--`".to_owned());
    }
    let words = |key: &str| container.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let arguments: Vec<String> = words("command").iter().chain(&words("args")).map(|word| filled(&text(word), &variables)).collect();
    let mut flags = flags::parse(&arguments);
    for given in &mut flags.given {
        if given.value.as_deref().is_some_and(|value| value.contains("$(")) {
            given.value = None;
            let flag = format!("--{}", given.name);
            report.flag(flag, Outcome::NotTranslated, "its value comes from elsewhere in the cluster; give the flags after `--` instead");
        }
    }
    for name in KNOWN.iter().filter_map(|(_, variable)| *variable) {
        match variables.get(name) {
            Some(Some(value)) => flags.given.push(Given { name: name.to_owned(), value: Some((*value).to_owned()), variable: true }),
            Some(None) => report.flag(
                name,
                Outcome::NotTranslated,
                "the variable's value comes from elsewhere in the cluster; give the flag after `--` instead",
            ),
            None => {}
        }
    }
    flags
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `$(NAME)` is the variable; one that is not known stays as it is.
fn filled(text: &str, variables: &BTreeMap<&str, Option<&str>>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        filled.push_str(before);
        match after.split_once(')').map(|(name, after)| (variables.get(name).copied().flatten(), after)) {
            Some((Some(value), after)) => {
                filled.push_str(value);
                rest = after;
            }
            _ => {
                filled.push_str("$(");
                rest = after;
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: &str = "
apiVersion: v1
kind: ConfigMap
metadata: { name: containers }
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - { name: proxy, image: 'example/proxy:1', args: [--listen, ':1'] }
        - name: auth
          image: registry.example/provider-os/k8s-keystone-auth:v1.31.0
          command: [/bin/k8s-keystone-auth]
          env:
            - { name: KEYSTONE_HOST, value: keystone.example }
            - { name: TLS_CERT_FILE, value: /etc/pki/tls.crt }
            - { name: KEYSTONE_CA_FILE, valueFrom: { configMapKeyRef: { name: x, key: y } } }
          args:
            - --keystone-url=https://$(KEYSTONE_HOST):5000/v3
            - --tls-private-key-file
            - /etc/pki/tls.key
            - --keystone-policy-file=$(ELSEWHERE)
            - -v
            - 4
";

    #[test]
    fn the_container_is_found_by_its_image() {
        let mut report = Report::default();
        let flags = flags(DEPLOYMENT, None, &mut report).unwrap();
        let value = |name| flags.value(name).map(|(value, _)| value);
        assert_eq!(value("keystone-url"), Some("https://keystone.example:5000/v3"));
        assert_eq!(value("tls-cert-file"), Some("/etc/pki/tls.crt"));
        assert_eq!(value("tls-private-key-file"), Some("/etc/pki/tls.key"));
        assert_eq!((value("v"), value("listen"), flags.strays), (Some("4"), None, 0));
        let told: Vec<_> = report.flags.iter().map(|told| (told.flag.as_str(), told.outcome)).collect();
        assert_eq!(told, [("--keystone-policy-file", Outcome::NotTranslated), ("KEYSTONE_CA_FILE", Outcome::NotTranslated)]);
    }

    #[test]
    fn where_not_one_container_fits_their_names_are_told() {
        let error = |text: &str, name| flags(text, name, &mut Report::default()).unwrap_err().to_string();
        assert!(error("kind: Pod", None).contains("no container here"));
        assert!(error(DEPLOYMENT, Some("nobody")).contains("proxy, auth"));
        let twice = format!("{DEPLOYMENT}---{DEPLOYMENT}");
        assert!(error(&twice, None).contains("several"));
        assert!(flags(DEPLOYMENT, Some("proxy"), &mut Report::default()).unwrap().value("listen").is_some());
        assert!(error("a: {{ template }}", None).contains("line 1"));
    }
}
