//! Tests of a virtual host's responses.

mod compression;

use crate::admission::file_limits::tests::account;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use quiche::h3;
use quiche::path_state::PrefixLengths;

use super::*;
use crate::http::exchange::Protocol;
use crate::http::response::ConnectionEffect;
use crate::resume::report::ConnectionReport;

type ConditionalCase<'a> = (&'a str, Vec<(&'a str, &'a str)>, u16, &'a str);

/// User `user` with the password `secret`, and `ü` with `é:1`.
const USERS: &str = "user:$2y$04$m7OR/Xlkho/eivIZT4I5u.6RWCzMEb9q9JMOn4f.w.tSZcTuIkequ\nü:$2y$04$MxxVD4IGgzgWrySjUaGicejgvsSRlMQVLtPU22J1o.i0mArMdDb.G\n";

/// Secret that signs URLs.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct TestHost {
    virtual_host: VirtualHost,
    dir: tempfile::TempDir,
}

impl TestHost {
    /// Returns a host with the rules of `toml` and a root with files, folders, and links inside
    /// and out of it. `DIR` stands for the folder above the root.
    fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("www");
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::create_dir_all(root.join(".well-known")).unwrap();
        fs::create_dir_all(root.join("a b")).unwrap();
        fs::create_dir_all(root.join("evil.example")).unwrap();
        for (name, contents) in [
            ("www/index.html", "home"),
            ("www/a b.txt", "space"),
            ("www/ten.txt", "0123456789"),
            ("www/sub/index.html", "sub"),
            ("www/sub/index.html.br", "b"),
            ("www/app.js", "script"),
            ("www/app.js.br", "br"),
            ("www/app.js.gz", "gz!"),
            ("www/style.css", "style"),
            ("www/style.css.zst", "z"),
            ("www/404.html", "not here"),
            ("www/.secret", "secret"),
            ("www/.well-known/id", "id"),
            ("outside", "outside"),
            ("outside.br", "outside"),
            ("users", USERS),
            ("secrets", SECRET),
        ] {
            fs::write(dir.path().join(name), contents).unwrap();
        }
        symlink("../outside", root.join("leak")).unwrap();
        symlink("../outside", root.join("ten.txt.br")).unwrap();
        symlink("a b.txt", root.join("alias")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let dir_name = dir.path().to_str().unwrap();
        let host = toml::from_str(&toml.replace("DIR", dir_name)).unwrap();
        let mut resources = AccessResources::new(PrefixLengths { v4: 24, v6: 48 }, Arc::default());
        let virtual_host =
            VirtualHost::new(Root::open(&root).unwrap(), &host, true, &mut resources).unwrap();
        Self { virtual_host, dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("www")
    }

    /// Returns the response, which is the same with a cache: when it fills, and from it.
    fn request(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let cached = self.cached();
        let response = request(&self.virtual_host, method, path, fields, START);
        for _ in 0..2 {
            let again = request(&cached, method, path, fields, START);
            assert_eq!(comparable(&again), comparable(&response), "{method} {path} {fields:?}");
        }
        response
    }

    /// Returns the host with an empty cache.
    fn cached(&self) -> VirtualHost {
        self.virtual_host.clone().with_cache(&Arc::new(LookupCache::new(1 << 20)), 0)
    }

    fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[])
    }
}

/// Address of the client.
const CLIENT: &str = "::ffff:192.0.2.7";

/// Time of a request.
const START: Duration = Duration::from_secs(60);

fn comparable(response: &Response) -> (u16, String, Vec<u8>) {
    let Response { status, fields, body, .. } = response;
    // A download of the speed test is longer than memory.
    let is_read = body.length().is_some_and(|length| length < 1 << 20);
    (*status, format!("{fields:?}"), if is_read { body.read(1000).unwrap() } else { Vec::new() })
}

/// Returns the response to a request so long from now.
pub(super) fn request(
    virtual_host: &VirtualHost,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    after: Duration,
) -> Response {
    let mut has_waited = false;
    loop {
        match handle(virtual_host, (method, path, fields), after, has_waited) {
            Handling::Respond(response) => return response,
            Handling::Upload { bytes_max, .. } => panic!("an upload of up to {bytes_max} bytes"),
            Handling::Check(check) => {
                check.run();
                has_waited = true;
            }
            Handling::Forward(forwarded) => panic!("{forwarded:?}"),
        }
    }
}

/// Returns what becomes of a request with this method, path and fields.
fn handle(
    virtual_host: &VirtualHost,
    (method, path, fields): (&str, &str, &[(&str, &str)]),
    after: Duration,
    has_waited: bool,
) -> Handling {
    let start = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)];
    let headers: Vec<_> = start
        .iter()
        .chain(fields)
        .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let wall_now = quiche::clock::wall_now() + after;
    let account = account();
    let permit = |readers: &FileReaders| account.try_read(readers, 1000);
    let rtt = Some(Duration::from_millis(20));
    let client = ClientContext {
        addresses: &|| vec![CLIENT.parse().unwrap()],
        permit: &permit,
        report: &|| ConnectionReport::new("00ab".into(), None, rtt, None),
        protocol: Protocol::Http3,
        has_waited,
        now: quiche::clock::now(),
        wall_now,
    };
    virtual_host.handle(&Request::read(&headers).unwrap(), false, &client)
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.read(1000).unwrap()).unwrap()
}

