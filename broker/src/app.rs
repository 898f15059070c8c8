//! The program as one value: every use case, over one configuration and one set of seams.

use std::{sync::Arc, time::Duration as StdDuration};

use time::OffsetDateTime;

use crate::{
    branding::Looks,
    breaker::Breaker,
    config::{Config, Loaded, seconds},
    cs3::{Cs3, Cs3Parts, GroupIds},
    deadline::Deadline,
    directory::{People, Reindex},
    grants::{Client, Clients, GrantParts, Grants},
    login::{
        Attempts, CredentialSignIn, Ending, Guessing, Handshakes, PasswordSignIn, RedirectSignIn, SessionParts, Sessions, UpstreamGrants,
        UpstreamLogouts, Ways, listed_by_default,
    },
    logout_notices::{Deliveries, DeliveryParts, Outbox},
    metrics::Metrics,
    refusals::Refusals,
    replicas::{JoinError, Replicas},
    review::{Review, Reviewer, Reviewers},
    sealing::{InTheClear, Sealing, SealingError},
    seams::Seams,
    secret_text::random_uuid,
    sharing::Sharing,
    standing::Judge,
    store::Release,
    tenancy::{Admission, IdRecords, Join, RegistryError, SignedInPeople, Tenants, Wired},
    tokens::{KeyError, KeyRing, RingParts, Verifier},
    vouching::Vouching,
};
use connectors::{
    CredentialLogin, Directory, Groups, LogoutNotices, PasswordLogin, RedirectLogin, Renewal, TokenAuthentication, TokenRevocation,
    config::Upstream,
};

