//! Answers of a host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use quiche::h3;

use super::*;

type Fields<'a> = Vec<(&'a str, &'a str)>;

struct Tree {
    virtual_host: VirtualHost,
    dir: tempfile::TempDir,
}

impl Tree {
    /// A root with files, folders, and links inside and out of it, served as `toml`
    /// says.
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
        ] {
            fs::write(dir.path().join(name), contents).unwrap();
        }
        symlink("../outside", root.join("leak")).unwrap();
        symlink("../outside", root.join("ten.txt.br")).unwrap();
        symlink("a b.txt", root.join("alias")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let virtual_host = VirtualHost::open(&root, &toml::from_str(toml).unwrap(), true).unwrap();
        Self { virtual_host, dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("www")
    }

    fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let start =
            [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)];
        let headers: Vec<_> = start
            .iter()
            .chain(fields)
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        let wall_now = quiche::clock::wall_now() + Duration::from_secs(60);
        self.virtual_host.answer(&Request::read(&headers).unwrap(), wall_now)
    }

    fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &[])
    }
}

fn text(answer: &Response) -> String {
    String::from_utf8(answer.body.read(1000).unwrap()).unwrap()
}

#[test]
fn paths_lead_below_the_root_or_nowhere() {
    let tree = Tree::new("");
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
        assert_eq!(tree.get(path).status, status, "{path}");
    }
}

#[test]
fn a_named_pipe_and_a_socket_are_not_served() {
    let tree = Tree::new("");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for (name, kind) in
        [("pipe", rustix::fs::FileType::Fifo), ("socket", rustix::fs::FileType::Socket)]
    {
        rustix::fs::mknodat(rustix::fs::CWD, tree.root().join(name), kind, mode, 0).unwrap();
        assert_eq!(tree.get(&format!("/{name}")).status, 404, "{name}");
    }
}

#[test]
fn a_file_is_described() {
    let tree = Tree::new("header = [{ path = '*.html', set = { cache-control = 'no-cache' } }]");
    let answer = tree.get("/sub/");
    assert_eq!(text(&answer), "sub");
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
    assert_eq!(answer.field("vary"), Some("accept-encoding"));
    assert_eq!(answer.field("cache-control"), Some("no-cache"));
    assert!(answer.field("last-modified").is_some());
    let etag = answer.field("etag").unwrap();
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
    assert_eq!(tree.get("/ten.txt").field("cache-control"), None);
}

#[test]
fn a_changed_file_has_another_tag() {
    let tree = Tree::new("");
    let tag = || tree.get("/ten.txt").field("etag").unwrap().to_owned();
    let first = tag();
    assert_eq!(tag(), first);
    let file = fs::File::options().write(true).open(tree.root().join("ten.txt")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_001)).unwrap();
    let second = tag();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_002)).unwrap();
    let third = tag();
    assert!(first != second && second != third && third != first, "{first} {second} {third}");
}

#[test]
fn methods_have_their_answers() {
    let tree = Tree::new("");
    for (method, path, status, allow) in [
        ("HEAD", "/ten.txt", 200, None),
        ("POST", "/ten.txt", 405, Some("GET, HEAD")),
        ("DELETE", "/missing", 405, Some("GET, HEAD")),
        ("OPTIONS", "*", 405, Some("GET, HEAD")),
        ("POST", "/bytes/5", 405, Some("GET, HEAD")),
        ("GET", "/upload", 405, Some("POST")),
        ("PUT", "/upload", 405, Some("POST")),
    ] {
        let answer = tree.ask(method, path, &[]);
        assert_eq!((answer.status, answer.field("allow")), (status, allow), "{method} {path}");
    }
}

#[test]
fn ranges_and_conditions_are_kept() {
    let tree = Tree::new("");
    let etag = tree.get("/ten.txt").field("etag").unwrap().to_owned();
    let modified = tree.get("/ten.txt").field("last-modified").unwrap().to_owned();
    let none = "\"none\"";
    let (etag, modified) = (etag.as_str(), modified.as_str());
    let range = ("range", "bytes=2-4");
    let table: Vec<(&str, Fields<'_>, u16, &str)> = vec![
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
        let answer = tree.ask(method, "/ten.txt", &fields);
        assert_eq!((answer.status, text(&answer).as_str()), (status, body), "{fields:?}");
        let described = matches!(status, 200 | 206 | 304);
        assert_eq!(answer.field("etag").is_some(), described, "{fields:?}");
        assert_eq!(answer.field("vary").is_some(), described, "{fields:?}");
        let content_range = match status {
            206 => answer.field("content-range").is_some_and(|range| range.ends_with("/10")),
            416 => answer.field("content-range") == Some("bytes */10"),
            _ => answer.field("content-range").is_none(),
        };
        assert!(content_range, "{fields:?}");
    }

    let several = tree.ask("GET", "/ten.txt", &[("range", "bytes=0-1,8-")]);
    let content_type = several.field("content-type").unwrap();
    assert!(content_type.starts_with("multipart/byteranges; boundary="), "{content_type}");
    let text = text(&several);
    assert!(text.contains("bytes 0-1/10\r\n\r\n01\r\n") && text.contains("bytes 8-9/10"), "{text}");
}

