//! What Keystone says of someone, as claims: the one place that names them. They are the same whatever they come from: a token, a
//! sign-in, a user's record.

use std::{collections::BTreeSet, time::Duration};

use claims_mapping::{Claims, Subject, UpstreamUser};
use serde_json::{Map, Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::ConnectorError;

/// The claims that are read from role assignments, and only where the mapping names one.
pub(super) const OF_ASSIGNMENTS: [&str; 4] = ["system_roles", "domain_roles", "project_roles", "project_assignments"];
/// The tenant of the operators, and so no domain's name for itself.
const SYSTEM: &str = "system";

/// A domain, or a project and its domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) domain: Option<Domain>,
}

/// What roles are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    Unscoped,
    Project(Project),
    Domain(Domain),
    System,
}

/// A group of the user's own domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) name: String,
}

/// A role (its name) that someone has somewhere; `scope` is never [`Scope::Unscoped`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) role: String,
    pub(super) scope: Scope,
}

/// A trust, by which a token was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) id: String,
    pub(super) trustor_id: String,
    pub(super) trustee_id: String,
    /// Whether the token speaks of the trustor, while its bearer is the trustee.
    pub(super) impersonation: bool,
}

/// An application credential, by which a token was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApplicationCredential {
    pub(super) id: String,
    pub(super) name: Option<String>,
    /// Whether it is good for certain requests to certain services only.
    pub(super) has_access_rules: bool,
}

/// What Keystone says of someone.
#[derive(Clone)]
pub(super) struct Facts {
    subject: Subject,
    name: String,
    domain: Domain,
    email: Option<String>,
    description: Option<String>,
    scope: Scope,
    roles: Vec<String>,
    methods: Vec<String>,
    credential: Option<ApplicationCredential>,
    trust: Option<Trust>,
    federation: Option<Federation>,
    /// Why a bearer of this token need not be its user.
    bound: Option<&'static str>,
    expires_at: Option<OffsetDateTime>,
    groups: Option<Vec<Group>>,
    assignments: Option<Vec<Assignment>>,
}

#[derive(Clone)]
struct Federation {
    identity_provider: Option<String>,
    protocol: Option<String>,
    group_ids: Vec<String>,
}

impl Facts {
    /// What a token says (the member `token` of Keystone's answer).
    ///
    /// # Errors
    /// When it is no such thing: the user's id, name or domain is missing, a text is not one, times can not be read.
    pub(super) fn of_token(token: &Value) -> Result<Self, ConnectorError> {
        let part = Part { what: "a token", value: token };
        let user = part.required("user")?;
        let domain = domain(user.required("domain")?)?;
        let scope = match (part.member("project"), part.member("domain"), part.member("system")) {
            (None, None, None) => Scope::Unscoped,
            (Some(project), None, None) => Scope::Project(Project {
                id: project.text("id")?,
                name: project.optional_text("name")?,
                domain: project.member("domain").map(self::domain).transpose()?,
            }),
            (None, Some(domain), None) => Scope::Domain(self::domain(domain)?),
            (None, None, Some(system)) if system.value.get("all") == Some(&Value::Bool(true)) => Scope::System,
            _ => return Err(part.unusable("its scope can not be read")),
        };
        let roles = part.items("roles")?.iter().map(|role| role.text("name")).collect::<Result<BTreeSet<_>, _>>()?;
        let methods = part.items("methods")?.iter().map(Part::as_text).collect::<Result<_, _>>()?;
        let expires_at = part.instant("expires_at")?;
        Ok(Self {
            scope,
            roles: roles.into_iter().collect(),
            methods,
            credential: part.member("application_credential").map(credential).transpose()?,
            trust: part.member("OS-TRUST:trust").map(trust).transpose()?,
            federation: user.member("OS-FEDERATION").map(federation).transpose()?,
            bound: bound(&part),
            expires_at: Some(expires_at),
            ..Self::of(&user, domain)?
        })
    }

    /// What a user's own record says (an item of `/v3/users`, or the member `user` of `/v3/users/{id}`). It names no domain.
    ///
    /// # Errors
    /// When it is no such thing.
    pub(super) fn of_user(user: &Value) -> Result<Self, ConnectorError> {
        let part = Part { what: "a user", value: user };
        let domain = Domain { id: part.text("domain_id")?, name: None };
        Self::of(&part, domain)
    }

