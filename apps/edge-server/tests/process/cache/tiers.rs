//! Two tiers: a server whose origin is another one, which shields the origin.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use super::body_of;
use super::serve_with;
use crate::origin::over_all;
use crate::origin::over_http3;
use crate::origin::scripted::target_of;
use crate::origin::scripted::Act;
use crate::origin::scripted::ScriptedOrigin;
use crate::origin::value;
use crate::support::certify::certify;
use crate::support::process::server_command;
use crate::support::process::Running;

/// Starts a server whose origin is a shield, with these settings of its cache.
fn serve_edge(
    dir: &Path,
    shield: SocketAddr,
    settings: &str,
    options: &[&str],
) -> (Running, SocketAddr) {
    let ca = dir.join("localhost.pem");
    let toml = format!(
        "[[host]]\n[[host.origin]]\npath = '/app/**'\nurl = 'https://localhost:{}'\nca = '{}'\n\
         [host.origin.cache]\n{settings}\n",
        shield.port(),
        ca.display()
    );
    let config = dir.join("outer.toml");
    fs::write(&config, toml).unwrap();
    let (root, config, admin) = (dir.join("www"), config.display().to_string(), dir.join("outer"));
    let (root, admin) = (root.to_str().unwrap(), admin.to_str().unwrap());
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--tcp", "on", "--config", &config];
    let mut server =
        Running::start(&mut server_command(&[&args[..], &["--admin", admin], options].concat()));
    let address = server.address();
    (server, address)
}

#[test]
fn shield_spares_the_origin_what_other_servers_fetch() {
    for (settings, length, requests) in [("", 5000, 1), ("slice-bytes = 65536", 200_000, 4)] {
        let dir = tempfile::tempdir().unwrap();
        let origin = ScriptedOrigin::start_by_head(|head| {
            let body = body_of(target_of(head));
            let fields = "cache-control: max-age=60\r\netag: \"1\"";
            super::slices::part(head, fields, &body)
        });
        certify(dir.path(), "localhost");
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (cert, key) = (file("localhost.pem"), file("localhost.key"));
        let options = ["--cert", &cert, "--key", &key];
        let (mut shield, shield_at) = serve_with(dir.path(), origin.address, settings, &options);
        let (mut edge, edge_at) = serve_edge(dir.path(), shield_at, settings, &[]);
        let path = format!("/app/film-{length}");
        let body = body_of(&path);
        for round in 0..2 {
            for (index, reply) in over_all(edge_at, "GET", &path, &[]).into_iter().enumerate() {
                let (status, fields, got) = reply.unwrap();
                assert!(status == 200 && got == body, "{settings}");
                // Each tier says what it has done, that next to the origin first.
                let said = fields.iter().filter(|(name, _)| name == "cache-status");
                // The client of HTTP/3 keeps one line of each field.
                assert_eq!(said.count(), if index == 0 { 1 } else { 2 }, "{fields:?}");
                assert!(value(&fields, "age").is_some(), "{fields:?}");
            }
            assert_eq!(origin.requests(&path).len(), requests, "{settings} {round}");
            let admin = file("outer");
            let purged = server_command(&[]).args(["admin", &admin, "purge", "all"]).output();
            assert!(purged.unwrap().status.success());
        }
        assert!(edge.stop().success() && shield.stop().success());
    }
}

#[test]
fn edge_goes_on_with_stale_responses_while_the_shield_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let origin = ScriptedOrigin::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncache-control: max-age=0\r\netag: \"1\"\r\n";
        vec![Act::Send(format!("{head}content-length: 5\r\n\r\nhello").into_bytes())]
    });
    certify(dir.path(), "localhost");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key) = (file("localhost.pem"), file("localhost.key"));
    let options = ["--cert", &cert, "--key", &key];
    let (mut shield, shield_at) = serve_with(dir.path(), origin.address, "", &options);
    let (mut edge, edge_at) = serve_edge(dir.path(), shield_at, "", &[]);
    for is_there in [true, false] {
        for reply in over_all(edge_at, "GET", "/app/a", &[]) {
            let (status, fields, body) = reply.unwrap();
            assert_eq!((status, body.as_slice()), (200, &b"hello"[..]), "{is_there}");
            let said = fields.iter().any(|(_, value)| value.contains("detail=stale-if-error"));
            assert_eq!(said, !is_there, "{fields:?}");
        }
        if is_there {
            assert!(shield.stop().success());
        }
    }
    assert!(edge.stop().success());
}

#[test]
fn servers_that_are_each_others_origin_do_not_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path(), "localhost");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, admin) = (file("localhost.pem"), file("localhost.key"), file("inner"));
    let options = ["--cert", &cert, "--key", &key];
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let more = ["--admin", &admin];
    let (mut inner, inner_at) =
        serve_with(dir.path(), nowhere, "", &[&options[..], &more].concat());
    let (mut outer, outer_at) = serve_edge(dir.path(), inner_at, "", &options);
    let toml = fs::read_to_string(dir.path().join("outer.toml")).unwrap();
    let toml = toml.replace(&inner_at.port().to_string(), &outer_at.port().to_string());
    fs::write(dir.path().join("edge.toml"), toml).unwrap();
    let reloaded = server_command(&[]).args(["admin", &admin, "reload"]).output().unwrap();
    assert!(reloaded.status.success(), "{reloaded:?}");
    let status = |at, path: &str| over_http3(at, "GET", path, &[]).unwrap().0;
    // They learn that each is behind the other.
    assert_eq!([status(inner_at, "/app/0"), status(outer_at, "/app/1")], [508; 2]);
    for round in 2..20 {
        let path = &format!("/app/{round}");
        let statuses = thread::scope(|scope| {
            let both = [inner_at, outer_at].map(|at| scope.spawn(move || status(at, path)));
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(statuses, [508; 2], "{round}");
    }
    assert!(inner.stop().success() && outer.stop().success());
}
