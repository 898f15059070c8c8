//! Several brokers with one configuration and one issuer, behind a balancer that gives them requests in turn.

mod balancer;

use std::path::Path;

use reqwest::header::{HeaderMap, HeaderValue};
use tempfile::TempDir;

use self::balancer::Balancer;
pub use self::balancer::REPLICA;
use crate::{
    Authorization, Broker, Browser, Configuration, Service, Tokens, broker::install_providers, configuration::password_of, folder,
    process::PATIENCE, redis::sealing_key,
};

/// The brokers. Each is ready when this is there.
#[derive(Debug)]
pub struct Replicas {
    balancer: Balancer,
    brokers: Vec<Broker>,
    _folder: TempDir,
}

impl Replicas {
    /// Starts so many at the same moment, on the `store` of the configuration. Without a sealing key in it they get one.
    pub async fn start(count: usize, configuration: Configuration) -> Self {
        Self::start_logging(count, configuration, "debug").await
    }

    /// The same with another filter of their logs.
    ///
    /// # Panics
    /// When they have no store in common.
    pub async fn start_logging(count: usize, mut configuration: Configuration, filter: &str) -> Self {
        install_providers();
        assert!(configuration.0["store"]["redis"].is_object(), "replicas share a Redis");
        let folder = folder::new("replicas");
        if configuration.0["store"]["sealingKeyFile"].is_null() {
            configuration.0["store"]["sealingKeyFile"] = sealing_key(folder.path()).to_string_lossy().into();
        }
        let balancer = Balancer::start();
        let one = || Broker::start_behind(balancer.address(), configuration.clone(), filter);
        let brokers = futures_util::future::join_all((0..count).map(|_| one())).await;
        balancer.serve(brokers.iter().map(|broker| (broker.address(), broker.admin())).collect());
        Self { balancer, brokers, _folder: folder }
    }

    /// The one issuer: the balancer's address.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.balancer.address()
    }

    /// How many there are, the dead among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.brokers.len()
    }

    /// One of them: its own addresses and its log.
    #[must_use]
    pub fn broker(&self, index: usize) -> &Broker {
        &self.brokers[index]
    }

    /// The addresses of their own public listeners, in order.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.brokers.iter().map(Broker::address).collect()
    }

    /// A client whose requests go to all in turn.
    #[must_use]
    pub fn http(&self) -> reqwest::Client {
        self.client(None)
    }

    /// One whose requests go to one of them, by way of the same address.
    #[must_use]
    pub fn http_at(&self, index: usize) -> reqwest::Client {
        self.client(Some(index))
    }

    fn client(&self, index: Option<usize>) -> reqwest::Client {
        let headers: HeaderMap = index.into_iter().map(|index| (REPLICA.clone(), HeaderValue::from(index))).collect();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE);
        client.default_headers(headers).tls_certs_only([]).build().unwrap()
    }

    /// A browser whose requests go to all in turn.
    #[must_use]
    pub fn browser(&self) -> Browser {
        Browser::new(self.http(), self.issuer())
    }

    /// A browser whose requests go to one of them, until [`Self::send_to`] says another.
    #[must_use]
    pub fn browser_at(&self, index: usize) -> Browser {
        let mut browser = self.browser();
        Self::send_to(&mut browser, index);
        browser
    }

    /// The browser's next requests go to this one.
    pub fn send_to(browser: &mut Browser, index: usize) {
        browser.headers.retain(|(name, _)| *name != REPLICA.as_str());
        browser.headers.push((REPLICA.to_string(), index.to_string()));
    }

    /// A peer whose requests go to all in turn.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(self.http(), self.issuer())
    }

    /// A peer whose requests go to one of them.
    #[must_use]
    pub fn service_at(&self, index: usize) -> Service {
        Service::new(self.http_at(index), self.issuer())
    }

    /// Signs someone in with a new browser, and exchanges the code, each request at the next one.
    pub async fn tokens(&self, request: &Authorization, tenant: &str, username: &str) -> Tokens {
        let mut browser = self.browser();
        let code = browser.sign_in(&request.clone().with("tenant", tenant), username, &password_of(tenant, username)).await;
        self.service().exchange(request, &code).await
    }

    /// Whether one says that it is ready, and within how long.
    pub async fn is_ready(&self, index: usize) -> bool {
        let answer = self.http().get(format!("{}/readyz", self.brokers[index].admin())).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// `kill -9` of one.
    pub fn kill(&mut self, index: usize) {
        self.brokers[index].kill();
    }

    /// Stops one in the middle of whatever it does.
    pub fn freeze(&self, index: usize) {
        self.brokers[index].freeze();
    }

    /// Lets it go on.
    pub fn thaw(&self, index: usize) {
        self.brokers[index].thaw();
    }

    /// Starts one anew; one that still runs is killed.
    pub async fn restart(&mut self, index: usize) {
        self.brokers[index].restart().await;
        self.balancer.wait_for(index).await;
    }

    /// Restarts one as an operator does: it is taken out of the balancer, asked to end, and started anew.
    pub async fn restart_in_order(&mut self, index: usize) {
        self.balancer.leave_out(index);
        _ = self.brokers[index].stop().await;
        self.brokers[index].restart().await;
        self.balancer.take_in(index);
        self.balancer.wait_for(index).await;
    }

    /// Restarts one in order as another program, which it is from now on: how an operator upgrades.
    pub async fn upgrade_in_order(&mut self, index: usize, program: &Path) {
        self.balancer.leave_out(index);
        _ = self.brokers[index].stop().await;
        self.brokers[index].restart_as(program).await;
        self.balancer.take_in(index);
        self.balancer.wait_for(index).await;
    }

    /// What all of them wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.brokers.iter().map(Broker::log).collect()
    }
}
