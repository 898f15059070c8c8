//! A real headless Chromium, driven through Debian's chromedriver.

use std::{process::Command, time::Duration};

use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource as _, KeyAction, KeyActions},
    key::Key,
    wd::WebDriverCompatibleCommand,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{broker::install_providers, folder, ports, process::Process};

/// The browser. Close it at the end of a test; its processes die in any case.
#[derive(Debug)]
pub struct Chrome {
    /// What drives it.
    pub client: Client,
    _driver: Process,
    _profile: TempDir,
}

/// What the browser does with a page's scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// They run.
    On,
    /// They do not.
    Off,
}

impl Chrome {
    /// Starts chromedriver, and through it a new browser with an empty profile.
    ///
    /// # Panics
    /// When Chromium or chromedriver can not be started.
    pub async fn start(scripts: Scripts) -> Self {
        install_providers();
        let profile = folder::new("chromium");
        let port = ports::free();
        let mut command = Command::new("chromedriver");
        // Nothing of the browser may land in the home of whoever runs the tests.
        command.arg(format!("--port={port}")).env("HOME", profile.path()).env_remove("DBUS_SESSION_BUS_ADDRESS");
        let mut driver = Process::start(&mut command, &profile.path().join("chromedriver.log"));
        driver.wait_for_port(port).await;
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--window-size=1280,1024",
        ];
        let mut arguments: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().join("profile").display()));
        let mut options = json!({"args": arguments});
        if scripts == Scripts::Off {
            options["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
        }
        let Value::Object(capabilities) = json!({"goog:chromeOptions": options, "timeouts": {"pageLoad": 30_000}}) else {
            panic!("an object")
        };
        let mut builder = ClientBuilder::rustls().expect("TLS can be set up");
        let client = builder.capabilities(capabilities).connect(&format!("http://127.0.0.1:{port}")).await;
        Self {
            client: client.unwrap_or_else(|error| panic!("no browser: {error}\n{}", driver.output())),
            _driver: driver,
            _profile: profile,
        }
    }

    /// Opens an address.
    ///
    /// # Panics
    /// When that fails.
    pub async fn open(&self, address: &str) {
        self.client.goto(address).await.unwrap();
    }

    /// The text of the page, as a person sees it.
    ///
    /// # Panics
    /// When there is no page.
    pub async fn text(&self) -> String {
        self.client.find(Locator::Css("body")).await.unwrap().text().await.unwrap()
    }

    /// Presses keys one after the other, as at a keyboard: whatever has the focus gets them.
    ///
    /// # Panics
    /// When the browser does not take them.
    pub async fn type_keys(&self, keys: &str) {
        let pressed = keys.chars().fold(KeyActions::new("keyboard".to_owned()), |actions, value| {
            actions.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        self.client.perform_actions(pressed).await.unwrap();
    }

    /// Presses a key.
    pub async fn press(&self, key: Key) {
        self.type_keys(&char::from(key).to_string()).await;
    }

    /// The `id` of the element that has the focus; empty where it has none.
    ///
    /// # Panics
    /// When nothing has the focus.
    pub async fn focus(&self) -> String {
        self.client.active_element().await.unwrap().attr("id").await.unwrap().unwrap_or_default()
    }

    /// Waits until the page's text holds this.
    ///
    /// # Panics
    /// When it does not, after a while; with the page's text.
    pub async fn wait_for_text(&self, wanted: &str) -> String {
        let begun = std::time::Instant::now();
        loop {
            // Between two pages there is none.
            let text = match self.client.find(Locator::Css("body")).await {
                Ok(body) => body.text().await.unwrap_or_default(),
                Err(_) => String::new(),
            };
            if text.contains(wanted) {
                return text;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{wanted:?} does not come; the page says:\n{text}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the browser is at an address that begins like this.
    ///
    /// # Panics
    /// When it does not come there, after a while.
    pub async fn wait_for_address(&self, beginning: &str) -> url::Url {
        let begun = std::time::Instant::now();
        loop {
            let at = self.client.current_url().await.unwrap();
            if at.as_str().starts_with(beginning) {
                return at;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{beginning} does not come; the browser is at {at}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Shows pages as someone sees them who prefers this colour scheme, `light` or `dark`, and as little motion as can be: at once.
    ///
    /// # Panics
    /// When the browser does not take it.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
        let emulate = OfDevTools { method: "Emulation.setEmulatedMedia", parameters: json!({"features": features}) };
        self.client.issue_cmd(emulate).await.unwrap();
    }

    /// Ends the browser.
    pub async fn close(self) {
        let _ = self.client.clone().close().await;
    }
}

/// A command of Chromium's own developer tools, which chromedriver passes on.
#[derive(Debug)]
struct OfDevTools {
    method: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for OfDevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }
    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(json!({"cmd": self.method, "params": self.parameters}).to_string()))
    }
}