#[test]
fn compressed_siblings_are_variants() {
    let tree = Tree::new("");
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
        let answer = tree.ask("GET", path, &[("accept-encoding", accepted)]);
        let case = format!("{path} {accepted}");
        assert_eq!((answer.status, answer.field("content-encoding")), (200, coding), "{case}");
        assert_eq!(text(&answer), body, "{case}");
        assert_eq!(answer.field("vary"), Some("accept-encoding"), "{case}");
        assert_eq!(answer.field("content-type"), tree.get(path).field("content-type"), "{case}");
    }

    let tag = |accepted| {
        let answer = tree.ask("GET", "/app.js", &[("accept-encoding", accepted)]);
        answer.field("etag").unwrap().to_owned()
    };
    let tags = [tag(""), tag("br"), tag("gzip")];
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[2] != tags[0], "{tags:?}");
    let fields = [("accept-encoding", "br"), ("if-none-match", tags[0].as_str())];
    assert_eq!(tree.ask("GET", "/app.js", &fields).status, 200);
    let fields = [("accept-encoding", "gzip"), ("range", "bytes=1-1")];
    let answer = tree.ask("GET", "/app.js", &fields);
    assert_eq!((answer.status, text(&answer).as_str()), (206, "z"));
    assert_eq!(answer.field("content-encoding"), Some("gzip"));

    let off = Tree::new("precompressed = false");
    let answer = off.ask("GET", "/app.js", &[("accept-encoding", "br")]);
    assert_eq!((text(&answer).as_str(), answer.field("vary")), ("script", None));
}

#[test]
fn folders_and_moved_paths_are_redirected() {
    let tree = Tree::new(
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
        let answer = tree.get(path);
        assert_eq!((answer.status, answer.field("location")), (status, Some(to)), "{path}");
    }
}

#[test]
fn index_files_and_error_pages_are_the_hosts_own() {
    let tree = Tree::new(
        "index = ['none.html', 'ten.txt']\nerror = { 404 = '/404.html', 400 = '/none.html' }",
    );
    assert_eq!(text(&tree.get("/")), "0123456789");
    let missing = tree.get("/missing");
    assert_eq!((missing.status, text(&missing).as_str()), (404, "not here"));
    assert_eq!(missing.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(missing.field("etag"), None);
    let bad = tree.get("/..");
    assert_eq!((bad.status, text(&bad).as_str()), (400, "400 Bad Request\n"));
}

#[test]
fn the_speed_test_serves_bytes_and_its_page() {
    let tree = Tree::new("");
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
        assert_eq!(tree.get(path).status, status, "{path}");
    }
    assert_eq!(tree.get("/bytes/12345").body.length(), 12345);
    assert_eq!(tree.get("/bytes/010").field("etag"), tree.get("/bytes/10").field("etag"));
    let part = tree.ask("GET", "/bytes/100000", &[("range", "bytes=70000-")]);
    assert_eq!((part.status, part.body.length()), (206, 30_000));
    assert_eq!(part.field("content-range"), Some("bytes 70000-99999/100000"));
    let page = tree.get("/speedtest");
    assert!(text(&page).contains("</script>"));
    let known = [("if-none-match", page.field("etag").unwrap())];
    assert_eq!(tree.ask("GET", "/speedtest", &known).status, 304);

    let without = Tree {
        virtual_host: VirtualHost { speedtest: false, ..tree.virtual_host.clone() },
        ..tree
    };
    for path in ["/bytes/1", "/speedtest", "/upload"] {
        assert_eq!(without.get(path).status, 404, "{path}");
    }
}

#[test]
fn a_host_that_cannot_be_served_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for bad in [dir.path().join("missing"), dir.path().join("file")] {
        let error = format!("{:#}", VirtualHost::open(&bad, &Host::default(), false).unwrap_err());
        assert!(error.contains(&format!("--root {}", bad.display())), "{error}");
    }
    let host: Host = toml::from_str("names = ['a.example']\nindex = ['/']").unwrap();
    let error = format!("{:#}", VirtualHost::open(dir.path(), &host, false).unwrap_err());
    assert!(error.contains("[[host]] a.example: index"), "{error}");
}