#[test]
fn path_outside_root_is_refused() {
    let host = TestHost::new("");
    let long = format!("/{}", "x".repeat(5000));
    let table = [
        ("/", 200),
        ("/index.html", 200),
        ("/index.html?v=1", 200),
        ("/a%20b.txt", 200),
        ("/sub/", 200),
        ("//sub/./index.html", 200),
        ("/alias", 200),
        ("/.well-known/id", 200),
        ("/sub/empty/", 404),
        ("/missing", 404),
        ("/index.html/", 404),
        ("/index.html/x", 404),
        ("/.secret", 404),
        ("/%2esecret", 404),
        ("/leak", 404),
        ("/loop", 404),
        (long.as_str(), 404),
        ("/../outside", 400),
        ("/sub/../../outside", 400),
        ("/%2e%2e/outside", 400),
        ("/..%2foutside", 400),
        ("/sub%2findex.html", 400),
        ("/sub%5c..%5c..%5coutside", 400),
        ("/a%00b", 400),
        ("/a%2", 400),
        ("/a%ff", 400),
        ("/x#y", 400),
        ("index.html", 400),
        ("*", 400),
    ];
    for (path, status) in table {
        assert_eq!(host.get(path).status, status, "{path}");
    }
}

#[test]
fn special_files_are_not_served() {
    let host = TestHost::new("");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for (name, kind) in
        [("pipe", rustix::fs::FileType::Fifo), ("socket", rustix::fs::FileType::Socket)]
    {
        rustix::fs::mknodat(rustix::fs::CWD, host.root().join(name), kind, mode, 0).unwrap();
        assert_eq!(host.get(&format!("/{name}")).status, 404, "{name}");
    }
}

#[test]
fn file_response_has_metadata_fields() {
    let host =
        TestHost::new("header = [{ path = '*.html', set = { cache-control = 'no-cache' } }]");
    let response = host.get("/sub/");
    assert_eq!(text(&response), "sub");
    assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("accept-ranges"), Some("bytes"));
    assert_eq!(response.field("vary"), Some("accept-encoding"));
    assert_eq!(response.field("cache-control"), Some("no-cache"));
    assert!(response.field("last-modified").is_some());
    let etag = response.field("etag").unwrap();
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
    assert_eq!(host.get("/ten.txt").field("cache-control"), None);
}

#[test]
fn fields_are_on_every_response_if_asked() {
    let host = TestHost::new(
        "redirect = [{ from = '/old', to = '/' }]\nerror = { 404 = '/404.html' }\n\
         header = [{ path = '**', always = true, set = { x-a = '1' } },\n\
                   { path = '**', set = { x-file = '1' } }]",
    );
    for (method, path, status, is_file) in [
        ("GET", "/ten.txt", 200, true),
        ("GET", "/missing", 404, false),
        ("GET", "/old", 308, false),
        ("GET", "/sub", 301, false),
        ("GET", "/../x", 400, false),
        ("POST", "/ten.txt", 405, false),
        ("GET", "/bytes/3", 200, false),
    ] {
        let response = host.request(method, path, &[]);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.field("x-a"), Some("1"), "{path}");
        assert_eq!(response.field("x-file").is_some(), is_file, "{path}");
    }
    let range = host.request("GET", "/ten.txt", &[("range", "bytes=99-")]);
    assert_eq!((range.status, range.field("x-a"), range.field("x-file")), (416, Some("1"), None));
}

// Browsers enforce every policy that they get.
#[test]
fn own_fields_of_a_page_are_not_repeated_by_rules() {
    let host = TestHost::new(
        "header = [{ path = '**', always = true, set = { content-security-policy = 'x', x-a = '1', \
         cache-control = 'max-age=9' } }]",
    );
    let count = |response: &Response, name: &str| {
        response.fields.iter().filter(|field| field.name == name).count()
    };
    for path in ["/speedtest", "/speedtest/status", "/missing"] {
        let response = host.get(path);
        for name in ["content-security-policy", "cache-control", "x-a"] {
            assert_eq!(count(&response, name), 1, "{path} {name}");
        }
    }
    assert_ne!(host.get("/speedtest").field("content-security-policy"), Some("x"));
    assert_eq!(host.get("/speedtest/status").field("cache-control"), Some("no-store"));
    assert_eq!(host.get("/missing").field("content-security-policy"), Some("x"));
}

#[test]
fn etag_changes_with_modification_time() {
    let host = TestHost::new("");
    let tag = || host.get("/ten.txt").field("etag").unwrap().to_owned();
    let first = tag();
    assert_eq!(tag(), first);
    let file = fs::File::options().write(true).open(host.root().join("ten.txt")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_001)).unwrap();
    let second = tag();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_002)).unwrap();
    let third = tag();
    assert!(first != second && second != third && third != first, "{first} {second} {third}");
}

#[test]
fn unsupported_method_is_405_with_allow() {
    let host = TestHost::new("");
    for (method, path, status, allow) in [
        ("HEAD", "/ten.txt", 200, None),
        ("POST", "/ten.txt", 405, Some("GET, HEAD")),
        ("DELETE", "/missing", 405, Some("GET, HEAD")),
        ("OPTIONS", "*", 405, Some("GET, HEAD")),
        ("POST", "/bytes/5", 405, Some("GET, HEAD")),
        ("GET", "/upload", 405, Some("POST")),
        ("PUT", "/upload", 405, Some("POST")),
    ] {
        let response = host.request(method, path, &[]);
        assert_eq!((response.status, response.field("allow")), (status, allow), "{method} {path}");
    }
}

