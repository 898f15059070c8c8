//! The pages' style, pictures and scripts: where they are found, and how they are served.
//!
//! Their path carries a hash over the whole set, so that a browser may keep them for ever, and one file may name another
//! by a relative path. What is in the files is no concern of this module.

use std::{borrow::Cow, sync::LazyLock};

use aws_lc_rs::digest::{Context, SHA256};
use axum::{
    extract::Path,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rust_embed::RustEmbed;

/// The route that [`serve`] answers.
pub(crate) const ROUTE: &str = "/assets/{set}/{*name}";

/// For as long as it likes: another content has another path (RFC 8246).
const KEEP: &str = "public, max-age=31536000, immutable";

#[derive(RustEmbed)]
#[folder = "assets/"]
struct Embedded;

/// The name of the set: a hash over every file's name and content, 12 characters.
static SET: LazyLock<String> = LazyLock::new(|| {
    let mut names: Vec<_> = Embedded::iter().collect();
    names.sort();
    let mut all = Context::new(&SHA256);
    for name in names {
        if let Some(file) = Embedded::get(&name) {
            all.update(name.as_bytes());
            all.update(&[0]);
            all.update(&file.metadata.sha256_hash());
        }
    }
    URL_SAFE_NO_PAD.encode(all.finish().as_ref()).chars().take(12).collect()
});

/// Where a file of `assets/` is found, as a path on this server.
pub(crate) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", *SET)
}

/// Answers [`ROUTE`]. A file asked for under another set's name (an older or newer program behind the same proxy) is
/// answered all the same, and not kept. 404 where there is none of that name.
pub(crate) async fn serve(Path((set, name)): Path<(String, String)>) -> Response {
    let Some(file) = Embedded::get(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let cache = if set == *SET { KEEP } else { "no-store" };
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(&name))),
        (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    let body = match file.data {
        Cow::Borrowed(bytes) => bytes.into_response().into_body(),
        Cow::Owned(bytes) => bytes.into_response().into_body(),
    };
    (headers, body).into_response()
}

/// The types of what `assets/` may hold; anything else is a download.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(set: &str, name: &str) -> Response {
        serve(Path((set.to_owned(), name.to_owned()))).await
    }

    fn header_of(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn a_file_is_kept_under_its_own_set_only() {
        let own = get(&SET, "denizen.css").await;
        assert_eq!(own.status(), StatusCode::OK);
        assert_eq!(header_of(&own, header::CONTENT_TYPE), "text/css; charset=utf-8");
        assert_eq!(header_of(&own, header::CACHE_CONTROL), KEEP);
        assert_eq!(header_of(&get("older", "denizen.css").await, header::CACHE_CONTROL), "no-store");
    }

    #[tokio::test]
    async fn nothing_outside_the_folder_is_served() {
        for name in ["", "..", "../Cargo.toml", "demo", "demo/../../Cargo.toml", "/etc/passwd", "denizen.css/"] {
            assert_eq!(get(&SET, name).await.status(), StatusCode::NOT_FOUND, "{name}");
        }
    }

    #[test]
    fn every_file_has_a_type() {
        for name in Embedded::iter() {
            assert_ne!(content_type(&name), "application/octet-stream", "{name}");
        }
    }
}
