//! How the pages look: the operator's name, logo and colours, and what a tenant changes of them.
//!
//! It owns what may be a logo and a colour, and the style that comes of one. Serving them is the front door's.

mod colour;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as B64};
use claims_mapping::TenantId;

use crate::{config::Branding, secret_text::digest};
use colour::Colour;

/// The largest logo, in bytes.
const MOST_LOGO_BYTES: u64 = 256 * 1024;

/// A file that a page names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// A hash of its content: another content has another one.
    pub hash: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: Vec<u8>,
}

/// How a page looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The name beside the logo; `Denizen` where there is none.
    pub name: Option<String>,
    /// The logo, if it is not Denizen's.
    pub logo: Option<Picture>,
    /// The style that comes after the common one.
    pub style: Option<Picture>,
    /// Whom people turn to.
    pub support: Option<String>,
}

/// One fault: the key, and what is wrong.
pub type LookFault = (&'static str, String);

impl Look {
    /// Reads what the configuration says; what it does not say is as in `base`.
    ///
    /// # Errors
    /// Every fault.
    pub fn read(branding: &Branding, base: &Self) -> Result<Self, Vec<LookFault>> {
        let mut faults = Vec::new();
        let mut look = base.clone();
        for (key, text, own) in [("name", &branding.name, &mut look.name), ("support", &branding.support, &mut look.support)] {
            match text {
                Some(text) if text.trim().is_empty() || text.chars().count() > 120 || text.chars().any(char::is_control) => {
                    faults.push((key, "it must be 1 to 120 characters, not all blank, without control characters".to_owned()));
                }
                Some(text) => *own = Some(text.clone()),
                None => {}
            }
        }
        if let Some(file) = &branding.logo_file {
            match logo(file) {
                Ok(logo) => look.logo = Some(logo),
                Err(fault) => faults.push(("logoFile", fault)),
            }
        }
        match style(branding) {
            Ok(Some(style)) => look.style = Some(style),
            Ok(None) => {}
            Err(found) => faults.extend(found),
        }
        if faults.is_empty() { Ok(look) } else { Err(faults) }
    }
}

/// The looks of an instance: its own, and those of the tenants that have one.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    /// The instance's own.
    pub instance: Arc<Look>,
    /// Those of tenants.
    pub tenants: BTreeMap<TenantId, Arc<Look>>,
}

impl Looks {
    /// How pages look to whoever signs in to this tenant; to everyone else, where it is `None` or has no look of its own.
    #[must_use]
    pub fn of(&self, tenant: Option<&str>) -> Arc<Look> {
        tenant.and_then(|tenant| self.tenants.get(tenant)).map_or_else(|| Arc::clone(&self.instance), Arc::clone)
    }

    /// A logo or style by its hash.
    #[must_use]
    pub fn picture(&self, hash: &str) -> Option<&Picture> {
        let looks = std::iter::once(&self.instance).chain(self.tenants.values());
        looks.flat_map(|look| look.logo.iter().chain(&look.style)).find(|picture| picture.hash == hash)
    }
}

impl Picture {
    fn new(media_type: &'static str, content: Vec<u8>) -> Self {
        let hash = B64.encode(digest(&content)).chars().take(16).collect();
        Self { hash, media_type, content }
    }
}

fn logo(file: &Path) -> Result<Picture, String> {
    let unreadable = |error: std::io::Error| format!("the file can not be read: {error}");
    if std::fs::metadata(file).map_err(unreadable)?.len() > MOST_LOGO_BYTES {
        return Err(format!("the file is larger than {MOST_LOGO_BYTES} bytes"));
    }
    let content = std::fs::read(file).map_err(unreadable)?;
    let is_svg = || std::str::from_utf8(&content).is_ok_and(|text| text.trim_start().starts_with('<') && text.contains("<svg"));
    if content.starts_with(b"\x89PNG\r\n\x1a\n") {
        Ok(Picture::new("image/png", content))
    } else if is_svg() {
        Ok(Picture::new("image/svg+xml", content))
    } else {
        Err("it is neither an SVG nor a PNG picture".to_owned())
    }
}