#[test]
fn ranges_and_preconditions_are_applied() {
    let host = TestHost::new("");
    let etag = host.get("/ten.txt").field("etag").unwrap().to_owned();
    let modified = host.get("/ten.txt").field("last-modified").unwrap().to_owned();
    let none = "\"none\"";
    let (etag, modified) = (etag.as_str(), modified.as_str());
    let range = ("range", "bytes=2-4");
    let table: Vec<ConditionalCase<'_>> = vec![
        ("GET", vec![range], 206, "234"),
        ("GET", vec![("range", "bytes=-3")], 206, "789"),
        ("GET", vec![("range", "bytes=5-1")], 200, "0123456789"),
        // RFC 9110, 14.2: for GET alone.
        ("HEAD", vec![range], 200, "0123456789"),
        ("GET", vec![range, ("if-range", etag)], 206, "234"),
        ("GET", vec![range, ("if-range", modified)], 206, "234"),
        ("GET", vec![range, ("if-range", none)], 200, "0123456789"),
        ("GET", vec![("if-none-match", etag)], 304, ""),
        ("HEAD", vec![("if-none-match", etag)], 304, ""),
        ("GET", vec![("if-modified-since", modified)], 304, ""),
        ("GET", vec![("if-none-match", none), ("if-modified-since", modified)], 200, "0123456789"),
        ("GET", vec![range, ("if-none-match", etag)], 304, ""),
        ("GET", vec![range, ("if-match", none)], 412, "412 Precondition Failed\n"),
        ("GET", vec![("range", "bytes=10-")], 416, "416 Range Not Satisfiable\n"),
    ];
    for (method, fields, status, body) in table {
        let response = host.request(method, "/ten.txt", &fields);
        assert_eq!((response.status, text(&response).as_str()), (status, body), "{fields:?}");
        let described = matches!(status, 200 | 206 | 304);
        assert_eq!(response.field("etag").is_some(), described, "{fields:?}");
        assert_eq!(response.field("vary").is_some(), described, "{fields:?}");
        let content_range = match status {
            206 => response.field("content-range").is_some_and(|range| range.ends_with("/10")),
            416 => response.field("content-range") == Some("bytes */10"),
            _ => response.field("content-range").is_none(),
        };
        assert!(content_range, "{fields:?}");
    }

    let several = host.request("GET", "/ten.txt", &[("range", "bytes=0-1,8-")]);
    let content_type = several.field("content-type").unwrap();
    assert!(content_type.starts_with("multipart/byteranges; boundary="), "{content_type}");
    let text = text(&several);
    assert!(text.contains("bytes 0-1/10\r\n\r\n01\r\n") && text.contains("bytes 8-9/10"), "{text}");
}

#[test]
fn accepted_coding_selects_sibling() {
    let host = TestHost::new("");
    let table = [
        ("/app.js", "gzip, br", Some("br"), "br"),
        ("/app.js", "gzip, br;q=0.5", Some("gzip"), "gz!"),
        ("/app.js", "zstd", None, "script"),
        ("/app.js", "zstd, gzip;q=0.1", Some("gzip"), "gz!"),
        ("/app.js", "identity, br;q=0.9", None, "script"),
        ("/app.js", "", None, "script"),
        ("/style.css", "br, gzip, zstd", Some("zstd"), "z"),
        ("/sub/", "br", Some("br"), "b"),
        // A link out of the root.
        ("/ten.txt", "br", None, "0123456789"),
    ];
    for (path, accepted, coding, body) in table {
        let response = host.request("GET", path, &[("accept-encoding", accepted)]);
        let case = format!("{path} {accepted}");
        assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{case}");
        assert_eq!(text(&response), body, "{case}");
        assert_eq!(response.field("vary"), Some("accept-encoding"), "{case}");
        assert_eq!(response.field("content-type"), host.get(path).field("content-type"), "{case}");
    }

    let tag = |accepted| {
        let response = host.request("GET", "/app.js", &[("accept-encoding", accepted)]);
        response.field("etag").unwrap().to_owned()
    };
    let tags = [tag(""), tag("br"), tag("gzip")];
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[2] != tags[0], "{tags:?}");
    let fields = [("accept-encoding", "br"), ("if-none-match", tags[0].as_str())];
    assert_eq!(host.request("GET", "/app.js", &fields).status, 200);
    let fields = [("accept-encoding", "gzip"), ("range", "bytes=1-1")];
    let response = host.request("GET", "/app.js", &fields);
    assert_eq!((response.status, text(&response).as_str()), (206, "z"));
    assert_eq!(response.field("content-encoding"), Some("gzip"));

    let off = TestHost::new("precompressed = false");
    let response = off.request("GET", "/app.js", &[("accept-encoding", "br")]);
    assert_eq!((text(&response).as_str(), response.field("vary")), ("script", None));
}

#[test]
fn folder_and_moved_path_are_redirected() {
    let host = TestHost::new(
        "redirect = [{ from = '/moved/*', to = '/sub/*', status = 301 }, \
                     { from = '/ten.txt', to = '/eleven' }]",
    );
    for (path, status, to) in [
        ("/sub", 301, "/sub/"),
        ("/sub?q=1", 301, "/sub/?q=1"),
        ("/a%20b", 301, "/a%20b/"),
        // Not to another host.
        ("//evil.example", 301, "/evil.example/"),
        ("/moved/x?y", 301, "/sub/x?y"),
        ("/ten.txt", 308, "/eleven"),
    ] {
        let response = host.get(path);
        assert_eq!((response.status, response.field("location")), (status, Some(to)), "{path}");
    }
}