    fn of(user: &Part<'_>, domain: Domain) -> Result<Self, ConnectorError> {
        let subject = Subject::parse(&user.text("id")?).map_err(|_| user.unusable("its `id` can be nobody's"))?;
        Ok(Self {
            subject,
            name: user.text("name")?,
            domain,
            // Further attributes of a record: whoever may write it gives them any form, and what is no text is nobody's address.
            email: user.value.get("email").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned),
            description: user.value.get("description").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned),
            scope: Scope::Unscoped,
            roles: Vec::new(),
            methods: Vec::new(),
            credential: None,
            trust: None,
            federation: None,
            bound: None,
            expires_at: None,
            groups: None,
            assignments: None,
        })
    }

    /// With e-mail address and description, which only the user's own record has.
    ///
    /// # Errors
    /// When the record is another one's, or none.
    pub(super) fn with_record(mut self, user: &Value) -> Result<Self, ConnectorError> {
        let record = Self::of_user(user)?;
        if record.subject != self.subject || record.domain.id != self.domain.id {
            return Err(ConnectorError::Unusable("keystone: a user: the record is another one's".to_owned()));
        }
        (self.email, self.description) = (record.email, record.description);
        Ok(self)
    }

    /// With the name of the user's domain, which a user's record does not have.
    pub(super) fn with_domain_name(mut self, name: String) -> Self {
        self.domain.name = Some(name);
        self
    }

    /// With the groups, which must be of the user's own domain.
    pub(super) fn with_groups(mut self, groups: Vec<Group>) -> Self {
        self.groups = Some(groups);
        self
    }

    /// With all roles that the user has anywhere, which must be those in force (`effective`).
    pub(super) fn with_assignments(mut self, assignments: Vec<Assignment>) -> Self {
        self.assignments = Some(assignments);
        self
    }

    /// With a scope and the roles on it, for a record: what a token of that scope would say.
    pub(super) fn with_scope(mut self, scope: Scope, roles: impl IntoIterator<Item = String>) -> Self {
        self.scope = scope;
        self.roles = roles.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        self
    }

    /// With the ways by which the user was proven at an earlier sign-in, for a record.
    pub(super) fn with_methods(mut self, methods: Vec<String>) -> Self {
        self.methods = methods;
        self
    }

    /// With the application credential by which that was, for a record.
    pub(super) fn with_credential(mut self, credential: ApplicationCredential) -> Self {
        self.credential = Some(credential);
        self
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The user's own domain.
    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The names of the roles on the scope.
    pub(super) fn roles(&self) -> &[String] {
        &self.roles
    }

    /// By what the user was proven, as Keystone calls it.
    pub(super) fn methods(&self) -> &[String] {
        &self.methods
    }

    pub(super) fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    pub(super) fn credential(&self) -> Option<&ApplicationCredential> {
        self.credential.as_ref()
    }

    /// The groups that an identity provider's mapping put the user into, by their ids; of whatever domain.
    pub(super) fn federated_groups(&self) -> &[String] {
        self.federation.as_ref().map_or(&[], |federation| &federation.group_ids)
    }

    /// Why whoever bears this token need not be its user, and no one else can tell: for an operator.
    pub(super) fn bound(&self) -> Option<&'static str> {
        self.bound
    }

    /// Until when the token is good; `None` for a record.
    pub(super) fn expires_at(&self) -> Option<OffsetDateTime> {
        self.expires_at
    }

    /// The user as claims. `system_roles` are the roles of which a system-scoped token must have one to stand for the operators' tenant.
    ///
    /// # Errors
    /// When they are more than claims may be.
    pub(super) fn into_user(self, system_roles: &[String]) -> Result<UpstreamUser, ConnectorError> {
        let claims = self.claims(system_roles);
        let claims = Claims::new(Value::Object(claims)).map_err(|error| ConnectorError::Unusable(format!("keystone: a user: {error}")))?;
        Ok(UpstreamUser { subject: self.subject, claims })
    }

    fn claims(&self, system_roles: &[String]) -> Map<String, Value> {
        let mut claims = Map::new();
        let mut put = |name: &str, value: Value| _ = claims.insert(name.to_owned(), value);
        put("user_id", self.subject.as_str().into());
        put("user_name", self.name.as_str().into());
        put("user_domain_id", self.domain.id.as_str().into());
        put_text(&mut put, "user_domain_name", self.domain.name.as_deref().filter(|name| !is_system(name)));
        put_text(&mut put, "domain", self.tenant(system_roles));
        put_text(&mut put, "email", self.email.as_deref());
        put_text(&mut put, "display_name", self.description.as_deref());
        let mut projects = BTreeSet::new();
        let scope = match &self.scope {
            Scope::Unscoped => "unscoped",
            Scope::System => {
                put("system", "all".into());
                "system"
            }
            Scope::Domain(domain) => {
                put("domain_id", domain.id.as_str().into());
                put_text(&mut put, "domain_name", domain.name.as_deref().filter(|name| !is_system(name)));
                "domain"
            }
            Scope::Project(project) => {
                projects.insert(project.id.as_str());
                put("project_id", project.id.as_str().into());
                put_text(&mut put, "project_name", project.name.as_deref());
                put_text(&mut put, "project_domain_id", project.domain.as_ref().map(|domain| domain.id.as_str()));
                let domain_name = project.domain.as_ref().and_then(|domain| domain.name.as_deref());
                put_text(&mut put, "project_domain_name", domain_name.filter(|name| !is_system(name)));
                "project"
            }
        };
        put("scope", scope.into());
        put("roles", self.roles.clone().into());
        if !self.methods.is_empty() {
            put("methods", self.methods.clone().into());
        }
        if let Some(assignments) = &self.assignments {
            projects.extend(assignments.iter().filter_map(|assignment| match &assignment.scope {
                Scope::Project(project) => Some(project.id.as_str()),
                _ => None,
            }));
            for (name, value) in of_assignments(assignments, &self.domain.id) {
                put(name, value);
            }
        }
        put("projects", projects.into_iter().collect::<Vec<_>>().into());
        if let Some(groups) = &self.groups {
            put("groups", groups.iter().map(|group| group.name.as_str()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().into());
            put("group_ids", groups.iter().map(|group| group.id.as_str()).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().into());
        }
        if let Some(credential) = &self.credential {
            put("application_credential_id", credential.id.as_str().into());
            put_text(&mut put, "application_credential_name", credential.name.as_deref());
        }
        if let Some(trust) = &self.trust {
            put("trust_id", trust.id.as_str().into());
            put("trustor_id", trust.trustor_id.as_str().into());
            put("trustee_id", trust.trustee_id.as_str().into());
            put("impersonation", trust.impersonation.into());
        }
        if let Some(federation) = &self.federation {
            put_text(&mut put, "identity_provider", federation.identity_provider.as_deref());
            put_text(&mut put, "protocol", federation.protocol.as_deref());
        }
        claims
    }

    /// The user's own domain, or the operators' tenant. A domain that happens to be called as that one is no tenant at all.
    fn tenant(&self, system_roles: &[String]) -> Option<&str> {
        if self.scope == Scope::System && self.roles.iter().any(|role| system_roles.contains(role)) {
            return Some(SYSTEM);
        }
        Some(self.domain.id.as_str()).filter(|id| !is_system(id))
    }
}

