//! From the file to what the program runs on, or to every fault at once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::branding::Looks;
use claims_mapping::{ConnectorPolicy, Mapping, Tenant, TenantId};
use connectors::Connector;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::{
    Branding, ClientConfig, Config, ConnectorConfig, Cs3Config, GuessingConfig, KeysConfig, Lifetimes, Listen, OpencloudConfig, Preset,
    RefusalsConfig, ReviewerConfig, SearchConfig, SharingConfig, StoreConfig, SystemTenantConfig, TenantConfig, authentication, branding,
    check, clients, cs3_groups,
    environment::{self, Lookup},
    faults::{self, Fault, Faults},
    opencloud::{cs3, preset},
    places::Places,
    schema::schema,
    sharing,
    structure::Walk,
    tenants, tree, upstream_tokens, upstreams,
};

/// A configuration without faults, and what was made of it on the way.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration; its paths are resolved, its variables filled in. Its connectors have what other files lend them.
    pub config: Config,
    /// The tenants, `system` among them where it is configured.
    pub tenants: Vec<Tenant>,
    /// The connectors, in the order of the file; also those that are disabled.
    pub connectors: Vec<LoadedConnector>,
    /// How the pages look.
    pub looks: Looks,
    /// What is allowed and deserves a look.
    pub warnings: Vec<Fault>,
}

/// One connector, ready to be asked.
#[derive(Debug)]
pub struct LoadedConnector {
    /// Its entry.
    pub config: ConnectorConfig,
    /// What its users may become.
    pub policy: ConnectorPolicy,
    /// Its mapping, with its type's own where the entry gives none.
    pub mapping: Arc<Mapping>,
    /// Its ports.
    pub connector: Connector,
}

/// Loads a file. Relative paths in it begin at its folder.
///
/// # Errors
/// Every fault, with its place.
pub fn load(path: &Path) -> Result<Loaded, Faults> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        let message = if error.kind() == std::io::ErrorKind::InvalidData { "it is not UTF-8".to_owned() } else { error.to_string() };
        Faults::new(&name, vec![Fault { file: None, place: None, path: String::new(), message }])
    };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    load_text(&text, path.parent().unwrap_or_else(|| Path::new("")), &name)
}

/// Loads a text. Relative paths in it begin at `folder`; faults call it `name`.
///
/// # Errors
/// Every fault, with its place.
pub fn load_text(text: &str, folder: &Path, name: &str) -> Result<Loaded, Faults> {
    load_with(text, folder, name, &environment::process)
}

pub(super) fn load_with(text: &str, folder: &Path, name: &str, lookup: Lookup<'_>) -> Result<Loaded, Faults> {
    let (tree, fault) = tree::parse(text);
    let Some(mut tree) = tree else { return Err(Faults::new(name, fault.into_iter().collect())) };
    let mut places = Places::default();
    places.faults.extend(fault);
    environment::fill_in(&mut tree, lookup, &mut places);
    let schema = schema();
    let root = Walk::new(&schema, folder, &mut places).value(&tree, &schema, "");
    // Its memory serves for what follows.
    drop(tree);
    let mut parts = Parts::read(root.unwrap_or_default(), &mut places);
    let lent = authentication::lend(&mut parts, &mut places);
    check::check(&parts, &mut places);
    let tenants = tenants::check(&parts, &mut places);
    let connectors = upstreams::check(&parts, &mut places);
    cs3_groups::check(&parts, &connectors, &mut places);
    authentication::names(&parts, &lent, &tenants, &mut places);
    clients::check(&parts, &mut places);
    cs3::check(&parts, &mut places);
    let preset = preset::check(&parts, &mut places);
    let looks = branding::check(&parts, &mut places);
    upstream_tokens::check(&parts, &mut places);
    sharing::check(&parts, &mut places);
    parts.clients.extend(preset.into_iter().map(|client| ("presets".to_owned(), client)));
    if places.faults.is_empty() {
        match parts.whole() {
            Some(config) => {
                hide(&mut places.warnings, &places.secrets);
                faults::sort(&mut places.warnings);
                return Ok(Loaded { config, tenants, connectors, looks, warnings: places.warnings });
            }
            // An issuer that is missing or unreadable has its fault, so that this is one of the program.
            None => places.fault("", "the configuration can not be read as a whole"),
        }
    }
    hide(&mut places.faults, &places.secrets);
    Err(Faults::new(name, places.faults))
}

/// The last line of defence: what is known to be a secret is cut out of every message. Shorter ones than six characters
/// may be parts of ordinary words.
fn hide(faults: &mut [Fault], secrets: &[String]) {
    for fault in faults {
        fault.message = without(&fault.message, secrets.iter().map(|secret| secret.trim()).filter(|secret| secret.len() >= 6));
    }
}

/// A message without certain texts, longest first.
pub(super) fn without<'t>(message: &str, texts: impl Iterator<Item = &'t str>) -> String {
    let mut texts: Vec<_> = texts.collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    texts.into_iter().fold(message.to_owned(), |message, text| message.replace(text, "…"))
}

