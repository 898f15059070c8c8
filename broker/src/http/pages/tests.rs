//! Each page with sample data: what must hold of all of them, and a way to look at them.

use super::*;

/// A page as it looks where nothing else is configured.
trait Plain: Template {
    fn plain(&self) -> askama::Result<String> {
        let look: &dyn Any = &Look::default();
        self.render_with_values(&("look", look))
    }
}

impl<T: Template> Plain for T {}

const EVIL: &str = r#""><script>alert(1)</script>'&"#;

fn password(error: Option<PasswordError>, name: &str, tenant_known: bool) -> Password {
    Password {
        connector: "Acme directory".into(),
        client: Some("Files".into()),
        tenant: tenant_known.then(|| "Acme Corporation".into()),
        tenant_known,
        action: "/login/acme".into(),
        csrf: "csrf-value".into(),
        attempt: "attempt-value".into(),
        name: name.into(),
        domain: None,
        project: None,
        error,
        credential: None,
        other_ways: Some("/login?attempt=attempt-value".into()),
    }
}

/// The same at a cloud, which asks for more.
fn cloud(error: Option<PasswordError>, name: &str, domain: &str) -> Password {
    let credential = Some("/login/acme/credential?attempt=attempt-value".into());
    Password { domain: Some(domain.into()), project: Some(String::new()), credential, ..password(error, name, false) }
}

fn credential(error: Option<PasswordError>, id: &str) -> Credential {
    Credential {
        connector: "Acme cloud".into(),
        client: Some("Files".into()),
        tenant: None,
        action: "/login/acme/credential".into(),
        csrf: "csrf-value".into(),
        attempt: "attempt-value".into(),
        id: id.into(),
        error,
        password: "/login/acme?attempt=attempt-value".into(),
    }
}

fn choose() -> Choose {
    let ways = [("Acme directory", "/login/acme"), ("Company sign-on", "/login/sso"), ("École Sainte-Marie", "/login/ecole")];
    let ways = ways.map(|(name, href)| Link { name: name.into(), href: href.into() }).into();
    Choose {
        client: Some("Files".into()),
        tenant: None,
        ways,
        find: false,
        typed: String::new(),
        unknown: false,
        csrf: "csrf-value".into(),
        attempt: "attempt-value".into(),
    }
}

fn account() -> Account {
    Account {
        display_name: "Alice Adams".into(),
        username: "alice".into(),
        tenant: "Acme Corporation".into(),
        email: Some("alice.adams@acme.example".into()),
        groups: vec!["engineering".into(), "release-managers".into(), "on-call".into()],
        roles: vec![],
        since: time::macros::datetime!(2026-11-21 08:15:30 +1),
        connector: "Acme directory".into(),
        sign_out: "/account/sign-out".into(),
        csrf: "csrf-value".into(),
    }
}

fn sign_out(known: bool) -> SignOut {
    let fields = vec![("client_id", "files".to_owned()), ("state", "a-state".to_owned())];
    let name = |name: &str| known.then(|| name.to_owned());
    SignOut { client: name("Files"), person: name("Alice Adams"), csrf: "csrf-value".into(), fields }
}

fn error_page() -> ErrorPage {
    ErrorPage {
        title: "This sign-in has ended".into(),
        what: "It took longer than 30 minutes, or was finished in another window.".into(),
        todo: "Go back to the application and sign in from there.".into(),
        next: Some(Link { name: "Go to your account".into(), href: "/account".into() }),
        reference: Some("7f3a-91c2".into()),
    }
}

fn demo() -> Demo {
    let tenant = |id: &str, name: &str, people: &[(&str, &str)]| DemoTenant {
        id: id.into(),
        label: id.into(),
        name: name.into(),
        people: people
            .iter()
            .map(|(username, display_name)| DemoPerson {
                username: (*username).into(),
                password: format!("{username}-of-{id}"),
                display_name: (*display_name).into(),
            })
            .collect(),
    };
    Demo {
        tenants: vec![
            tenant("acme", "Acme Corporation", &[("alice", "Alice Adams"), ("bob", "Bob Brown")]),
            tenant("globex", "Globex", &[("alice", "Alice Zhang"), ("carol", "Carol Clark")]),
        ],
    }
}

