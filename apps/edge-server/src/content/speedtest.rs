//! Speed test (`--speedtest`): `/bytes/N`, `/upload` and the page at `/speedtest`.

use std::sync::LazyLock;

use crate::content::file_lookup::Representation;
use crate::http::body::BodySource;
use crate::http::conditional::Validators;
use crate::http::response::Response;

/// Path of downloads, followed by the number of bytes.
pub const BYTES: &str = "/bytes/";

/// Path of uploads; the response is the number of bytes.
pub const UPLOAD: &str = "/upload";

/// Path of the page that measures.
pub const PAGE: &str = "/speedtest";

/// Largest download and upload, in bytes.
pub const BYTES_MAX: u64 = 16 << 30;

const PAGE_HTML: &str = include_str!("speedtest.html");

/// Entity tag of the page: a digest.
static PAGE_ETAG: LazyLock<String> = LazyLock::new(|| {
    let digest = ring::digest::digest(&ring::digest::SHA256, PAGE_HTML.as_bytes());
    let hex: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
});

/// Returns `count` bytes of the pattern.
///
/// # Errors
///
/// A message if `count` is not a number in the range.
pub fn bytes(count: &str) -> Result<Representation, String> {
    let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let length: Option<u64> = count.parse().ok().filter(|n| digits && *n <= BYTES_MAX);
    let length = length.ok_or_else(|| format!("/bytes/N takes a number of at most {BYTES_MAX}"))?;
    let etag = ["\"bytes-", &length.to_string(), "\""].concat();
    Ok(Representation {
        source: BodySource::Pattern,
        length,
        content_type: "application/octet-stream".into(),
        coding: None,
        validators: Validators { etag, modified: None },
    })
}

/// Returns the page.
pub fn page() -> Representation {
    Representation {
        source: BodySource::Text(PAGE_HTML.into()),
        length: PAGE_HTML.len() as u64,
        content_type: "text/html; charset=utf-8".into(),
        coding: None,
        validators: Validators { etag: PAGE_ETAG.clone(), modified: None },
    }
}

/// Returns the response to an upload of `bytes`.
pub fn uploaded(bytes: u64) -> Response {
    Response::text(200, format!("{bytes}\n")).with("cache-control", "no-store")
}
