//! Compression of what is kept, over all versions of HTTP.

use std::io::Read;

use super::origin_of;
use super::reply;
use super::serve_with;
use crate::origin::over_all;
use crate::origin::over_http3;
use crate::origin::value;
use crate::origin::wait_until;

#[test]
fn kept_text_is_sent_compressed_once_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let text = "a line of a page of an origin\n".repeat(1000);
    let head = "200 OK\r\ncontent-type: text/html\r\netag: \"a\"";
    let with = |control: &str| [reply(&format!("{head}\r\ncache-control: {control}"), &text)];
    let origin = origin_of(&[
        ("page", &with("max-age=60")),
        ("fixed", &with("max-age=60, no-transform")),
        ("targeted", &with("max-age=60\r\ncdn-cache-control: max-age=60, no-transform")),
        ("digest", &with("max-age=60\r\nrepr-digest: sha-256=:AAAA:")),
        ("user", &with("max-age=60\r\nvary: Cookie")),
        ("passed", &with("no-store")),
    ]);
    let (mut server, address) = serve_with(dir.path(), origin.address, "", &[]);
    let accept = [("accept-encoding", "gzip")];
    let coding = |path: &str| {
        let (_, fields, _) = over_http3(address, "GET", path, &accept).unwrap();
        value(&fields, "content-encoding").map(str::to_owned)
    };
    // Their turn would come before.
    for path in ["fixed", "targeted", "digest", "user"] {
        assert_eq!(
            (coding(&format!("/app/{path}")), coding(&format!("/app/{path}"))),
            (None, None)
        );
    }
    wait_until("it is compressed", || coding("/app/page").is_some());
    for reply in over_all(address, "GET", "/app/page", &accept) {
        let (status, fields, body) = reply.unwrap();
        let mut decoded = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut decoded).unwrap();
        assert!((status, &decoded) == (200, &text) && body.len() * 10 < text.len());
        let length = body.len().to_string();
        for (name, expected) in [
            ("content-encoding", "gzip"),
            ("content-length", &length),
            ("etag", "W/\"a\""),
            ("vary", "accept-encoding"),
        ] {
            assert_eq!(value(&fields, name), Some(expected), "{name}");
        }
        assert!(value(&fields, "cache-status").is_some_and(|status| status.contains("hit")));
    }
    let all = ["fixed", "targeted", "digest", "user", "passed"].map(|path| (path, &accept[..]));
    for (path, fields) in all.into_iter().chain([("page", &[][..])]) {
        for reply in over_all(address, "GET", &format!("/app/{path}"), fields) {
            let (_, fields, body) = reply.unwrap();
            assert!(body == text.as_bytes(), "{path}");
            assert_eq!(value(&fields, "etag"), Some("\"a\""), "{path}");
        }
    }
    assert_eq!(origin.requests("/app/page").len(), 1);
    assert!(server.stop().success());
}