/// Whether a domain is called as the tenant of the operators. Who may name domains must not name operators.
fn is_system(name: &str) -> bool {
    name.eq_ignore_ascii_case(SYSTEM)
}

fn put_text(put: &mut impl FnMut(&str, Value), name: &str, text: Option<&str>) {
    if let Some(text) = text {
        put(name, text.into());
    }
}

/// `domain_roles` are those on the user's own domain: a name alone does not say on which.
fn of_assignments(assignments: &[Assignment], own_domain: &str) -> [(&'static str, Value); 4] {
    let (mut system, mut domain, mut project) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut projects: Vec<(&Project, BTreeSet<&str>)> = Vec::new();
    for Assignment { role, scope } in assignments {
        match scope {
            Scope::Unscoped => {}
            Scope::System => _ = system.insert(role.as_str()),
            Scope::Domain(on) => {
                if on.id == own_domain {
                    domain.insert(role.as_str());
                }
            }
            Scope::Project(on) => {
                project.insert(format!("{}/{role}", on.id));
                match projects.iter_mut().find(|(known, _)| known.id == on.id) {
                    Some((_, roles)) => _ = roles.insert(role),
                    None => projects.push((on, BTreeSet::from([role.as_str()]))),
                }
            }
        }
    }
    projects.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    let projects: Vec<_> = projects.into_iter().map(|(project, roles)| assigned(project, &roles)).collect();
    let [system_roles, domain_roles, project_roles, project_assignments] = OF_ASSIGNMENTS;
    [(system_roles, json!(system)), (domain_roles, json!(domain)), (project_roles, json!(project)), (project_assignments, projects.into())]
}

fn assigned(project: &Project, roles: &BTreeSet<&str>) -> Value {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| _ = map.insert(name.to_owned(), value);
    put("id", project.id.as_str().into());
    put_text(&mut put, "name", project.name.as_deref());
    put_text(&mut put, "domain_id", project.domain.as_ref().map(|domain| domain.id.as_str()));
    put_text(&mut put, "domain_name", project.domain.as_ref().and_then(|domain| domain.name.as_deref()));
    put("roles", json!(roles));
    Value::Object(map)
}

/// A part of an answer, and what the answer is about.
struct Part<'a> {
    what: &'static str,
    value: &'a Value,
}