#[test]
fn index_and_error_page_follow_rules() {
    let host = TestHost::new(
        "index = ['none.html', 'ten.txt']\nerror = { 404 = '/404.html', 400 = '/none.html' }",
    );
    assert_eq!(text(&host.get("/")), "0123456789");
    let missing = host.get("/missing");
    assert_eq!((missing.status, text(&missing).as_str()), (404, "not here"));
    assert_eq!(missing.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(missing.field("etag"), None);
    let bad = host.get("/..");
    assert_eq!((bad.status, text(&bad).as_str()), (400, "400 Bad Request\n"));
}

#[test]
fn substitute_is_served_for_a_missing_file() {
    let host = TestHost::new(
        "try-files = ['{path}.txt', '{path}/index.htm', '/app.js']\n\
         error = { 404 = '/404.html' }\n\
         header = [{ path = '/app.js', set = { cache-control = 'no-cache' } }]",
    );
    fs::create_dir(host.root().join("sub/app")).unwrap();
    fs::write(host.root().join("sub/app/index.htm"), "application").unwrap();
    fs::create_dir(host.root().join("folder.txt")).unwrap();
    for (path, status, body) in [
        ("/ten.txt", 200, "0123456789"),
        ("/ten", 200, "0123456789"),
        ("/ten/", 200, "0123456789"),
        ("/ten?x=1", 200, "0123456789"),
        ("/sub/app", 301, "301 Moved Permanently\n"),
        ("/sub/app/", 200, "application"),
        ("/sub", 301, "301 Moved Permanently\n"),
        ("/sub/empty/", 200, "script"),
        ("/folder", 200, "script"),
        ("/users/7", 200, "script"),
        ("/ten.txt/x", 200, "script"),
        // What is private or malformed stays so.
        ("/.secret", 404, "not here"),
        ("/.missing", 404, "not here"),
        ("/users/.git/config", 404, "not here"),
        ("/.well-known/missing", 200, "script"),
        ("/../users", 400, "400 Bad Request\n"),
        ("/%2e%2e/users", 400, "400 Bad Request\n"),
    ] {
        let response = host.get(path);
        assert_eq!((response.status, text(&response).as_str()), (status, body), "{path}");
        let no_cache = response.field("cache-control").is_some();
        assert_eq!(no_cache, body == "script", "{path}");
    }
    let of = |method, fields: &[(&str, &str)]| {
        let response = host.request(method, "/users/7", fields);
        (response.status, text(&response), response.field("content-encoding").map(str::to_owned))
    };
    let etag = host.get("/users/7").field("etag").unwrap().to_owned();
    let script = || "script".to_owned();
    assert_eq!(of("HEAD", &[]), (200, script(), None));
    assert_eq!(of("GET", &[("accept-encoding", "br")]), (200, "br".into(), Some("br".into())));
    assert_eq!(of("GET", &[("if-none-match", &etag)]), (304, String::new(), None));
    assert_eq!(of("GET", &[("range", "bytes=0-1")]), (206, "sc".into(), None));
    assert_eq!(of("POST", &[]).0, 405);

    let gone = TestHost::new("try-files = ['{path}.txt', '/gone.html']");
    assert_eq!(["/x", "/"].map(|path| gone.get(path).status), [404, 200]);
}

#[test]
fn clients_of_other_addresses_are_refused() {
    let host = TestHost::new(
        "index = ['ten.txt', 'index.html']\n\
         try-files = ['/app.js']\n\
         error = { 403 = '/404.html' }\n\
         access = [{ path = '/sub/**', except = ['/sub/free*'], allow = ['198.51.100.0/24'] },\n\
                   { path = '/style.css', allow = ['192.0.2.0/24'] },\n\
                   { path = '/ten.txt', deny = ['192.0.2.7'] },\n\
                   { path = '/app.js', deny = ['192.0.2.0/24'] },\n\
                   { path = '/bytes/**', deny = ['192.0.2.0/24'] }]\n\
         header = [{ path = '**', always = true, set = { x-a = '1' } }]",
    );
    fs::write(host.root().join("sub/free.txt"), "free").unwrap();
    for (path, status) in [
        ("/a%20b.txt", 200),
        ("/style.css", 200),
        ("/sub/", 403),
        // Whether it exists is nobody's business.
        ("/sub", 403),
        ("/sub/none", 403),
        ("/%73ub/index.html", 403),
        ("//sub/.//index.html", 403),
        ("/sub/free.txt", 200),
        ("/ten.txt", 403),
        // What leads to a file is no way around its rule.
        ("/", 403),
        ("/missing", 403),
        ("/app.js.br", 403),
        ("/bytes/5", 403),
        ("/speedtest", 200),
        ("/..", 400),
    ] {
        let response = host.get(path);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.field("x-a"), Some("1"), "{path}");
        if status == 403 {
            assert_eq!(text(&response), "not here", "{path}");
            assert_eq!(response.field("cache-control"), Some("no-store"), "{path}");
            assert_eq!(response.field("etag"), None, "{path}");
        }
    }
    assert_eq!(host.request("POST", "/sub/", &[]).status, 403);
}