fn all() -> Vec<(&'static str, String)> {
    let throttled = |seconds| Some(PasswordError::Throttled { seconds });
    let unavailable = Some(PasswordError::Unavailable { reference: "7f3a-91c2".into() });
    vec![
        ("choose", choose().plain().unwrap()),
        ("choose-or-find", Choose { find: true, ..choose() }.plain().unwrap()),
        ("find", Choose { find: true, ways: Vec::new(), ..choose() }.plain().unwrap()),
        (
            "find-unknown",
            Choose { find: true, ways: Vec::new(), typed: "jane@nowhere.example".into(), unknown: true, ..choose() }.plain().unwrap(),
        ),
        ("onward", Onward { to: Link { name: "Acme sign-on".into(), href: "/login/acme?attempt=1".into() } }.plain().unwrap()),
        ("password", password(None, "", false).plain().unwrap()),
        ("password-known", password(None, "alice", true).plain().unwrap()),
        ("password-incomplete", password(Some(PasswordError::Incomplete), "", true).plain().unwrap()),
        ("password-wrong", password(Some(PasswordError::Wrong), "alice", false).plain().unwrap()),
        ("password-throttled", password(throttled(28), "alice@acme", false).plain().unwrap()),
        ("password-unavailable", password(unavailable, "alice", true).plain().unwrap()),
        ("domain", cloud(None, "", "").plain().unwrap()),
        ("domain-incomplete", cloud(Some(PasswordError::Incomplete), "alice", "").plain().unwrap()),
        ("domain-wrong", cloud(Some(PasswordError::Wrong), "alice", "Acme").plain().unwrap()),
        ("credential", credential(None, "").plain().unwrap()),
        ("credential-incomplete", credential(Some(PasswordError::Incomplete), "").plain().unwrap()),
        ("credential-wrong", credential(Some(PasswordError::Wrong), "21dced0fd20347869b93710d2b98aae0").plain().unwrap()),
        ("credential-throttled", credential(throttled(28), "21dced0fd20347869b93710d2b98aae0").plain().unwrap()),
        (
            "credential-unavailable",
            credential(Some(PasswordError::Unavailable { reference: "7f3a-91c2".into() }), "21dced0f").plain().unwrap(),
        ),
        ("account", account().plain().unwrap()),
        ("sign-out", sign_out(true).plain().unwrap()),
        ("sign-out-unknown", sign_out(false).plain().unwrap()),
        ("signed-out", SignedOut { sign_in: "/account".into() }.plain().unwrap()),
        ("error", error_page().plain().unwrap()),
        ("demo", demo().plain().unwrap()),
    ]
}

/// Every start tag, without its brackets.
fn start_tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag).filter(|tag| !tag.starts_with(['/', '!']))
}

/// Those of this name.
fn tags<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    start_tags(html).filter(|tag| tag.split_whitespace().next() == Some(name)).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest.split_once('"').unwrap().0)
}

#[test]
fn every_page_says_its_language_title_and_one_heading() {
    for (page, html) in all() {
        assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">"), "{page}");
        assert_eq!(tags(&html, "h1").len(), 1, "{page}");
        assert_eq!(tags(&html, "main").len(), 1, "{page}");
        assert!(!html.contains("<title> "), "{page}");
    }
}

#[test]
fn every_field_has_a_label_and_every_reference_an_end() {
    let (mut fields, mut references) = (0, 0);
    for (page, html) in all() {
        for input in tags(&html, "input").into_iter().filter(|tag| attribute(tag, "type") != Some("hidden")) {
            let id = attribute(input, "id").unwrap();
            assert!(html.contains(&format!("<label for=\"{id}\">")), "{page}: {id} has no label");
            fields += 1;
        }
        for tag in start_tags(&html) {
            let named = ["aria-describedby", "aria-labelledby"].into_iter().filter_map(|name| attribute(tag, name));
            for id in named.flat_map(|ids| ids.split(' ')) {
                assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{page}: <{tag}> names {id}");
                references += 1;
            }
        }
    }
    assert!(fields > 10 && references > 10, "{fields} {references}");
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
    for (page, html) in all() {
        for never in [" style=\"", "<style", "javascript:", " onclick", " onload", "http://", "https://", "src=\"//", "href=\"//"] {
            assert!(!html.contains(never), "{page} has {never}");
        }
        for script in tags(&html, "script") {
            assert_eq!(page, "demo", "{page} has a script");
            assert!(attribute(script, "src").unwrap().starts_with("/assets/"));
        }
    }
}

#[test]
fn names_are_text_wherever_they_come_from() {
    let evil = || EVIL.to_owned();
    let link = || Link { name: evil(), href: evil() };
    let pages = [
        Choose {
            client: Some(evil()),
            tenant: Some(evil()),
            ways: vec![link()],
            find: true,
            typed: evil(),
            unknown: true,
            csrf: evil(),
            attempt: evil(),
        }
        .plain(),
        Onward { to: link() }.plain(),
        Password {
            connector: evil(),
            client: Some(evil()),
            tenant: Some(evil()),
            tenant_known: false,
            action: evil(),
            csrf: evil(),
            attempt: evil(),
            name: evil(),
            domain: Some(evil()),
            project: Some(evil()),
            error: Some(PasswordError::Unavailable { reference: evil() }),
            credential: Some(evil()),
            other_ways: Some(evil()),
        }
        .plain(),
        Credential {
            connector: evil(),
            client: Some(evil()),
            tenant: Some(evil()),
            action: evil(),
            csrf: evil(),
            attempt: evil(),
            id: evil(),
            error: Some(PasswordError::Unavailable { reference: evil() }),
            password: evil(),
        }
        .plain(),
        Account {
            display_name: evil(),
            username: evil(),
            tenant: evil(),
            email: Some(evil()),
            groups: vec![evil()],
            roles: vec![evil()],
            connector: evil(),
            sign_out: evil(),
            csrf: evil(),
            ..account()
        }
        .plain(),
        SignOut { client: Some(evil()), person: Some(evil()), csrf: evil(), fields: vec![("state", evil())] }.plain(),
        SignedOut { sign_in: evil() }.plain(),
        ErrorPage { title: evil(), what: evil(), todo: evil(), next: Some(link()), reference: Some(evil()) }.plain(),
        Demo {
            tenants: vec![DemoTenant {
                id: evil(),
                label: evil(),
                name: evil(),
                people: vec![DemoPerson { username: evil(), password: evil(), display_name: evil() }],
            }],
        }
        .plain(),
    ];
    for page in pages {
        let page = page.unwrap();
        assert!(!page.contains("<script>") && !page.contains("\">'"), "{page}");
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    }
}

