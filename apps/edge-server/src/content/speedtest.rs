//! Speed test (`--speedtest`): downloads, uploads, the page that measures them, and what it needs
//! to know of its connection.

use std::fmt::Write;
use std::sync::LazyLock;
use std::time::SystemTime;

use bytes::Bytes;

use crate::content::file_lookup::Representation;
use crate::content::present::present;
use crate::http::body::Body;
use crate::http::body::BodySource;
use crate::http::conditional::Validators;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::ConnectionEffect;
use crate::http::response::Response;
use crate::http::response::ALLOWED;
use crate::resume::report::ConnectionReport;

/// Path of downloads, followed by the number of bytes.
const BYTES: &str = "/bytes/";

/// Parameter of a download on a connection that does not jump.
const NO_JUMP: &str = "resume=off";

/// Path of uploads; the response is the number of bytes.
pub const UPLOAD: &str = "/upload";

/// Path of the page that measures.
const PAGE: &str = "/speedtest";

/// Path of the connection's report.
const STATUS: &str = "/speedtest/status";

/// Path of requests that end the connection.
const CLOSE: &str = "/speedtest/close";

/// Largest download and upload, in bytes.
pub const BYTES_MAX: u64 = 16 << 30;

/// The page in one piece: a round trip to a satellite is long.
static PAGE_HTML: LazyLock<String> = LazyLock::new(|| {
    let html = include_str!("speedtest/page.html");
    html.replace("{style}", STYLE).replace("{script}", SCRIPT)
});

const STYLE: &str = include_str!("speedtest/page.css");
const SCRIPT: &str = include_str!("speedtest/page.js");

/// Entity tag of the page: a digest.
static PAGE_ETAG: LazyLock<String> = LazyLock::new(|| {
    let hex = sha256(&PAGE_HTML)[..8].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("\"{hex}\"")
});

/// Content security policy of the page: its own style and script, and requests to its own origin.
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text| boring::base64::encode_block(&sha256(text));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

fn sha256(text: &str) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// Returns the response if `path` belongs to the speed test. A POST to [`UPLOAD`] with a body gets
/// its response when the body ends.
pub fn respond(
    path: &str,
    query: &str,
    request: &Request<'_>,
    wall_now: SystemTime,
    report: &dyn Fn() -> ConnectionReport,
) -> Option<Response> {
    let reads = matches!(request.method, Method::Get | Method::Head);
    if path == CLOSE {
        return Some(close(request));
    }
    if path == UPLOAD {
        return Some(Response::method_not_allowed("POST"));
    }
    let count = path.strip_prefix(BYTES);
    if count.is_none() && path != PAGE && path != STATUS {
        return None;
    }
    if !reads {
        return Some(Response::method_not_allowed(ALLOWED));
    }
    Some(match count {
        Some(count) => download(count, query, request, wall_now),
        None if path == PAGE => page(request, wall_now),
        None => Response::new(200, Body::text(report().json()))
            .with("content-type", "application/json")
            .with("cache-control", "no-store"),
    })
}

/// Returns the response to a request that ends the connection, so that the client's next request
/// begins a new one.
fn close(request: &Request<'_>) -> Response {
    match request.method {
        Method::Post if request.is_cross_origin() => Response::error(403),
        Method::Post => Response::text(200, "the connection ends\n".to_owned())
            .with("cache-control", "no-store")
            .with_effect(Some(ConnectionEffect::Close)),
        _ => Response::method_not_allowed("POST"),
    }
}

/// Returns a download of `count` bytes.
fn download(count: &str, query: &str, request: &Request<'_>, wall_now: SystemTime) -> Response {
    let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let length: Option<u64> = count.parse().ok().filter(|n| digits && *n <= BYTES_MAX);
    let Some(length) = length else {
        let reason = format!("/bytes/N takes a number of at most {BYTES_MAX}");
        return Response::text(400, format!("400 Bad Request: {reason}\n"));
    };
    let mut parameters = query.trim_start_matches('?').split('&');
    let stays_slow = parameters.any(|parameter| parameter == NO_JUMP);
    // Another site's page may not slow its visitors' connections down.
    if stays_slow && request.is_cross_origin() {
        return Response::error(403);
    }
    let etag = ["\"bytes-", &length.to_string(), "\""].concat();
    let representation = Representation {
        source: BodySource::Pattern,
        length,
        content_type: "application/octet-stream".into(),
        coding: None,
        validators: Validators { etag, modified: None, is_date_weak: false },
        identity: None,
    };
    present(representation, request, wall_now)
        .with_effect(stays_slow.then_some(ConnectionEffect::NoJump))
}

/// Returns the page.
fn page(request: &Request<'_>, wall_now: SystemTime) -> Response {
    let representation = Representation {
        source: BodySource::Memory(Bytes::from_static(PAGE_HTML.as_bytes())),
        length: PAGE_HTML.len() as u64,
        content_type: "text/html; charset=utf-8".into(),
        coding: None,
        validators: Validators { etag: PAGE_ETAG.clone(), modified: None, is_date_weak: false },
        identity: None,
    };
    present(representation, request, wall_now)
        .with("cache-control", "no-cache")
        .with("content-security-policy", PAGE_POLICY.as_str())
        .with("referrer-policy", "no-referrer")
        .with("x-content-type-options", "nosniff")
}

/// Returns the response to an upload of `bytes`.
pub fn uploaded(bytes: u64) -> Response {
    Response::text(200, format!("{bytes}\n")).with("cache-control", "no-store")
}
