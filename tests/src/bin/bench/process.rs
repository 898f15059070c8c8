//! The program itself: how soon it answers, and what it holds in memory at rest.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    Effort,
    broker::{KUBERNETES, REVIEWER_TOKEN, configuration, two_tenants},
    figures::{Bound, Figure, Spread, Unit},
    machine::memory,
};

const STARTS: usize = 10;
const FIRST: &str = "GET /.well-known/openid-configuration HTTP/1.1\r\nHost: denizen\r\nConnection: close\r\n\r\n";

/// Both figures of starts, and memory at rest.
pub(crate) fn measure(effort: &Effort, folder: &Path) -> Result<Vec<Figure>> {
    let program = std::env::current_exe()?.with_file_name("denizen");
    ensure!(program.exists(), "{} is not built", program.display());
    let starts = (effort.rounds + 1).clamp(3, STARTS);
    let (mut fresh, mut again, mut memories) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..starts {
        let home = folder.join(format!("start-{n}"));
        fs::create_dir(&home)?;
        fresh.push(Running::start(&program, &home)?.1);
        let (running, milliseconds) = Running::start(&program, &home)?;
        again.push(milliseconds);
        running.use_a_little()?;
        std::thread::sleep(Duration::from_millis(300));
        memories.push(memory(running.child.id())?);
    }
    let (ratios, one, many) = connectors(&program, folder, starts)?;
    let private = Spread::new(memories.iter().map(|(_, private)| private / 1e6).collect());
    let figure =
        |name, unit, rounds, bound, detail| Figure { name, unit, spread: Spread::new(rounds), bound: Bound::AtMost(bound), detail };
    Ok(vec![
        figure(
            "Memory at rest",
            Unit::Megabytes,
            memories.iter().map(|(all, _)| all / 1e6).collect(),
            40.0,
            format!("VmRSS after 200 requests at all doors; {:.1} MB of it its own, the rest pages of the program file", private.median()),
        ),
        figure("Start to first answer", Unit::Milliseconds, again, 300.0, format!("{starts} starts on a store that has its keys")),
        Figure {
            name: "Start with 1,000 connectors / with one",
            unit: Unit::Ratio,
            spread: Spread::new(ratios),
            bound: Bound::AtMost(1.3),
            detail: format!(
                "with one {:.1} ms, with 1,000, one for each tenant, {:.1} ms; in turns, on a store that has its keys",
                one.median(),
                many.median()
            ),
        },
        figure("Start to first answer, new store", Unit::Milliseconds, fresh, 300.0, format!("{starts} starts that make store and keys")),
    ])
}

/// How many times longer a start takes with 1,000 `oidc` connectors, one for each tenant, than with one; and both, in milliseconds.
fn connectors(program: &Path, folder: &Path, starts: usize) -> Result<(Vec<f64>, Spread, Spread)> {
    let homes = [("one-connector", 1), ("many-connectors", 1_000)].map(|(name, many)| (folder.join(name), many));
    let (mut ratios, mut ones, mut manys) = (Vec::new(), Vec::new(), Vec::new());
    for (home, _) in &homes {
        fs::create_dir(home)?;
    }
    // The first of each makes its store and keys, and does not count.
    for round in 0..=starts {
        let mut times = [0.0; 2];
        for ((home, many), time) in homes.iter().zip(&mut times) {
            *time = Running::start_as(program, home, providers(home, *many)?)?.1;
        }
        let [one, many] = times;
        if round > 0 {
            ratios.push(many / one);
            ones.push(one);
            manys.push(many);
        }
    }
    Ok((ratios, Spread::new(ones), Spread::new(manys)))
}

/// So many tenants, each with a provider of its own.
fn providers(home: &Path, many: usize) -> Result<(PathBuf, SocketAddr)> {
    let tenants: Vec<_> = (0..many).map(|n| json!({"id": format!("tenant-{n}")})).collect();
    written_as(home, &tenants.into(), &(0..many).map(connector).collect::<Vec<_>>().into())
}