#[test]
fn the_first_empty_field_has_the_focus_and_errors_are_tied_to_it() {
    let focused = |page: Password| {
        let html = page.plain().unwrap();
        let with: Vec<_> = tags(&html, "input").into_iter().filter(|tag| tag.ends_with(" autofocus")).collect();
        assert_eq!(with.len(), 1);
        with.first().and_then(|tag| attribute(tag, "autocomplete")).unwrap().to_owned()
    };
    assert_eq!(focused(password(None, "", false)), "username");
    assert_eq!(focused(password(Some(PasswordError::Wrong), "alice", true)), "current-password");
    assert_eq!(focused(cloud(None, "", "")), "organization");
    assert_eq!(focused(cloud(None, "alice", "")), "organization");
    assert_eq!(focused(cloud(None, "", "Acme")), "username");
    for (name, domain) in [("alice@acme", ""), ("alice", "Acme")] {
        assert_eq!(focused(cloud(None, name, domain)), "current-password");
    }

    let wrong = password(Some(PasswordError::Wrong), "alice", false).plain().unwrap();
    assert!(wrong.contains("<title>Error: Sign in"));
    assert!(wrong.contains(r#"role="alert""#));
    assert_eq!(wrong.matches(r#"aria-invalid="true""#).count(), 2);
    assert!(wrong.contains(r#"value="alice""#));
    let busy = password(Some(PasswordError::Throttled { seconds: 1 }), "alice", true).plain().unwrap();
    assert!(busy.contains("Wait 1 second, then") && !busy.contains("aria-invalid"));
    let wrong = cloud(Some(PasswordError::Wrong), "alice", "Acme").plain().unwrap();
    assert!(wrong.contains("The domain, the user name or the password is wrong."));
    assert_eq!(wrong.matches(r#"aria-invalid="true""#).count(), 3, "not the project, which was left out");
    let named = Password { project: Some("web".into()), ..cloud(Some(PasswordError::Wrong), "alice", "Acme") }.plain().unwrap();
    assert!(named.contains("The domain, the user name, the password or the project is wrong."));
    assert_eq!(named.matches(r#"aria-invalid="true""#).count(), 4);
    assert!(wrong.contains(r#"value="Acme""#) && !wrong.contains("username-hint"));
    let wrong = credential(Some(PasswordError::Wrong), "21dced0f").plain().unwrap();
    assert!(wrong.contains("<title>Error: Sign in with an application credential") && wrong.contains(r#"value="21dced0f""#));
    assert_eq!(wrong.matches(r#"aria-invalid="true""#).count(), 2);
}

#[test]
fn every_answer_has_the_headers() {
    let response = render(Arc::default(), StatusCode::BAD_REQUEST, &error_page(), POLICY);
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-store"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(response.headers().get(name).unwrap(), value);
    }
    assert_eq!(render(Arc::default(), StatusCode::OK, &error_page(), "a\nb").status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[test]
fn the_form_may_lead_back_to_the_application_and_nowhere_else() {
    let action = |uri: &str| {
        let policy = sign_in_policy(Some(&Url::parse(uri).unwrap()));
        policy.split("; ").find_map(|directive| directive.strip_prefix("form-action 'self'")).unwrap().to_owned()
    };
    assert_eq!(action("https://files.example/callback?x=1"), " https://files.example");
    assert_eq!(action("http://127.0.0.1:8250/oidc"), " http://127.0.0.1:8250");
    assert_eq!(action("http://[::1]:8250/oidc"), " http:");
    assert_eq!(action("com.example.app:/done"), " com.example.app:");
    assert_eq!(action("com.example.app://done/x"), " com.example.app:");
    assert_eq!(sign_in_policy(None), POLICY);
}

#[test]
fn times_are_written_for_people_and_for_machines() {
    let html = account().plain().unwrap();
    assert!(html.contains(r#"<time datetime="2026-11-21T08:15:30+01:00">21 November 2026, 07:15 UTC</time>"#), "{html}");
}

#[test]
#[ignore = "writes the pages to DENIZEN_PAGES, to be looked at"]
fn pages_to_look_at() {
    let folder = std::path::PathBuf::from(std::env::var("DENIZEN_PAGES").unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    for (page, html) in all() {
        std::fs::write(folder.join(format!("{page}.html")), html).unwrap();
    }
}