#[test]
fn users_with_passwords_get_private_responses() {
    let host = TestHost::new(
        "index = ['ten.txt', 'index.html']\n\
         access = [{ path = '/sub/**', basic-auth = 'DIR/users', realm = 'the sub' },\n\
                   { path = '/ten.txt', basic-auth = 'DIR/users' }]\n\
         error = { 401 = '/404.html' }\n\
         header = [{ path = '**', set = { cache-control = 'public, max-age=60' } }]",
    );
    let challenge = "Basic realm=\"the sub\", charset=\"UTF-8\"";
    let table = [
        (None, 401),
        (Some("user:secret"), 200),
        (Some("ü:é:1"), 200),
        (Some("user:wrong"), 401),
        (Some("user:"), 401),
        (Some("nobody:secret"), 401),
        (Some(":secret"), 401),
        (Some("user"), 401),
    ];
    for (credentials, status) in table {
        let field = credentials
            .map(|text| format!("Basic {}", boring::base64::encode_block(text.as_bytes())));
        let fields: Vec<_> = field.iter().map(|field| ("authorization", field.as_str())).collect();
        let response = host.request("GET", "/sub/index.html", &fields);
        assert_eq!(response.status, status, "{credentials:?}");
        let (cache, asked) = match status {
            200 => ("private, max-age=60", None),
            _ => ("no-store", Some(challenge)),
        };
        assert_eq!(response.field("cache-control"), Some(cache), "{credentials:?}");
        assert_eq!(response.field("www-authenticate"), asked, "{credentials:?}");
        assert_eq!(text(&response), if status == 200 { "sub" } else { "not here" });
        let missing = if status == 200 { 404 } else { 401 };
        assert_eq!(host.request("GET", "/sub/none", &fields).status, missing);
        // By way of the index file.
        assert_eq!(host.request("GET", "/", &fields).status, status, "{credentials:?}");
        assert_eq!(host.request("HEAD", "/sub/", &fields).status, status);
    }
    assert_eq!(host.get("/app.js").status, 200);
    assert_eq!(host.get("/app.js").field("cache-control"), Some("public, max-age=60"));
}