/// The sections, each as far as it can be read; an entry that can not is left out, and has its fault.
pub(super) struct Parts {
    pub(super) root: Value,
    pub(super) issuer: Option<Url>,
    pub(super) listen: Listen,
    pub(super) store: StoreConfig,
    pub(super) tenants: Vec<(String, TenantConfig)>,
    pub(super) system_tenant: Option<SystemTenantConfig>,
    pub(super) default_tenant: Option<TenantId>,
    pub(super) create_tenants: bool,
    pub(super) reserved_labels: BTreeSet<String>,
    pub(super) connectors: Vec<(String, ConnectorConfig)>,
    pub(super) clients: Vec<(String, ClientConfig)>,
    pub(super) reviewers: Vec<(String, ReviewerConfig)>,
    pub(super) lifetimes: Lifetimes,
    pub(super) keys: KeysConfig,
    pub(super) guessing: GuessingConfig,
    pub(super) search: SearchConfig,
    pub(super) authentication_configuration: Option<PathBuf>,
    pub(super) branding: Branding,
    pub(super) refusals: RefusalsConfig,
    pub(super) cs3: Option<Cs3Config>,
    pub(super) presets: BTreeSet<Preset>,
    pub(super) opencloud: Option<OpencloudConfig>,
    pub(super) sharing: SharingConfig,
}

impl Parts {
    fn read(root: Value, places: &mut Places) -> Self {
        Self {
            issuer: one(&root, "issuer", places),
            listen: one(&root, "listen", places),
            store: one(&root, "store", places),
            tenants: items(&root, "tenants", places),
            system_tenant: one(&root, "systemTenant", places),
            default_tenant: one(&root, "defaultTenant", places),
            create_tenants: one(&root, "createTenants", places),
            reserved_labels: one(&root, "reservedLabels", places),
            connectors: items(&root, "connectors", places),
            clients: items(&root, "clients", places),
            reviewers: items(&root, "reviewers", places),
            lifetimes: one(&root, "lifetimes", places),
            keys: one(&root, "keys", places),
            guessing: one(&root, "guessing", places),
            search: one(&root, "search", places),
            authentication_configuration: one(&root, authentication::KEY, places),
            branding: one(&root, "branding", places),
            refusals: one(&root, "refusals", places),
            cs3: one(&root, "cs3", places),
            presets: one(&root, "presets", places),
            opencloud: one(&root, "opencloud", places),
            sharing: one(&root, "sharing", places),
            root,
        }
    }

    /// The whole, where no part had a fault; `None` without an issuer.
    fn whole(self) -> Option<Config> {
        fn entries<T>(list: Vec<(String, T)>) -> Vec<T> {
            list.into_iter().map(|(_, entry)| entry).collect()
        }
        Some(Config {
            issuer: self.issuer?,
            listen: self.listen,
            store: self.store,
            tenants: entries(self.tenants),
            system_tenant: self.system_tenant,
            default_tenant: self.default_tenant,
            create_tenants: self.create_tenants,
            reserved_labels: self.reserved_labels,
            connectors: entries(self.connectors),
            clients: entries(self.clients),
            reviewers: entries(self.reviewers),
            lifetimes: self.lifetimes,
            keys: self.keys,
            guessing: self.guessing,
            search: self.search,
            authentication_configuration: self.authentication_configuration,
            branding: self.branding,
            refusals: self.refusals,
            cs3: self.cs3,
            presets: self.presets,
            opencloud: self.opencloud,
            sharing: self.sharing,
        })
    }

    /// The ids that a section declares, also those of entries that have faults.
    pub(super) fn declared(&self, section: &str) -> BTreeSet<&str> {
        let entries = self.root.get(section).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| entry.get("id")?.as_str()).collect()
    }

    /// The tenants that can be referred to.
    pub(super) fn declared_tenants(&self, places: &Places) -> BTreeSet<&str> {
        let mut ids = self.declared("tenants");
        if places.has("systemTenant") {
            ids.insert("system");
        }
        ids
    }
}

fn one<T: DeserializeOwned + Default>(root: &Value, key: &str, places: &mut Places) -> T {
    root.get(key).and_then(|value| entry(value, key, places)).unwrap_or_default()
}

fn items<T: DeserializeOwned>(root: &Value, key: &str, places: &mut Places) -> Vec<(String, T)> {
    let entries = root.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    entries
        .filter_map(|(index, value)| {
            let path = format!("{key}[{index}]");
            entry(value, &path, places).map(|item| (path, item))
        })
        .collect()
}

fn entry<T: DeserializeOwned>(value: &Value, path: &str, places: &mut Places) -> Option<T> {
    let read = T::deserialize(value);
    if read.is_err() && !places.is_faulty(path) {
        // The error's own text would quote the value.
        places.fault(path, "a value in it can not be read; the schema says what it must be");
    }
    read.ok()
}
