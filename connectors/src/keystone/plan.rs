//! The configuration of a `keystone` connector, checked: every fault at once, each with its place. Reads the files that it names, and
//! does no other I/O.

use std::sync::Arc;

use claims_mapping::Mapping;
use url::Url;

use super::{
    api::Server,
    auth::{By, Proof, Wanted, is_name},
    claims::OF_ASSIGNMENTS,
    config::{AccountScope, All, KeystoneConfig, ProjectName, ServiceAccountConfig, SignInScope, TokensConfig, Trusts},
};
use crate::{
    Secret,
    faults::Faults,
    http::{Http, Roots},
};

/// A checked configuration.
pub(super) struct Plan {
    pub(super) server: Arc<Server>,
    pub(super) proof: Proof,
    /// The same for reading people, where it is another.
    pub(super) directory_proof: Option<Proof>,
    pub(super) rules: Rules,
    pub(super) accept_tokens: bool,
    pub(super) tokens: TokensConfig,
}

/// Who this connector's people are, and what is asked about them.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) tenancy: Tenancy,
    /// The only domain whose users are taken.
    pub(super) domain_id: Option<String>,
    pub(super) scope: SignInScope,
    pub(super) directory: bool,
    pub(super) groups: bool,
    /// Whether the mapping needs the roles that someone has anywhere.
    pub(super) assignments: bool,
    /// Whether it needs those on the system among them.
    pub(super) system_assignments: bool,
    pub(super) system_roles: Vec<String>,
    pub(super) trusts: Trusts,
}

/// What a tenant is called in Keystone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tenancy {
    /// All users are of one tenant.
    Fixed,
    /// By its domain's id.
    DomainId,
    /// By its domain's name.
    DomainName,
    /// It can not be said before someone is known.
    Other,
}

impl Tenancy {
    fn of(mapping: &Mapping, fixed_tenant: bool) -> Self {
        match mapping.tenant_claim() {
            _ if fixed_tenant => Self::Fixed,
            Some("domain" | "user_domain_id") => Self::DomainId,
            Some("user_domain_name") => Self::DomainName,
            _ => Self::Other,
        }
    }
}

const ONE_OF_BOTH: &str = "give either its `id` or its `name`: 1 to 255 characters, none of them a control character";

impl Plan {
    pub(super) fn new(config: &KeystoneConfig, mapping: &Mapping, fixed_tenant: bool) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Faults::default();
        let networks = faults.networks(&config.allowed_networks);
        let http = Http::new("keystone", roots(config, &mut faults), networks);
        let base = base(config, &http, &mut faults);
        let proof = proof(&config.service_account, &mut faults);
        let directory_proof = directory_proof(config, proof.as_ref(), &mut faults);
        let rules = rules(config, mapping, fixed_tenant, &mut faults);
        tokens(config.tokens, &mut faults);
        match (base, proof) {
            (Some(base), Some(proof)) if faults.is_empty() => {
                let server = Arc::new(Server { base, http });
                Ok(Self { server, proof, directory_proof, rules, accept_tokens: config.accept_tokens, tokens: config.tokens })
            }
            _ => Err(faults.into_list()),
        }
    }
}

fn roots(config: &KeystoneConfig, faults: &mut Faults) -> Roots {
    let Some(file) = &config.certificate_authority_file else { return Roots::Platform };
    let read = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
    faults.check("certificateAuthorityFile", read.and_then(|text| Roots::of_pem(&text))).unwrap_or(Roots::Platform)
}

fn base(config: &KeystoneConfig, http: &Http, faults: &mut Faults) -> Option<Url> {
    if config.endpoints.is_empty() {
        if config.region.is_some() {
            faults.add("region", "there are no `endpoints` of which it could be one");
        }
        return match &config.url {
            Some(url) => faults.check("url", address(url, http)),
            None => {
                faults.add("url", "it is missing: give the address of the Identity API, or `endpoints` and a `region`");
                None
            }
        };
    }
    if config.url.is_some() {
        faults.add("url", "give either `url` or `endpoints`, not both");
    }
    let mut addresses = Vec::new();
    for (name, url) in &config.endpoints {
        addresses.push((name, faults.check(&format!("endpoints.{name}"), address(url, http))));
    }
    let Some(region) = &config.region else {
        faults.add("region", "it is missing: say which of the `endpoints` is used");
        return None;
    };
    match addresses.into_iter().find(|(name, _)| *name == region) {
        Some((_, url)) => url,
        None => {
            faults.add("region", "it is none of the `endpoints`");
            None
        }
    }
}