impl<'a> Part<'a> {
    fn unusable(&self, why: &str) -> ConnectorError {
        ConnectorError::Unusable(format!("keystone: {}: {why}", self.what))
    }

    fn member(&self, name: &str) -> Option<Self> {
        self.value.get(name).filter(|value| !value.is_null()).map(|value| Part { what: self.what, value })
    }

    fn required(&self, name: &str) -> Result<Self, ConnectorError> {
        self.member(name).ok_or_else(|| self.unusable(&format!("`{name}` is missing")))
    }

    fn as_text(&self) -> Result<String, ConnectorError> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.unusable("what should be a text is none"))
    }

    fn text(&self, name: &str) -> Result<String, ConnectorError> {
        let text = self.value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.unusable(&format!("`{name}` is missing, or no text")))
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>, ConnectorError> {
        self.member(name).map(|member| member.as_text()).transpose()
    }

    fn items(&self, name: &str) -> Result<Vec<Self>, ConnectorError> {
        match self.member(name).map(|member| member.value) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items.iter().map(|value: &'a Value| Part { what: self.what, value }).collect()),
            Some(_) => Err(self.unusable(&format!("`{name}` is no list"))),
        }
    }

    fn instant(&self, name: &str) -> Result<OffsetDateTime, ConnectorError> {
        let unreadable = |_| self.unusable(&format!("`{name}` is no time"));
        OffsetDateTime::parse(&self.text(name)?, &Rfc3339).map_err(unreadable)
    }
}

fn domain(part: Part<'_>) -> Result<Domain, ConnectorError> {
    Ok(Domain { id: part.text("id")?, name: part.optional_text("name")? })
}

fn credential(part: Part<'_>) -> Result<ApplicationCredential, ConnectorError> {
    Ok(ApplicationCredential {
        id: part.text("id")?,
        name: part.optional_text("name")?,
        has_access_rules: part.member("access_rules").is_some(),
    })
}

fn trust(part: Part<'_>) -> Result<Trust, ConnectorError> {
    Ok(Trust {
        id: part.text("id")?,
        trustor_id: part.required("trustor_user")?.text("id")?,
        trustee_id: part.required("trustee_user")?.text("id")?,
        // Whatever is not plainly "no" is taken for the worse of the two.
        impersonation: part.value.get("impersonation") != Some(&Value::Bool(false)),
    })
}

fn federation(part: Part<'_>) -> Result<Federation, ConnectorError> {
    let id = |name: &str| part.member(name).map(|member| member.text("id")).transpose();
    let group_ids = part.items("groups")?.iter().map(|group| group.text("id")).collect::<Result<_, _>>()?;
    Ok(Federation { identity_provider: id("identity_provider")?, protocol: id("protocol")?, group_ids })
}

/// Tokens that someone else bears than the user, or that are good with a certificate only.
fn bound(token: &Part<'_>) -> Option<&'static str> {
    if token.member("OS-OAUTH1").is_some() {
        return Some("it is an OAuth 1.0 consumer's, whom the user let act for them");
    }
    token.member("oauth2_credential").map(|_| "it is good with a client's certificate only")
}

/// For how long a token is good from when it was issued; `None` where it does not say so.
pub(super) fn lifetime(token: &Value) -> Option<Duration> {
    let part = Part { what: "a token", value: token };
    let life = part.instant("expires_at").ok()? - part.instant("issued_at").ok()?;
    life.try_into().ok()
}

#[cfg(test)]
mod tests;