/// The style of the accent colours; `None` where none is given.
fn style(branding: &Branding) -> Result<Option<Picture>, Vec<LookFault>> {
    let parsed = |key: &'static str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => Colour::parse(text).map(Some).ok_or_else(|| vec![(key, "it must be a colour as `#1a5fb4`".to_owned())]),
    };
    let (light, dark) = (parsed("accent", &branding.accent)?, parsed("accentDark", &branding.accent_dark)?);
    let (light, dark) = match (light, dark) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(vec![("accentDark", "give `accent` too: it is for pages that are not dark".to_owned())]),
        (Some(light), dark) => (light, dark.unwrap_or_else(|| light.readable_on(Colour::DARK_SURFACE))),
    };
    let mut faults = Vec::new();
    for (key, colour, surface, what) in [
        ("accent", light, Colour::LIGHT_SURFACE, "white; take a darker one"),
        ("accentDark", dark, Colour::DARK_SURFACE, "the dark page; take a lighter one"),
    ] {
        let contrast = colour.contrast(surface);
        if contrast < Colour::LEGIBLE {
            faults.push((
                key,
                format!("links in it could not be read: its contrast is {contrast:.1}, and {} is needed, on {what}", Colour::LEGIBLE),
            ));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let rules = |accent: Colour, towards: Colour, on: Colour, ground: Colour| {
        let (strong, glow) = (accent.mixed(towards, 0.25), ground.mixed(accent, 0.15));
        format!(":root {{ --accent: {accent}; --accent-strong: {strong}; --on-accent: {on}; --glow: {glow}; }}\n")
    };
    let css = format!(
        "{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        rules(light, Colour::BLACK, Colour::LIGHT_SURFACE, Colour::LIGHT_GROUND),
        rules(dark, Colour::LIGHT_SURFACE, Colour::DARK_GROUND, Colour::DARK_GROUND),
    );
    Ok(Some(Picture::new("text/css; charset=utf-8", css.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branding(accent: &str, dark: Option<&str>) -> Branding {
        Branding { accent: Some(accent.to_owned()), accent_dark: dark.map(str::to_owned), ..Branding::default() }
    }

    fn css(branding: &Branding) -> String {
        let look = Look::read(branding, &Look::default()).unwrap();
        String::from_utf8(look.style.unwrap().content).unwrap()
    }

    #[test]
    fn a_dark_colour_is_made_out_of_a_light_one() {
        let css = css(&branding("#1a5fb4", None));
        assert!(css.starts_with(":root { --accent: #1a5fb4;"), "{css}");
        let dark = css.rsplit_once("--accent: ").and_then(|(_, rest)| Colour::parse(rest.get(..7)?)).unwrap();
        assert!(dark.contrast(Colour::DARK_SURFACE) >= Colour::LEGIBLE);
    }

    #[test]
    fn what_could_not_be_read_is_refused() {
        for (branding, key) in [
            (branding("#ffe000", None), "accent"),
            (branding("red", None), "accent"),
            (branding("#1a5fb4", Some("#102030")), "accentDark"),
            (Branding { accent_dark: Some("#ffffff".to_owned()), ..Branding::default() }, "accentDark"),
            (Branding { name: Some(" ".to_owned()), ..Branding::default() }, "name"),
            (Branding { logo_file: Some("/nowhere.svg".into()), ..Branding::default() }, "logoFile"),
        ] {
            let faults = Look::read(&branding, &Look::default()).unwrap_err();
            assert_eq!(faults.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [key], "{faults:?}");
        }
    }

    #[test]
    fn a_logo_is_what_it_says_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("logo");
        for (content, media_type) in [
            (&b"<?xml version=\"1.0\"?><svg xmlns=\"http://www.w3.org/2000/svg\"/>"[..], Some("image/svg+xml")),
            (b"\x89PNG\r\n\x1a\n....", Some("image/png")),
            (b"GIF89a", None),
            (b"<html><script>alert(1)</script></html>", None),
        ] {
            std::fs::write(&file, content).unwrap();
            assert_eq!(logo(&file).ok().map(|logo| logo.media_type), media_type);
        }
        std::fs::write(&file, vec![b'x'; 300_000]).unwrap();
        assert!(logo(&file).unwrap_err().contains("larger"));
    }

    #[test]
    fn a_tenant_changes_what_it_says_and_no_more() {
        let instance = Look::read(
            &Branding { name: Some("Hoster".to_owned()), support: Some("the desk".to_owned()), ..Branding::default() },
            &Look::default(),
        )
        .unwrap();
        let acme = Look::read(&Branding { name: Some("Acme".to_owned()), ..Branding::default() }, &instance).unwrap();
        assert_eq!((acme.name.as_deref(), acme.support.as_deref()), (Some("Acme"), Some("the desk")));
        let id = TenantId::parse("acme").unwrap();
        let looks = Looks { instance: Arc::new(instance), tenants: [(id, Arc::new(acme))].into() };
        assert_eq!(looks.of(Some("acme")).name.as_deref(), Some("Acme"));
        assert_eq!(looks.of(Some("globex")).name.as_deref(), Some("Hoster"));
        assert_eq!(looks.of(None).name.as_deref(), Some("Hoster"));
    }
}