fn address(text: &str, http: &Http) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not have a user or a password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it must not have a query or a fragment".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/v3") {
        return Err("it must end with `/v3`, the version of the Identity API, as https://keystone.example:5000/v3".to_owned());
    }
    url.set_path(&path);
    http.check(&url).map(|()| url)
}

fn proof(config: &ServiceAccountConfig, faults: &mut Faults) -> Option<Proof> {
    let at = |field: &str| format!("serviceAccount.{field}");
    let secret = |faults: &mut Faults, field: &str, value: &Option<_>, file: &Option<std::path::PathBuf>| {
        let path = if value.is_some() { at(field) } else { at(&format!("{field}File")) };
        faults.check(&path, Secret::read(value.as_ref(), file.as_deref()))
    };
    let password = secret(faults, "password", &config.password, &config.password_file);
    let credential =
        secret(faults, "applicationCredentialSecret", &config.application_credential_secret, &config.application_credential_secret_file);
    let is_credential = config.application_credential_id.is_some()
        || config.application_credential_secret.is_some()
        || config.application_credential_secret_file.is_some();
    if is_credential {
        let others = [
            ("name", config.name.is_some()),
            ("domain", config.domain.is_some()),
            ("password", config.password.is_some()),
            ("passwordFile", config.password_file.is_some()),
        ];
        for (field, _) in others.into_iter().filter(|(_, given)| *given) {
            faults.add(at(field), "give either a user and a password or an application credential, not both");
        }
        if config.scope.is_some() {
            faults.add(at("scope"), "an application credential has the scope that it was made for, and takes no other");
        }
        let id = config.application_credential_id.clone().filter(|id| is_name(id));
        if id.is_none() {
            faults.add(at("applicationCredentialId"), "it is missing: give the credential's id");
        }
        if credential.as_ref().is_some_and(Option::is_none) {
            faults.add(at("applicationCredentialSecret"), "it is missing: give the secret or its file");
        }
        return Some(Proof::ApplicationCredential { id: id?, secret: credential?? });
    }
    let name = config.name.clone().filter(|name| is_name(name));
    if name.is_none() {
        faults.add(at("name"), "it is missing: give a user's name, domain and password, or an application credential");
    }
    let domain = match &config.domain {
        Some(named) => faults.check(&at("domain"), By::of(named).ok_or_else(|| ONE_OF_BOTH.to_owned())),
        None => {
            faults.add(at("domain"), "it is missing: give the domain of the user, as `{ id: default }`");
            None
        }
    };
    if password.as_ref().is_some_and(Option::is_none) {
        faults.add(at("password"), "it is missing: give the password or its file");
    }
    let Some(scope) = &config.scope else {
        faults.add(at("scope"), "it is missing: without a scope the account has no role, and may ask nothing");
        return None;
    };
    let wanted = account_scope("scope", scope, faults);
    Some(Proof::Password { name: name?, domain: domain?, password: password??, wanted: wanted? })
}

/// The proof for reading people, where it is for another scope than the one for tokens.
fn directory_proof(config: &KeystoneConfig, proof: Option<&Proof>, faults: &mut Faults) -> Option<Proof> {
    const FIELD: &str = "directoryScope";
    let scope = config.service_account.directory_scope.as_ref()?;
    let wanted = account_scope(FIELD, scope, faults);
    if !config.directory && config.groups != Some(true) {
        faults.add(format!("serviceAccount.{FIELD}"), "it is for reading people, and `userDirectory` and `groups` are off: leave it out");
    }
    match proof? {
        Proof::Password { name, domain, password, .. } => {
            Some(Proof::Password { name: name.clone(), domain: domain.clone(), password: password.clone(), wanted: wanted? })
        }
        Proof::ApplicationCredential { .. } => {
            faults.add(
                format!("serviceAccount.{FIELD}"),
                "an application credential has the scope that it was made for, and takes no other: use a user and a password",
            );
            None
        }
    }
}