/// The program could not be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// This version may not serve from the store.
    #[error(transparent)]
    Replicas(#[from] JoinError),
    /// The signing keys could not be read or made.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// There is no key to seal with.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The tenants could not be read.
    #[error(transparent)]
    Tenants(#[from] RegistryError),
    /// A secret of the configuration could not be read.
    #[error("{what}: {why}")]
    Secret {
        /// Whose.
        what: String,
        /// Why not.
        why: String,
    },
    /// The store could not tell.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The HTTP client for logout notices could not be made.
    #[error("logout notices can not be sent: {0}")]
    Http(#[from] reqwest::Error),
}

/// Every use case.
#[derive(Debug)]
pub struct App {
    /// Denizen's issuer, as it stands in tokens and metadata.
    pub issuer: String,
    /// The configuration.
    pub config: Config,
    /// How the pages look.
    pub looks: Looks,
    /// What a test replaces; the store is the one that this version knows.
    pub seams: Seams,
    /// This replica among the others.
    pub replicas: Arc<Replicas>,
    /// The signing keys.
    pub keys: Arc<KeyRing>,
    /// The way in.
    pub admission: Arc<Admission>,
    /// Sign-ins under way.
    pub attempts: Attempts,
    /// Signed-in sessions.
    pub sessions: Sessions,
    /// Sign-outs that upstreams tell of.
    pub upstream_logouts: UpstreamLogouts,
    /// Tells clients of sign-outs.
    pub deliveries: Arc<Deliveries>,
    /// Sign-in with name and password.
    pub password: PasswordSignIn,
    /// Sign-in with a credential made for a program.
    pub credential: CredentialSignIn,
    /// Sign-in at upstreams' own pages.
    pub redirect: RedirectSignIn,
    /// Which ways to sign in there are, for whom.
    pub ways: Ways,
    /// What is kept of refused sign-ins.
    pub refusals: Refusals,
    /// What a browser shows later, vouched for by us.
    pub vouching: Vouching,
    /// What the token endpoint can do.
    pub grants: Grants,
    /// Whether tokens are in force.
    pub judge: Arc<Judge>,
    /// Token reviews.
    pub review: Review,
    /// Who may ask for them.
    pub reviewers: Reviewers,
    /// User search.
    pub people: Arc<People>,
    /// The ids of groups.
    pub group_ids: Arc<GroupIds>,
    /// Who may share with whom.
    pub sharing: Sharing,
    /// Lists of all that directories know.
    pub reindex: Reindex,
    /// What OpenCloud asks, where it does.
    pub cs3: Option<Cs3>,
    /// What is counted.
    pub metrics: Metrics,
}

/// Puts the program together. Reads the store, makes the keys that are missing, and contacts no upstream.
///
/// # Errors
/// When keys or secrets can not be read, the store is of a newer version, or could not tell.
pub async fn build(loaded: Loaded, seams: Seams) -> Result<App, BuildError> {
    build_as(&Release::THIS, loaded, seams).await
}

/// The same, as a version that knows other formats of stored values.
///
/// # Errors
/// As above.
pub async fn build_as(release: &Release, loaded: Loaded, seams: Seams) -> Result<App, BuildError> {
    let (replicas, store) = Replicas::join(release, &seams).await?;
    let replicas = Arc::new(replicas);
    let app = put_together(loaded, Seams { store, ..seams }, Arc::clone(&replicas)).await;
    if app.is_err() {
        replicas.leave().await;
    }
    app
}

async fn put_together(loaded: Loaded, seams: Seams, replicas: Arc<Replicas>) -> Result<App, BuildError> {
    let Loaded { config, tenants, connectors, looks, .. } = loaded;
    let now = seams.clock.now();
    let issuer = crate::issuer_text(&config.issuer);
    // To a file only we write; what lies there in the clear is from before there was a key to seal it with.
    let in_the_clear = if config.store.redis.is_some() { InTheClear::Refused } else { InTheClear::Sealed };
    let (sealing, vouching, keys) = open_keys(&config, &seams, in_the_clear, now).await?;
    let keys = Arc::new(keys);
    let tenants = Arc::new(
        Tenants::open(tenants, config.create_tenants.then(|| config.reserved_labels.clone()), Arc::clone(&seams.store), now).await?,
    );
    let wired = connectors.into_iter().map(|c| Arc::new(wire(c, &config))).collect();
    let admission = Arc::new(Admission::new(tenants, IdRecords::new(Arc::clone(&seams.store)), wired));
    let (store, entropy) = (&seams.store, &seams.entropy);
    let outbox = Outbox::new(Arc::clone(store));
    let lifetimes = &config.lifetimes;
    let longest = lifetimes.session_seconds.max(lifetimes.refresh_token_seconds).max(lifetimes.access_token_seconds);
    let signed_in_people = SignedInPeople::new(Arc::clone(store), seconds(lifetimes.signed_in_people_seconds));
    let metrics = Metrics::default();
    let people = People::new(Arc::clone(&admission), signed_in_people.clone(), config.search.clone());
    let people = Arc::new(match &config.cs3 {
        Some(cs3) => people.remembering(&cs3.cache, &metrics.lookups),
        None => people,
    });
    let secret = |what: String| move |why| BuildError::Secret { what, why };
    let group_ids = Arc::new(GroupIds::new(Arc::clone(store)));
    let parts =
        Cs3Parts { admission: Arc::clone(&admission), people: Arc::clone(&people), group_ids: Arc::clone(&group_ids), config: &config };
    let cs3 = Cs3::new(parts).map_err(secret("`cs3.jwtSecretFile`".to_owned()))?;
    let sessions = Sessions::new(SessionParts {
        store: Arc::clone(store),
        entropy: Arc::clone(entropy),
        admission: Arc::clone(&admission),
        grants: Arc::new(UpstreamGrants::new(
            Arc::clone(store),
            Arc::clone(entropy),
            sealing,
            Arc::clone(&admission),
            Arc::clone(&seams.peers),
            seconds(longest),
        )),
        people: signed_in_people.clone(),
        ending: Ending::new(Arc::clone(store), outbox.clone()),
        lifetime: seconds(lifetimes.session_seconds),
    });
    let clients = config.clients.iter().map(|c| Client::new(c).map_err(secret(format!("client `{}`", c.id))));
    let reviewers = config.reviewers.iter().map(|r| Reviewer::new(r).map_err(secret(format!("reviewer `{}`", r.id))));
    let clients = Arc::new(Clients::new(clients.collect::<Result<_, _>>()?));
    let reviewers = Reviewers::new(reviewers.collect::<Result<_, _>>()?, &issuer);
    let verifier = Verifier::new(Arc::clone(&keys), issuer.clone());
    let judge = Arc::new(Judge::new(verifier, Arc::clone(&admission), Arc::clone(&clients), Arc::clone(&seams.store)));
    let deliveries = Arc::new(Deliveries::new(DeliveryParts {
        outbox,
        clients: Arc::clone(&clients),
        keys: Arc::clone(&keys),
        clock: Arc::clone(&seams.clock),
        entropy: Arc::clone(entropy),
        issuer: issuer.clone(),
        store: Arc::clone(store),
        peers: Arc::clone(&seams.peers),
    })?);
    let grants = Grants::new(GrantParts {
        clients,
        keys: Arc::clone(&keys),
        store: Arc::clone(store),
        peers: Arc::clone(&seams.peers),
        entropy: Arc::clone(entropy),
        sessions: sessions.clone(),
        admission: Arc::clone(&admission),
        lifetimes: config.lifetimes.clone(),
        issuer: config.issuer.clone(),
    });
    let guessing = Arc::new(Guessing::new(Arc::clone(&seams.limits), &config.guessing));
    Ok(App {
        attempts: Attempts::new(Arc::clone(store), Arc::clone(entropy), seconds(config.lifetimes.attempt_seconds)),
        upstream_logouts: UpstreamLogouts::new(sessions.clone()),
        password: PasswordSignIn::new(Arc::clone(&admission), Arc::clone(&guessing)),
        credential: CredentialSignIn::new(Arc::clone(&admission), guessing),
        redirect: RedirectSignIn::new(
            Arc::clone(&admission),
            Handshakes::new(Arc::clone(store), Arc::clone(entropy), seconds(config.lifetimes.attempt_seconds)),
        ),
        ways: Ways::new(Arc::clone(&admission), &config.tenants),
        refusals: Refusals::new(Arc::clone(store), Arc::clone(entropy), &config.refusals),
        vouching,
        review: Review::new(Arc::clone(&judge), Arc::clone(&admission), issuer.clone(), Arc::clone(store), Arc::clone(&seams.peers)),
        group_ids,
        sharing: Sharing::new(Arc::clone(&people), Arc::clone(&admission.tenants), &config.sharing),
        reindex: Reindex::new(Arc::clone(&admission)),
        people,
        cs3,
        metrics,
        issuer,
        deliveries,
        keys,
        admission,
        sessions,
        grants,
        judge,
        reviewers,
        config,
        looks,
        seams,
        replicas,
    })
}

/// Seals the keys of a store that lie in the clear: those that were brought there from one without `store.sealingKeyFile`.
///
/// # Errors
/// When they can not be read or sealed, or the store could not tell.
pub(crate) async fn seal_keys(config: &Config, seams: Seams) -> Result<(), BuildError> {
    let (replicas, store) = Replicas::join(&Release::THIS, &seams).await?;
    let seams = Seams { store, ..seams };
    let sealed = open_keys(config, &seams, InTheClear::Sealed, seams.clock.now()).await.map(drop);
    replicas.leave().await;
    sealed
}

/// All keys of ours that the store keeps.
async fn open_keys(
    config: &Config,
    seams: &Seams,
    in_the_clear: InTheClear,
    now: OffsetDateTime,
) -> Result<(Sealing, Vouching, KeyRing), BuildError> {
    let file = config.store.sealing_key_file.as_deref();
    let sealing = Sealing::open(&*seams.store, Arc::clone(&seams.entropy), (file, in_the_clear), now).await?;
    let vouching = Vouching::open(&*seams.store, &sealing, &*seams.entropy, now).await?;
    let parts = RingParts {
        store: Arc::clone(&seams.store),
        sealing: sealing.clone(),
        holder: seams.peers.may_be().then(|| random_uuid(&*seams.entropy)),
        keys: &config.keys,
        lifetimes: &config.lifetimes,
    };
    let keys = KeyRing::open(parts, now).await?;
    Ok((sealing, vouching, keys))
}

fn wire(loaded: crate::config::LoadedConnector, whole: &Config) -> Wired {
    let crate::config::LoadedConnector { config, policy, mapping, connector } = loaded;
    let within = StdDuration::from_secs(config.deadline_seconds);
    let listed = listed_by_default(&policy.tenant_rule, &whole.tenants, whole.create_tenants);
    // Those that ask the upstream at every call stand behind its breaker; the deadline is within, so that what is late counts.
    let (breaker, watch) = (Arc::new(Breaker::new(config.id.clone())), Arc::new(Breaker::that_only_tells(config.id.clone())));
    let password = connector
        .password
        .map(|port| Arc::new(Deadline::<dyn PasswordLogin>::new(port, within).behind(&breaker)) as Arc<dyn PasswordLogin>);
    let directory =
        connector.directory.map(|port| Arc::new(Deadline::<dyn Directory>::new(port, within).behind(&breaker)) as Arc<dyn Directory>);
    let groups = connector.groups.map(|port| Arc::new(Deadline::<dyn Groups>::new(port, within).behind(&breaker)) as Arc<dyn Groups>);
    let credential = connector
        .credential
        .map(|port| Arc::new(Deadline::<dyn CredentialLogin>::new(port, within).behind(&breaker)) as Arc<dyn CredentialLogin>);
    let renewal = connector.renewal.map(|port| Arc::new(Deadline::<dyn Renewal>::new(port, within).behind(&breaker)) as Arc<dyn Renewal>);
    // Anyone may ask for it, with whatever text: what goes wrong there must not stand in the way of what reviewers ask.
    let apart = Arc::new(Breaker::new(config.id.clone()));
    let revocation = connector
        .revocation
        .map(|port| Arc::new(Deadline::<dyn TokenRevocation>::new(port, within).behind(&apart)) as Arc<dyn TokenRevocation>);
    let token = connector.token.map(|port| {
        let guard = if port.bounds().asks_upstream { &breaker } else { &watch };
        Arc::new(Deadline::<dyn TokenAuthentication>::new(port, within).behind(guard)) as Arc<dyn TokenAuthentication>
    });
    Wired {
        display_name: config.display_name.unwrap_or_else(|| config.id.as_str().to_owned()),
        id: config.id,
        disabled: config.disabled,
        is_keystone: matches!(config.upstream, Upstream::Keystone(_)),
        mapping,
        policy,
        password,
        directory,
        groups,
        redirect: connector.redirect.map(|port| Arc::new(Deadline::<dyn RedirectLogin>::new(port, within)) as Arc<dyn RedirectLogin>),
        credential,
        renewal,
        revocation,
        token,
        logout: connector.logout.map(|port| Arc::new(Deadline::<dyn LogoutNotices>::new(port, within)) as Arc<dyn LogoutNotices>),
        join: config.directory.zip(config.join).map(|(directory, join)| Join { directory, claim: join.claim, attribute: join.attribute }),
        listed: config.listed.unwrap_or(listed),
        within,
    }
}