/// The connector of one tenant; its provider is never asked.
pub(crate) fn connector(n: usize) -> Value {
    json!({
        "id": format!("sso-{n}"), "type": "oidc", "tenant": {"fixed": format!("tenant-{n}")}, "clientId": "denizen",
        "clientSecret": format!("the-secret-of-{n}"), "issuer": {"url": format!("https://sso-{n}.example/realms/main")},
    })
}

/// `denizen serve`, which ends when this is dropped.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Running {
    /// Starts it, and says after how many milliseconds it gave its first answer.
    fn start(program: &Path, home: &Path) -> Result<(Self, f64)> {
        Self::start_as(program, home, written(home)?)
    }

    /// The same, with a configuration and the address that it serves.
    fn start_as(program: &Path, home: &Path, config: (PathBuf, SocketAddr)) -> Result<(Self, f64)> {
        let log = fs::File::options().create(true).append(true).open(home.join("log"))?;
        let begun = Instant::now();
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&config.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut running = Self { child: command.spawn()?, address: config.1 };
        while running.ask(FIRST).is_err() {
            if let Some(status) = running.child.try_wait()? {
                anyhow::bail!("denizen ended with {status}: {}", fs::read_to_string(home.join("log"))?);
            }
            ensure!(begun.elapsed() < Duration::from_secs(30), "denizen did not answer");
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok((running, begun.elapsed().as_secs_f64() * 1e3))
    }

    /// The answer to one request, which must be a success or lead elsewhere.
    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let good = ["HTTP/1.1 200", "HTTP/1.1 303"].iter().any(|line| answer.starts_with(line));
        ensure!(good, "{request:.60}: {answer:.200}");
        Ok(answer)
    }

    /// Fifty rounds through discovery, keys, the sign-in page and a review.
    fn use_a_little(&self) -> Result<()> {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: denizen\r\nConnection: close\r\n\r\n");
        let review = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": "not.a.token", "audiences": [KUBERNETES]},
        })
        .to_string();
        let review = format!(
            "POST /apis/authentication.k8s.io/v1/tokenreviews HTTP/1.1\r\nHost: denizen\r\nConnection: close\r\n\
             Authorization: Bearer {REVIEWER_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
            review.len()
        );
        for _ in 0..50 {
            self.ask(FIRST)?;
            self.ask(&get("/oauth2/jwks"))?;
            self.ask(&get("/"))?;
            self.ask(&review)?;
        }
        Ok(())
    }
}

/// A configuration like the example's, with a directory and a file of people, on a free port.
fn written(home: &Path) -> Result<(PathBuf, SocketAddr)> {
    let (tenants, mut connectors) = two_tenants();
    let list = connectors.as_array_mut().context("connectors are a list")?;
    list.push(json!({
        "id": "corp", "type": "ldap", "operatedBy": "operator", "tenants": "all", "ids": "verbatim",
        "url": "ldaps://ldap.example.com", "bindDn": "uid=denizen,dc=example,dc=com", "bindPassword": "a password",
        "userSearch": {"base": "ou=people,dc=example,dc=com", "idAttribute": "openCloudUUID"},
        "claimMappings": {"username": {"claim": "uid", "prefix": ""}, "tenant": {"claim": "openCloudMemberOfSchool"}},
    }));
    written_as(home, &tenants, &connectors)
}

/// A configuration with these tenants and connectors, on a free port.
fn written_as(home: &Path, tenants: &Value, connectors: &Value) -> Result<(PathBuf, SocketAddr)> {
    let path = home.join("denizen.yaml");
    let free = || -> Result<SocketAddr> { Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?) };
    let (address, admin) = (free()?, free()?);
    let mut configuration = configuration(address, &home.join("denizen.redb"), tenants, connectors);
    if let Some(listen) = configuration.pointer_mut("/listen/adminAddress") {
        *listen = Value::String(admin.to_string());
    }
    fs::write(&path, configuration.to_string())?;
    Ok((path, address))
}