/// The scope that a field of the service account names.
fn account_scope(field: &str, scope: &AccountScope, faults: &mut Faults) -> Option<Wanted> {
    let path = format!("serviceAccount.{field}");
    match scope {
        AccountScope::System(All::All) => Some(Wanted::System),
        AccountScope::Domain(named) => {
            faults.check(&format!("{path}.domain"), By::of(named).map(Wanted::Domain).ok_or_else(|| ONE_OF_BOTH.to_owned()))
        }
        AccountScope::Project(project) => {
            let path = format!("{path}.project");
            match faults.check(&path, named_project(project))? {
                NamedProject::Id(id) => Some(Wanted::ProjectById(id)),
                NamedProject::Name(name, Some(domain)) => Some(Wanted::Project { name, domain }),
                NamedProject::Name(_, None) => {
                    faults.add(format!("{path}.domain"), "it is missing: projects of several domains may have one name");
                    None
                }
            }
        }
    }
}

/// A project as the configuration names it.
pub(super) enum NamedProject {
    Id(String),
    /// In the domain of whoever signs in where that is absent.
    Name(String, Option<By>),
}

/// # Errors
/// What is wrong with it, for the operator.
pub(super) fn named_project(project: &ProjectName) -> Result<NamedProject, String> {
    match (&project.id, &project.name, &project.domain) {
        (Some(id), None, None) if is_name(id) => Ok(NamedProject::Id(id.clone())),
        (Some(_), None, Some(_)) => Err("an id says which project it is: leave its domain out".to_owned()),
        (None, Some(name), None) if is_name(name) => Ok(NamedProject::Name(name.clone(), None)),
        (None, Some(name), Some(domain)) if is_name(name) => {
            let domain = By::of(domain).ok_or_else(|| format!("its domain: {ONE_OF_BOTH}"))?;
            Ok(NamedProject::Name(name.clone(), Some(domain)))
        }
        _ => Err(ONE_OF_BOTH.to_owned()),
    }
}

fn rules(config: &KeystoneConfig, mapping: &Mapping, fixed_tenant: bool, faults: &mut Faults) -> Rules {
    let tenancy = Tenancy::of(mapping, fixed_tenant);
    if config.domain_id.as_deref().is_some_and(|id| !is_name(id)) {
        faults.add("domainId", "it must be a domain's id: leave it out to take the users of every domain");
    }
    match tenancy {
        // People of two domains may have one name, and here would be of one tenant.
        Tenancy::Fixed if config.domain_id.is_none() => {
            faults.add("domainId", "it is missing: where all users are of one tenant, say of which domain they are");
        }
        Tenancy::Other if config.directory => faults.add(
            "userDirectory",
            "users can be searched only where the tenant rule is a plain claim (`domain`, `user_domain_id`, `user_domain_name`) or a fixed tenant: use one, or set `userDirectory: false`",
        ),
        _ => {}
    }
    if let SignInScope::Project(project) = &config.scope {
        faults.check("scope.project", named_project(project).map(drop));
    }
    for (index, role) in config.system_roles.iter().enumerate() {
        if !is_name(role) {
            faults.add(format!("systemRoles[{index}]"), "it must be a role's name");
        }
    }
    if config.trusts == Trusts::Allow && !config.directory {
        faults.add("trusts", "`allow` needs `userDirectory: true`: the trustee's domain is in their record only");
    }
    Rules {
        tenancy,
        domain_id: config.domain_id.clone(),
        scope: config.scope.clone(),
        directory: config.directory,
        groups: config.groups.unwrap_or(config.directory),
        assignments: mapping.claim_names().is_some_and(|names| OF_ASSIGNMENTS.iter().any(|name| names.contains(name))),
        system_assignments: mapping.claim_names().is_some_and(|names| names.contains("system_roles")),
        system_roles: config.system_roles.clone(),
        trusts: config.trusts,
    }
}

fn tokens(config: TokensConfig, faults: &mut Faults) {
    if !(1..=3_600).contains(&config.cache_seconds) {
        faults.add("tokens.cacheSeconds", "it must be from 1 to 3600: for so long a token that was revoked may still be taken");
    }
    if !(1..=3_600).contains(&config.refusal_seconds) {
        faults.add("tokens.refusalSeconds", "it must be from 1 to 3600");
    }
    if !(1..=256).contains(&config.in_flight) {
        faults.add("tokens.inFlight", "it must be from 1 to 256");
    }
}

#[cfg(test)]
mod tests;
