//! Clients behind a load balancer or a shield, which tells their addresses.

use std::fs;

use serde_json::Value;

use super::over_all;
use super::scripted::Act;
use super::scripted::ScriptedOrigin;
use super::serve;
use super::wait_until;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn client_of_a_trusted_proxy_counts_everywhere() {
    let origin = ScriptedOrigin::start(|_| vec![Act::Send(OK.to_vec())]);
    let rules = "[[host.access]]\npath = '/app/**'\nallow = ['203.0.113.0/24']\n[server]\n";
    let spoofed = ("x-forwarded-for", "203.0.113.9, 198.51.100.1");
    let told = ("x-forwarded-for", "198.51.100.1, 203.0.113.9, 127.0.0.3");
    let by_element = ("forwarded", "for=198.51.100.1, for=203.0.113.9;proto=https");
    for (trusted, field, status) in [
        ("trusted-proxies = '127.0.0.0/8'", told, 200),
        ("trusted-proxies = '127.0.0.0/8'", by_element, 200),
        ("trusted-proxies = '127.0.0.0/8'", spoofed, 403),
        ("trusted-proxies = '127.0.0.0/8'", ("x-forwarded-for", "203.0.113.9, x"), 403),
        ("trusted-proxies = '10.0.0.0/8'", told, 403),
        ("", told, 403),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let more = format!("{rules}{trusted}");
        let (mut server, address, _) = serve(dir.path(), origin.address, &more);
        let path = format!("/app/{}", dir.path().file_name().unwrap().to_str().unwrap());
        for reply in over_all(address, "GET", &path, &[field]) {
            assert_eq!(reply.unwrap().0, status, "{trusted} {field:?}");
        }
        for head in origin.requests(&path) {
            assert!(head.contains("\r\nx-forwarded-for: 203.0.113.9\r\n"), "{head}");
            assert!(head.contains("\r\nforwarded: for=203.0.113.9;host="), "{head}");
        }
        let lines = || fs::read_to_string(dir.path().join("access.log")).unwrap();
        wait_until("all are logged", || lines().lines().count() == 3);
        for line in lines().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let expected = match (trusted.contains("127"), field) {
                (true, field) if field == spoofed => ("198.51.100.1", Some("127.0.0.1")),
                (true, _) if status == 200 => ("203.0.113.9", Some("127.0.0.1")),
                _ => ("127.0.0.1", None),
            };
            let proxy = line.get("proxy").and_then(Value::as_str);
            assert_eq!((line["client"].as_str(), proxy), (Some(expected.0), expected.1), "{line}");
        }
        assert!(server.stop().success());
    }
}