#[test]
fn rate_counts_a_password_before_it_is_checked() {
    let host = TestHost::new(
        "access = [{ path = '/**', basic-auth = 'DIR/users', requests-per-second = 1, burst = 3 }]",
    );
    let handle = |password: &[u8], has_waited| {
        let field = format!("Basic {}", boring::base64::encode_block(password));
        let fields = [("authorization", field.as_str())];
        let request = ("GET", "/ten.txt", &fields[..]);
        handle(&host.virtual_host, request, START, has_waited)
    };
    let checks: Vec<_> = (0..6)
        .filter_map(|password| match handle(&[b'u', b':', password], false) {
            Handling::Check(check) => Some(check),
            Handling::Respond(response) => {
                assert_eq!(response.status, 429);
                None
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(checks.len(), 3);
    checks[0].run();
    let Handling::Respond(response) = handle(&[b'u', b':', 0], true) else {
        panic!("it is checked")
    };
    assert_eq!(response.status, 401, "it is counted once");
}

#[test]
fn pages_of_named_origins_may_read_responses() {
    let host = TestHost::new(
        "header = [{ path = '**', always = true, set = { access-control-allow-origin = 'x', x-a = '1' } }]\n\
         redirect = [{ from = '/sub/old', to = '/' }]\n\
         access = [{ path = '/sub/private/**', allow = [] }]\n\
         cors = [{ path = '/sub/**', origins = ['https://a.example', 'https://b.example:8443'],\n\
                   headers = ['range'], expose = ['etag', 'content-range'], max-age = 600,\n\
                   credentials = true },\n\
                 { path = '/app.js', origins = ['*'], headers = ['*'] }]",
    );
    let (a, b) = ("https://a.example", "https://b.example:8443");
    for (method, path, origin, status, allowed) in [
        ("GET", "/sub/", Some(a), 200, Some(a)),
        ("HEAD", "/sub/", Some(b), 200, Some(b)),
        ("GET", "/sub/none", Some(a), 404, Some(a)),
        ("GET", "/sub/old", Some(a), 308, Some(a)),
        ("GET", "/sub/private/x", Some(a), 403, Some(a)),
        ("PUT", "/sub/", Some(a), 405, Some(a)),
        ("GET", "/sub/", Some("https://c.example"), 200, None),
        ("GET", "/sub/", Some("https://b.example"), 200, None),
        ("GET", "/sub/", Some("null"), 200, None),
        ("GET", "/sub/", None, 200, None),
        ("GET", "/app.js", Some("https://c.example"), 200, Some("*")),
        ("GET", "/app.js", None, 200, None),
        ("GET", "/ten.txt", Some(a), 200, Some("x")),
        ("OPTIONS", "/sub/", Some(a), 405, Some(a)),
        ("OPTIONS", "/ten.txt", Some(a), 405, Some("x")),
        ("OPTIONS", "*", Some(a), 405, Some("x")),
    ] {
        let fields: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        let response = host.request(method, path, &fields);
        let case = format!("{method} {path} {origin:?}");
        assert_eq!(response.status, status, "{case}");
        assert_eq!(response.field("x-a"), Some("1"), "{case}");
        assert_eq!(response.field("access-control-allow-origin"), allowed, "{case}");
        let is_named = path.starts_with("/sub/");
        let varies = response.fields.iter().any(|f| f.name == "vary" && f.value == "origin");
        assert_eq!(varies, is_named, "{case}");
        let more = ["access-control-allow-credentials", "access-control-expose-headers"];
        let expected = (is_named && allowed.is_some()).then_some(["true", "etag, content-range"]);
        let found = more.map(|name| response.field(name));
        assert_eq!(found, expected.map_or([None; 2], |values| values.map(Some)), "{case}");
    }

    let names = ["allow-origin", "allow-credentials", "allow-methods", "allow-headers", "max-age"];
    let preflight = |path: &str, origin: &str| {
        let fields = [("origin", origin), ("access-control-request-method", "GET")];
        let response = host.request("OPTIONS", path, &fields);
        assert_eq!(response.body.length() == Some(0), response.status == 204);
        let value = |name: &str| {
            response.field(&format!("access-control-{name}")).unwrap_or_default().to_owned()
        };
        (response.status, names.map(value).join("; "))
    };
    for (path, origin, expected) in [
        ("/sub/none", a, (204, "https://a.example; true; GET, HEAD; range; 600")),
        // From an address that is not allowed.
        ("/sub/private/x", a, (403, "https://a.example; true; ; ; ")),
        ("/sub/none", "https://c.example", (204, "; ; ; ; ")),
        ("/app.js", "https://c.example", (204, "*; ; GET, HEAD; *; ")),
        ("/ten.txt", a, (405, "")),
    ] {
        if expected.0 == 405 {
            let fields = [("origin", origin), ("access-control-request-method", "GET")];
            assert_eq!(host.request("OPTIONS", path, &fields).status, 405);
            continue;
        }
        let found = preflight(path, origin);
        assert_eq!((found.0, found.1.as_str()), expected, "{path} {origin}");
    }
}

/// Returns a target that is signed for a path or folder, `seconds` from now.
fn signed(target: &str, path: &str, seconds: i64) -> String {
    let now = quiche::clock::wall_now() + START;
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let expires = now.saturating_add_signed(seconds);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = ring::hmac::sign(&key, format!("expires={expires}\n{path}").as_bytes());
    let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mark = if target.contains('?') { '&' } else { '?' };
    format!("{target}{mark}expires={expires}&signature={digits}")
}

#[test]
fn signed_urls_give_access_until_they_expire() {
    let host = TestHost::new(
        "access = [{ path = '/sub/**', signed-url = 'DIR/secrets' },\n\
                   { path = '/a b.txt', signed-url = 'DIR/secrets' },\n\
                   { path = '/bytes/**', signed-url = 'DIR/secrets' },\n\
                   { path = '/old/**', signed-url = 'DIR/secrets' }]\n\
         redirect = [{ from = '/old/*', to = '/new/*' }]",
    );
    for (target, path, seconds, status) in [
        ("/sub/index.html", "/sub/index.html", 100, 200),
        ("/sub/index.html?x=1", "/sub/index.html", 100, 200),
        ("/sub/index.html", "/sub/", 100, 200),
        ("/sub/", "/sub/", 100, 200),
        ("/sub/none", "/sub/", 100, 404),
        ("/a%20b.txt", "/a b.txt", 100, 200),
        ("/bytes/5", "/bytes/5", 100, 200),
        ("/sub/index.html", "/sub/index.html", -100, 410),
        ("/sub/index.html", "/sub/other.html", 100, 403),
        ("/bytes/5", "/bytes/6", 100, 403),
    ] {
        let response = host.get(&signed(target, path, seconds));
        assert_eq!(response.status, status, "{target} {path} {seconds}");
        let no_store = response.field("cache-control") == Some("no-store");
        assert_eq!(no_store, [403, 410].contains(&status), "{target} {path} {seconds}");
    }
    for target in ["/sub/index.html", "/sub/?expires=99999999999&signature=00", "/bytes/5"] {
        assert_eq!(host.get(target).status, 403, "{target}");
    }
    let to = |target, path| {
        let response = host.get(&signed(target, path, 100));
        (response.status, response.field("location").map(str::to_owned))
    };
    assert_eq!(to("/old/a?x=1", "/old/"), (308, Some("/new/a?x=1".to_owned())));
    assert_eq!(to("/old/a", "/old/a"), (308, Some("/new/a".to_owned())));
    assert_eq!(to("/sub", "/sub"), (301, Some("/sub/".to_owned())));
    let open = TestHost::new("redirect = [{ from = '/old/*', to = '/new/*' }]");
    let response = open.get("/old/a?signature=1");
    assert_eq!(response.field("location"), Some("/new/a?signature=1"), "of somebody else");
}

#[test]
fn speedtest_serves_bytes_and_page() {
    let host = TestHost::new("");
    for (path, status) in [
        ("/bytes/0", 200),
        ("/bytes/17179869184", 200),
        ("/bytes/17179869185", 400),
        ("/bytes/99999999999999999999", 400),
        ("/bytes/-1", 400),
        ("/bytes/+1", 400),
        ("/bytes/", 400),
        ("/speedtest", 200),
    ] {
        assert_eq!(host.get(path).status, status, "{path}");
    }
    assert_eq!(host.get("/bytes/12345").body.length(), Some(12345));
    assert_eq!(host.get("/bytes/010").field("etag"), host.get("/bytes/10").field("etag"));
    let part = host.request("GET", "/bytes/100000", &[("range", "bytes=70000-")]);
    assert_eq!((part.status, part.body.length()), (206, Some(30_000)));
    assert_eq!(part.field("content-range"), Some("bytes 70000-99999/100000"));
    let page = host.get("/speedtest");
    let html = String::from_utf8(page.body.read(1 << 20).unwrap()).unwrap();
    assert!(html.contains("</script>") && !html.contains("{script}") && !html.contains("{style}"));
    let known = [("if-none-match", page.field("etag").unwrap())];
    assert_eq!(host.request("GET", "/speedtest", &known).status, 304);

    let without = TestHost {
        virtual_host: VirtualHost { speedtest: false, ..host.virtual_host.clone() },
        ..host
    };
    for path in ["/bytes/1", "/speedtest", "/speedtest/status", "/upload"] {
        assert_eq!(without.get(path).status, 404, "{path}");
    }
}

// All but the page's first window is less than the server claims saved parameters for.
#[test]
fn speedtest_page_runs_its_own_script_alone() {
    let page = TestHost::new("").get("/speedtest");
    assert!(page.body.length().unwrap() < 2 * crate::quic::INITIAL_WINDOW_BYTES);
    let html = String::from_utf8(page.body.read(1 << 20).unwrap()).unwrap();
    let policy = page.field("content-security-policy").unwrap();
    for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
        let (_, rest) = html.split_once(&format!("<{tag}>")).unwrap();
        let (inline, _) = rest.split_once(&format!("</{tag}>")).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, inline.as_bytes());
        let hash = boring::base64::encode_block(digest.as_ref());
        assert!(policy.contains(&format!("{directive} 'sha256-{hash}';")), "{policy}");
    }
    assert!(!html.contains("style=\"") && !html.contains("onclick"), "the policy forbids these");
    assert!(!html.contains("src="), "no other resources");
}

#[test]
fn speedtest_status_is_the_connections_report() {
    let host = TestHost::new("");
    let status = host.get("/speedtest/status");
    assert_eq!(status.field("cache-control"), Some("no-store"));
    let json: serde_json::Value = serde_json::from_str(&text(&status)).unwrap();
    assert_eq!((&json["connection"], &json["outcome"]), (&"00ab".into(), &"off".into()));
    assert_eq!(json["rtt_ms"], 20.0);
    assert_eq!(host.request("POST", "/speedtest/status", &[]).status, 405);
}

#[test]
fn speedtest_requests_affect_their_connection() {
    let host = TestHost::new("");
    let effect = |method, path, fields| host.request(method, path, fields).effect;
    assert_eq!(effect("GET", "/bytes/1?resume=off&t=1", &[]), Some(ConnectionEffect::NoJump));
    for path in ["/bytes/1", "/bytes/1?resume=on", "/bytes/x?resume=off", "/?resume=off"] {
        assert_eq!(effect("GET", path, &[]), None, "{path}");
    }
    let same_origin = ("sec-fetch-site", "same-origin");
    for (method, field, status) in [
        ("POST", same_origin, 200),
        ("POST", ("sec-fetch-site", "cross-site"), 403),
        ("POST", ("sec-fetch-site", "same-site"), 403),
        ("POST", ("origin", "https://other.example"), 403),
        ("GET", same_origin, 405),
    ] {
        let response = host.request(method, "/speedtest/close", &[field]);
        assert_eq!(response.status, status, "{method} {field:?}");
        assert_eq!(response.effect.is_some(), status == 200, "{method} {field:?}");
    }
    for (path, field, status) in [
        ("/bytes/1?resume=off", same_origin, 200),
        ("/bytes/1?resume=off", ("sec-fetch-site", "cross-site"), 403),
        ("/bytes/1?resume=off", ("origin", "https://other.example"), 403),
        ("/bytes/1", ("sec-fetch-site", "cross-site"), 200),
    ] {
        let response = host.request("GET", path, &[field]);
        assert_eq!(response.status, status, "{path} {field:?}");
        assert!(status == 200 || response.effect.is_none(), "{path} {field:?}");
    }
    assert_eq!(effect("POST", "/speedtest/close", &[]), Some(ConnectionEffect::Close));
}

#[test]
fn server_timing_is_sent_to_pages_of_the_origin_that_ask() {
    let host = TestHost::new("server-timing = true");
    let timing = |host: &TestHost, site| {
        let fields = [("sec-fetch-site", site)];
        host.request("GET", "/ten.txt", &fields).field("server-timing").map(str::to_owned)
    };
    for site in ["same-origin", "none"] {
        let expected = Some("resume;desc=\"outcome=off\", rtt;dur=20".to_owned());
        assert_eq!(timing(&host, site), expected, "{site}");
    }
    for site in ["same-site", "cross-site", "x"] {
        assert_eq!(timing(&host, site), None, "{site}");
    }
    assert_eq!(host.get("/ten.txt").field("server-timing"), None);
    assert_eq!(timing(&TestHost::new(""), "same-origin"), None);
}

/// Returns status, coding and body of a file for a client that accepts Brotli.
fn brief(virtual_host: &VirtualHost, path: &str, after: Duration) -> (u16, Option<String>, String) {
    let response = request(virtual_host, "GET", path, &[("accept-encoding", "br")], after);
    let coding = response.field("content-encoding").map(str::to_owned);
    let body = response.body.read(1 << 20).unwrap();
    (response.status, coding, String::from_utf8(body[..body.len().min(8)].to_vec()).unwrap())
}

#[test]
fn change_of_a_file_is_seen_when_its_lookup_is_no_longer_valid() {
    let host = TestHost::new("");
    let cached = host.cached();
    let large = "large".repeat(10_000);
    fs::write(host.root().join("large"), &large).unwrap();
    let changes: [(&str, &str, &dyn Fn()); 6] = [
        ("/ten.txt", "content", &|| fs::write(host.root().join("ten.txt"), "changed").unwrap()),
        ("/style.css", "removal", &|| fs::remove_file(host.root().join("style.css")).unwrap()),
        ("/new", "creation", &|| fs::write(host.root().join("new"), "new").unwrap()),
        ("/new/", "creation of a folder", &|| fs::remove_file(host.root().join("new")).unwrap()),
        ("/index.html", "sibling", &|| fs::write(host.root().join("index.html.br"), "b").unwrap()),
        ("/app.js", "end of the sibling", &|| {
            fs::remove_file(host.root().join("app.js.br")).unwrap()
        }),
    ];
    for (path, what, change) in changes {
        let before = brief(&cached, path, START);
        change();
        let now = brief(&host.virtual_host, path, START);
        let ms = Duration::from_millis(1);
        // The first lookup took some milliseconds.
        assert_eq!(brief(&cached, path, START + 500 * ms), before, "{what}");
        assert_eq!(brief(&cached, path, START + 1500 * ms), now, "{what}");
        if what != "creation of a folder" {
            assert_ne!(before, now, "{what}");
        }
    }

    // Larger files are opened for each response.
    let before = brief(&cached, "/large", START);
    fs::write(host.root().join("large"), "small").unwrap();
    assert_eq!(before.2, "largelar");
    assert_eq!(brief(&cached, "/large", START).2, "small");
    fs::remove_file(host.root().join("large")).unwrap();
    assert_eq!(brief(&cached, "/large", START).0, 404);
}

#[test]
fn small_file_from_memory_has_no_descriptor() {
    let host = TestHost::new("");
    let cached = host.cached();
    let refused = |_: &FileReaders| None;
    let report = || ConnectionReport::new("00ab".into(), None, None, None);
    let headers =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/ten.txt")]
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()));
    let status = || {
        let wall_now = quiche::clock::wall_now() + START;
        let client = ClientContext {
            addresses: &Vec::new,
            permit: &refused,
            report: &report,
            protocol: Protocol::Http3,
            has_waited: false,
            now: quiche::clock::now(),
            wall_now,
        };
        match cached.handle(&Request::read(&headers).unwrap(), false, &client) {
            Handling::Respond(response) => response.status,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(status(), 503, "it needs one");
    request(&cached, "GET", "/ten.txt", &[], START);
    assert_eq!(status(), 200);
}

#[test]
fn pages_have_the_links_of_early_hints() {
    let host = TestHost::new(
        "early-hints = [{ path = '/sub/', links = ['</app.js>; rel=modulepreload'] }]\n\
         index = ['index.html']\nprecompressed = false",
    );
    let etag = host.get("/sub/").field("etag").unwrap().to_owned();
    for (method, path, fields, status, has_links) in [
        ("GET", "/sub/", &[][..], 200, true),
        ("HEAD", "//sub//", &[], 200, true),
        ("GET", "/sub/", &[("if-none-match", etag.as_str())], 304, true),
        ("GET", "/sub/", &[("range", "bytes=0-1")], 206, false),
        ("GET", "/sub/index.html", &[], 200, false),
        ("GET", "/sub", &[], 301, false),
        ("POST", "/sub/", &[], 405, false),
    ] {
        let response = host.request(method, path, fields);
        assert_eq!(response.status, status, "{method} {path} {fields:?}");
        let links = response.field("link");
        assert_eq!(links.is_some(), has_links, "{method} {path} {fields:?}: {links:?}");
    }
}

#[test]
fn origin_has_the_paths_of_its_rule_alone() {
    let host = TestHost::new(
        "redirect = [{ from = '/app/old', to = '/new' }]\n\
         access = [{ path = '/app/denied', deny = ['::/0', '0.0.0.0/0'] }]\n\
         origin = [{ path = '/app/special', url = 'http://[::1]:9' },\n\
                   { path = '/app/**', url = 'http://origin:9' }]",
    );
    for (method, path, expected) in [
        ("GET", "/app/", Ok("http://origin:9/app/")),
        ("HEAD", "/app/a%20b%3Fc?d=%20e", Ok("http://origin:9/app/a%20b%3Fc?d=%20e")),
        ("GET", "//app//./a//", Ok("http://origin:9/app/a/")),
        ("GET", "/%61pp/%C3%BC", Ok("http://origin:9/app/%C3%BC")),
        ("GET", "/app/special", Ok("http://[::1]:9/app/special")),
        ("GET", "/app/../app/", Err(400)),
        ("GET", "/app/a%2fb", Err(400)),
        ("GET", "/app/old", Err(308)),
        ("GET", "/app/denied", Err(403)),
        ("POST", "/app/", Ok("http://origin:9/app/")),
        ("DELETE", "/app/", Ok("http://origin:9/app/")),
        ("TRACE", "/app/", Err(405)),
        ("POST", "/app/old", Err(308)),
        ("POST", "/app/../app/", Err(405)),
        ("POST", "/ten.txt", Err(405)),
        ("GET", "/application", Err(404)),
        ("GET", "/ten.txt", Err(200)),
        ("GET", "/bytes/3", Err(200)),
    ] {
        let handling = handle(&host.virtual_host, (method, path, &[]), START, false);
        let got = match &handling {
            Handling::Forward(forwarded) => {
                assert_eq!(forwarded.request.method(), method);
                let target = forwarded.request.uri().path_and_query().unwrap();
                Ok(format!("{}{target}", forwarded.origin.upstreams[0].url))
            }
            Handling::Respond(response) => Err(response.status),
            other => panic!("{method} {path}: {other:?}"),
        };
        assert_eq!(got, expected.map(str::to_owned), "{method} {path}");
    }
}
