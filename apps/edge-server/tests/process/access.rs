//! Access rules over HTTP/3, HTTP/2 and HTTP/1.1, as the files that operators write have them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::Running;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;

/// User `user` with the password `secret`: a hash that takes a moment.
const USERS: &str = "user:$2y$08$rjARECDroWRoCt36S1cQ1OAZ3C0BDAmlOzL6/Qgo/1NfK.n8c.tyO\n";

/// Starts a server with these hosts. `DIR` stands for the folder that it serves from.
fn serve(dir: &Path, toml: &str) -> (Running, SocketAddr, SocketAddr) {
    let root = dir.join("www");
    fs::create_dir_all(root.join("private")).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    fs::write(root.join("private/file.txt"), "private").unwrap();
    fs::write(dir.join("users"), USERS).unwrap();
    let config = dir.join("edge.toml");
    fs::write(&config, toml.replace("DIR", dir.to_str().unwrap())).unwrap();
    let args = ["--listen", "127.0.0.1:0", "--root", root.to_str().unwrap(), "--tcp", "on"];
    let more = ["--speedtest", "--metrics", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let log = dir.join("access.log");
    let log = ["--access-log", log.to_str().unwrap()];
    let mut server = Running::start(&mut server_command(&[&args[..], &more, &log].concat()));
    let (address, metrics_at) = (server.address(), server.metrics_address());
    (server, address, metrics_at)
}

/// Status, fields and body.
type Got = (String, Vec<(String, String)>, Vec<u8>);

fn value<'a>(got: &'a Got, name: &str) -> Option<&'a str> {
    got.1.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// Sends a request over each version of HTTP on new connections, and returns the responses.
fn over_all(
    server: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    content: &[u8],
) -> Vec<Got> {
    let mut client = UdpClient::connect(server);
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let stream = match content {
        [] => client.request_with(&[&pseudo[..], fields].concat()),
        _ => client.post(path, content, fields),
    };
    let response = client.response(stream);
    client.close();
    let status = response.status().to_owned();
    let mut all = vec![(status, response.headers.into_iter().collect(), response.body)];
    for version in [Version::Http2, Version::Http11] {
        let mut client = TcpClient::connect(server, "localhost", version);
        let request = client.request(method, "localhost", path, fields, content);
        let response = client.try_send(request).unwrap();
        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        let fields = response.headers().iter();
        let fields = fields.map(|(name, value)| (name.to_string(), text(value))).collect();
        all.push((response.status().as_str().to_owned(), fields, response.body().to_vec()));
    }
    all
}

#[test]
fn password_is_asked_and_checked_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(
        dir.path(),
        "[[host]]\n[[host.access]]\npath = '/private/**'\nbasic-auth = 'DIR/users'\n\
         [[host.access]]\npath = '/upload'\nbasic-auth = 'DIR/users'\n",
    );
    let right = format!("Basic {}", boring::base64::encode_block(b"user:secret"));
    let wrong = format!("Basic {}", boring::base64::encode_block(b"user:wrong"));
    for (method, path, field, content, status, body) in [
        ("GET", "/private/file.txt", None, &b""[..], "401", "401 Unauthorized\n"),
        ("GET", "/private/file.txt", Some(&wrong), b"", "401", "401 Unauthorized\n"),
        ("GET", "/private/file.txt", Some(&right), b"", "200", "private"),
        ("GET", "/private/none", Some(&right), b"", "404", "404 Not Found\n"),
        ("GET", "/", None, b"", "200", "home"),
        ("POST", "/upload", None, b"12345", "401", "401 Unauthorized\n"),
        ("POST", "/upload", Some(&right), b"12345", "200", "5\n"),
    ] {
        let fields: Vec<_> =
            field.map(|field| ("authorization", field.as_str())).into_iter().collect();
        for got in over_all(address, method, path, &fields, content) {
            let case = format!("{method} {path} {field:?} {got:?}");
            assert_eq!((got.0.as_str(), got.2.as_slice()), (status, body.as_bytes()), "{case}");
            let challenge = "Basic realm=\"Restricted\", charset=\"UTF-8\"";
            let asked = (status == "401").then_some(challenge);
            assert_eq!(value(&got, "www-authenticate"), asked, "{case}");
        }
    }
    let refused = "edge_server_access_refusals_total{reason=\"credentials\"}";
    assert_eq!(metrics::read(metrics_at, refused), 9);
    assert!(server.stop().success());
    let log = fs::read_to_string(dir.path().join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 7 * 3, "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_known = line["path"] != "/" && line["status"] != 401;
        let user = is_known.then_some("user");
        assert_eq!(line.get("user").and_then(|user| user.as_str()), user, "{line}");
    }
}

// RFC 8297. The second request need not wait for the check; hyper sends no interim responses.
#[test]
fn page_behind_a_password_has_early_hints_while_it_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(
        dir.path(),
        "[[host]]\n[[host.access]]\npath = '/private/**'\nbasic-auth = 'DIR/users'\n\
         [[host.early-hints]]\npath = '/private/**'\nlinks = ['</a.css>; rel=preload; as=style', '<https://b.example>; rel=preconnect']\n",
    );
    let credentials = |password: &str| {
        let text = format!("user:{password}");
        format!("Basic {}", boring::base64::encode_block(text.as_bytes()))
    };
    for (path, password, mode, statuses) in [
        ("/private/file.txt", "wrong-1", "navigate", &["103", "401"][..]),
        ("/private/file.txt", "wrong-2", "cors", &["401"]),
        ("/private/none", "wrong-3", "navigate", &["103", "401"]),
        ("/private/file.txt", "secret", "navigate", &["103", "200"]),
        ("/private/file.txt", "secret", "navigate", &["200"]),
        ("/private/none", "secret", "navigate", &["404"]),
        ("/", "secret", "navigate", &["200"]),
    ] {
        let credentials = credentials(password);
        let fields = [("authorization", credentials.as_str()), ("sec-fetch-mode", mode)];
        let mut client = UdpClient::connect(address);
        let pseudo =
            [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", path)];
        let stream = client.request_with(&[&pseudo[..], &fields].concat());
        let response = client.response(stream);
        assert_eq!(response.statuses, statuses, "{path} {password} {mode}");
        let has_links = path == "/private/file.txt" && response.status() == "200";
        for got in over_all(address, "GET", path, &fields, b"") {
            assert_eq!(value(&got, "link").is_some(), has_links, "{path} {password} {got:?}");
        }
    }
    assert!(server.stop().success());
}

// The end of the content comes while the request waits for the check.
#[test]
fn upload_whose_password_is_checked_for_the_first_time_is_received() {
    let dir = tempfile::tempdir().unwrap();
    let toml = "[[host]]\naccess = [{ path = '/upload', basic-auth = 'DIR/users' }]\n";
    let (mut server, address, _) = serve(dir.path(), toml);
    let right = format!("Basic {}", boring::base64::encode_block(b"user:secret"));
    let mut client = UdpClient::connect(address);
    let stream = client.post("/upload", &[0; 5000], &[("authorization", &right)]);
    let response = client.response(stream);
    assert_eq!((response.status(), response.body.as_slice()), ("200", &b"5000\n"[..]));
    assert!(server.stop().success());
}

// One download at the rate, and one without: only their order is compared.
#[test]
fn bandwidth_limits_downloads_over_all_versions() {
    const BYTES: usize = 600_000;
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(
        dir.path(),
        "[[host]]\n[[host.access]]\npath = '/private/**'\nbytes-per-second = 300000\nburst-bytes = 1\n",
    );
    for name in ["private/large", "large"] {
        fs::write(dir.path().join("www").join(name), vec![7; BYTES]).unwrap();
    }
    for version in [None, Some(Version::Http2), Some(Version::Http11)] {
        let get = move |path: &str| match version {
            None => UdpClient::connect(address).get(path).body.len(),
            Some(version) => {
                let mut client = TcpClient::connect(address, "localhost", version);
                client.get("localhost", path, &[]).body().len()
            }
        };
        let limited = thread::spawn(move || get("/private/large"));
        assert_eq!(get("/large"), BYTES, "{version:?}");
        assert!(!limited.is_finished(), "{version:?}");
        assert_eq!(limited.join().unwrap(), BYTES, "{version:?}");
    }
    assert_eq!(metrics::read(metrics_at, "edge_server_access_delayed_responses_total"), 3);
    assert!(server.stop().success());
}

/// Returns the example in this language of the page about signed URLs, with these values in place of its
/// own.
fn example(language: &str, secrets: &Path, path: &str) -> String {
    let page = include_str!("../../../../docs/edge-server/access.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    let secrets = secrets.to_str().unwrap();
    code.replace("/etc/edge/video.secrets", secrets).replace("/video/42/index.m3u8", path)
}

#[test]
fn url_that_the_documentation_signs_is_valid_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = dir.path().join("secrets");
    fs::write(&secrets, "0123456789abcdef0123456789abcdef\n").unwrap();
    let toml = "[[host]]\naccess = [{ path = '/private/**', signed-url = 'DIR/secrets' }]\n";
    let (mut server, address, _) = serve(dir.path(), toml);
    for (program, language) in [("sh", "sh"), ("python3", "python")] {
        for (signed, requested) in [("/private/file.txt", None), ("/private/", Some("file.txt"))] {
            let code = example(language, &secrets, signed);
            let output = Command::new(program).arg("-c").arg(&code).output().unwrap();
            assert!(output.status.success(), "{code}: {output:?}");
            let url = String::from_utf8(output.stdout).unwrap();
            let (path, query) = url.trim().split_once('?').unwrap();
            let path = format!("{path}{}", requested.unwrap_or_default());
            for got in over_all(address, "GET", &format!("{path}?{query}"), &[], b"") {
                assert_eq!((got.0.as_str(), got.2.as_slice()), ("200", &b"private"[..]), "{code}");
            }
            for got in over_all(address, "GET", &path, &[], b"") {
                assert_eq!(got.0, "403");
            }
        }
    }
    assert!(server.stop().success());
}

#[test]
fn preflight_and_address_are_judged_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(
        dir.path(),
        "[[host]]\ncors = [{ origins = ['https://a.example'] }]\n\
         access = [{ path = '/private/**', deny = ['127.0.0.0/8'] }, { path = '/', allow = ['127.0.0.1'] }]\n\
         try-files = ['/index.html']\n",
    );
    let origin = ("origin", "https://a.example");
    let asked = ("access-control-request-method", "GET");
    for (method, path, fields, status) in [
        ("OPTIONS", "/", &[origin, asked][..], "204"),
        ("OPTIONS", "/private/", &[origin, asked], "403"),
        ("OPTIONS", "/private/", &[origin], "403"),
        ("OPTIONS", "/", &[origin], "405"),
        ("GET", "/private/file.txt", &[origin], "403"),
        ("GET", "/", &[origin], "200"),
        ("GET", "/users/7", &[origin], "200"),
    ] {
        for got in over_all(address, method, path, fields, b"") {
            let case = format!("{method} {path} {got:?}");
            assert_eq!(got.0, status, "{case}");
            assert_eq!(value(&got, "access-control-allow-origin"), Some(origin.1), "{case}");
            let length = (status != "204").then(|| got.2.len().to_string());
            assert_eq!(value(&got, "content-length"), length.as_deref(), "{case}");
        }
    }
    assert!(server.stop().success());
}
