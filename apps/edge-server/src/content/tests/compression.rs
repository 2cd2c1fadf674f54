//! Tests of responses with compressed variants.

use super::*;

use crate::content::compression::decode;
use crate::content::compression::Compressor;

/// Host with a compressor, whose files wait until the test runs it.
struct CompressingHost {
    host: TestHost,
    compressor: Arc<Compressor>,
    plain: VirtualHost,
    cached: VirtualHost,
}

/// Status and coding.
type Brief<'a> = (u16, Option<&'a str>);

/// Method and fields of a request; status, coding and body of its response.
type VariantCase<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, Option<&'a str>, &'a [u8]);

impl CompressingHost {
    fn new(toml: &str) -> Self {
        let host = TestHost::new(toml);
        let compressor = Arc::new(Compressor::new(1 << 20));
        let plain = host.virtual_host.clone().with_compressor(&compressor);
        let cached = host.cached().with_compressor(&compressor);
        fs::create_dir(host.root().join("guide")).unwrap();
        let files = Self { host, compressor, plain, cached };
        for (name, length) in [
            ("long.txt", 20_000),
            ("page.html", 5000),
            ("page.html.gz", 50),
            ("short.css", 1023),
            ("image.png", 5000),
            ("image.svg", 5000),
            ("data", 5000),
            ("guide/index.html", 5000),
        ] {
            files.write(name, &text_of(length));
        }
        files
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.host.root().join(name), content).unwrap();
    }

    /// Returns the response, which is the same with a cache of lookups.
    fn request(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let response = request(&self.plain, method, path, fields, START);
        for _ in 0..2 {
            let again = request(&self.cached, method, path, fields, START);
            assert_eq!(whole(&again), whole(&response), "{method} {path} {fields:?}");
        }
        response
    }

    fn get(&self, path: &str, accepted: &str) -> Response {
        self.request("GET", path, &[("accept-encoding", accepted)])
    }

    /// Compresses all that waits. Returns how many files that were.
    fn run(&self) -> usize {
        let wall_now = quiche::clock::wall_now() + START;
        std::iter::from_fn(|| self.compressor.run_next(wall_now).then_some(())).count()
    }
}

/// Returns text that is worth compression.
fn text_of(length: usize) -> Vec<u8> {
    (0..length).map(|at| b"0123456789 lines\n"[(at + at / 97) % 17]).collect()
}

fn whole(response: &Response) -> (u16, String, Vec<u8>) {
    let Response { status, fields, body, .. } = response;
    (*status, format!("{fields:?}"), body.read(1 << 20).unwrap())
}

fn brief(response: &Response) -> Brief<'_> {
    (response.status, response.field("content-encoding"))
}

fn decoded(response: &Response) -> Vec<u8> {
    let body = response.body.read(1 << 20).unwrap();
    let name = response.field("content-encoding");
    let coding = Coding::ALL.into_iter().find(|coding| Some(coding.name()) == name);
    coding.map_or(body.clone(), |coding| decode(&body, coding))
}

#[test]
fn file_is_plain_at_first_and_compressed_later() {
    let own = "compress-types = ['application/octet-stream']\ncompress-bytes-min = 1";
    for (toml, path, accepted, before, after) in [
        ("", "/long.txt", "gzip, br, zstd", None, Some("br")),
        ("", "/long.txt", "gzip, zstd", None, Some("zstd")),
        ("", "/long.txt", "gzip", None, Some("gzip")),
        ("", "/long.txt", "gzip, br;q=0.5", None, Some("gzip")),
        ("", "/long.txt", "br, identity;q=0", None, Some("br")),
        ("", "/long.txt", "*", None, Some("br")),
        ("", "/long.txt", "identity, br;q=0.9", None, None),
        ("", "/long.txt", "br;q=0", None, None),
        ("", "/long.txt", "deflate", None, None),
        ("", "/long.txt", "", None, None),
        ("", "/image.svg", "br", None, Some("br")),
        ("", "/guide/", "gzip", None, Some("gzip")),
        ("", "/page.html", "br", None, Some("br")),
        // There is a sibling.
        ("", "/page.html", "br, gzip", Some("gzip"), Some("gzip")),
        ("precompressed = false", "/page.html", "br, gzip", None, Some("br")),
        ("", "/short.css", "br", None, None),
        ("compress-bytes-min = 1000", "/short.css", "br", None, Some("br")),
        ("compress-bytes-max = 4999", "/guide/", "br", None, None),
        ("", "/image.png", "br", None, None),
        ("", "/data", "br", None, None),
        (own, "/data", "br", None, Some("br")),
        (own, "/long.txt", "br", None, None),
        ("compress = false", "/long.txt", "br", None, None),
        ("try-files = ['/long.txt']", "/missing", "br", None, Some("br")),
        ("error = { 404 = '/long.txt' }", "/missing", "br", None, None),
    ] {
        let case = format!("{toml} {path} {accepted}");
        let host = CompressingHost::new(toml);
        let first = host.get(path, accepted);
        assert_eq!(first.field("content-encoding"), before, "{case}");
        let is_compressed = before != after;
        assert_eq!(host.run(), usize::from(is_compressed), "{case}: once");
        let second = host.get(path, accepted);
        assert_eq!(brief(&second), (first.status, after), "{case}");
        if before == after {
            continue;
        }
        assert_eq!(host.run(), 0, "{case}");
        assert!(second.body.length().unwrap() * 10 < first.body.length().unwrap(), "{case}");
        assert_eq!(decoded(&second), decoded(&first), "{case}");
        assert_ne!(second.field("etag"), first.field("etag"), "{case}");
        for name in ["content-type", "last-modified", "accept-ranges", "vary"] {
            assert!(first.field(name).is_some(), "{case} {name}");
            assert_eq!(second.field(name), first.field(name), "{case} {name}");
        }
        let plain = host.get(path, "identity");
        assert_eq!(brief(&plain), (200, None), "{case}");
        assert_eq!(plain.field("etag"), first.field("etag"), "{case}");
    }
}

#[test]
fn entity_tag_is_that_of_one_coding_and_content() {
    let host = CompressingHost::new("");
    let long = fs::read(host.host.root().join("long.txt")).unwrap();
    let mut tags = vec![host.get("/long.txt", "").field("etag").unwrap().to_owned()];
    for (accepted, suffix) in [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")] {
        host.get("/long.txt", accepted);
        assert_eq!(host.run(), 1);
        let response = host.get("/long.txt", accepted);
        let etag = response.field("etag").unwrap().to_owned();
        let start = format!("{}-{accepted}-", tags[0].trim_end_matches('"'));
        assert!(etag.starts_with(&start) && etag.ends_with('"'), "{etag}");
        tags.push(etag);

        // The sibling of another coding has as many bytes, and the same time.
        let sibling = host.host.root().join(format!("long.txt{suffix}"));
        fs::write(&sibling, &long).unwrap();
        let modified = fs::metadata(host.host.root().join("long.txt")).unwrap().modified();
        let file = fs::File::options().write(true).open(&sibling).unwrap();
        file.set_modified(modified.unwrap()).unwrap();
        let response =
            request(&host.plain, "GET", "/long.txt", &[("accept-encoding", accepted)], START);
        tags.push(response.field("etag").unwrap().to_owned());
        fs::remove_file(sibling).unwrap();
    }
    for (number, tag) in tags.iter().enumerate() {
        assert!(!tags[..number].contains(tag), "{tags:?}");
    }

    // Another server with a copy of the file makes the same.
    let other = CompressingHost::new("");
    let file = fs::File::options().write(true).open(other.host.root().join("long.txt")).unwrap();
    let modified = fs::metadata(host.host.root().join("long.txt")).unwrap().modified();
    file.set_modified(modified.unwrap()).unwrap();
    other.get("/long.txt", "br");
    other.run();
    assert_eq!(other.get("/long.txt", "br").field("etag"), Some(tags[1].as_str()));
}

#[test]
fn ranges_and_preconditions_are_those_of_the_variant() {
    let host = CompressingHost::new("");
    let accept = ("accept-encoding", "br");
    let plain = host.get("/long.txt", "br");
    host.run();
    let variant = host.get("/long.txt", "br");
    let (of_plain, of_variant) = (plain.field("etag").unwrap(), variant.field("etag").unwrap());
    let modified = variant.field("last-modified").unwrap();
    let bytes = variant.body.read(1 << 20).unwrap();
    let text = plain.body.read(1 << 20).unwrap();
    let range = ("range", "bytes=3-9");
    let (br, identity) = (Some("br"), None);
    let nothing: &[u8] = b"";
    let cases: [VariantCase<'_>; 15] = [
        ("GET", &[range], 206, br, &bytes[3..10]),
        ("GET", &[("range", "bytes=-2")], 206, br, &bytes[bytes.len() - 2..]),
        ("HEAD", &[range], 200, br, &bytes),
        ("GET", &[range, ("if-range", of_variant)], 206, br, &bytes[3..10]),
        ("GET", &[("if-none-match", of_variant)], 304, None, nothing),
        ("HEAD", &[("if-none-match", of_variant)], 304, None, nothing),
        ("GET", &[("if-modified-since", modified)], 304, None, nothing),
        ("GET", &[range, ("if-match", of_variant)], 206, br, &bytes[3..10]),
        ("GET", &[range, ("if-range", "\"none\"")], 200, br, &bytes),
        // The date is that of the file, too.
        ("GET", &[range, ("if-range", modified)], 200, br, &bytes),
        // Clients that have the file, or a part.
        ("GET", &[range, ("if-range", of_plain)], 206, identity, &text[3..10]),
        ("GET", &[range, ("if-match", of_plain)], 206, identity, &text[3..10]),
        ("GET", &[("if-none-match", of_plain)], 304, None, nothing),
        ("GET", &[("if-none-match", "\"none\"")], 200, br, &bytes),
        ("GET", &[("range", "bytes=19999-")], 416, None, b"416 Range Not Satisfiable\n"),
    ];
    for (method, fields, status, coding, body) in cases {
        let response = host.request(method, "/long.txt", &[&[accept], fields].concat());
        assert_eq!(brief(&response), (status, coding), "{method} {fields:?}");
        assert!(response.body.read(1 << 20).unwrap() == body, "{method} {fields:?}");
        let total = if coding == br { bytes.len() } else { text.len() };
        if status == 206 {
            let content_range = response.field("content-range").unwrap();
            assert!(content_range.ends_with(&format!("/{total}")), "{fields:?}: {content_range}");
        }
    }
    let tag = |tag: &str| {
        let response = host.request("GET", "/long.txt", &[accept, ("if-none-match", tag)]);
        response.field("etag").map(str::to_owned)
    };
    assert_eq!(
        (tag(of_plain).as_deref(), tag(of_variant).as_deref()),
        (Some(of_plain), Some(of_variant))
    );

    // While there is no variant, its tag names nothing.
    let other = CompressingHost::new("");
    let range_of_variant = [accept, range, ("if-range", of_variant)];
    let response = other.request("GET", "/long.txt", &range_of_variant);
    assert_eq!((brief(&response), response.body.length()), ((200, None), Some(20_000)));
    let by_date = [accept, range, ("if-range", modified)];
    let response = other.request("GET", "/long.txt", &by_date);
    assert_eq!((brief(&response), response.body.length()), ((200, None), Some(20_000)));
    // Nor does a client without codings get anything else.
    let modified = other.get("/long.txt", "").field("last-modified").unwrap().to_owned();
    let response = other.request("GET", "/long.txt", &[range, ("if-range", &modified)]);
    assert_eq!(brief(&response), (206, None));
}

#[test]
fn changed_file_is_plain_until_it_is_compressed_again() {
    let host = CompressingHost::new("");
    host.get("/long.txt", "br");
    host.run();
    assert_eq!(brief(&host.get("/long.txt", "br")), (200, Some("br")));
    for number in 0..3 {
        let content = text_of(30_000 + number);
        host.write("long.txt", &content);
        let response = host.get("/long.txt", "br");
        assert_eq!((brief(&response), decoded(&response)), ((200, None), content.clone()));
        assert_eq!(host.run(), 1);
        let response = host.get("/long.txt", "br");
        assert_eq!((brief(&response), decoded(&response)), ((200, Some("br")), content));
    }
    fs::remove_file(host.host.root().join("long.txt")).unwrap();
    assert_eq!(host.get("/long.txt", "br").status, 404);
}

#[test]
fn small_file_from_memory_is_compressed_too() {
    let host = CompressingHost::new("");
    let get = |after| {
        let fields = [("accept-encoding", "br")];
        let response = request(&host.cached, "GET", "/guide/", &fields, after);
        response.field("content-encoding").is_some()
    };
    assert!(!get(START));
    host.run();
    assert!(get(START), "the kept lookup is still valid");
    host.write("guide/index.html", &text_of(6000));
    assert!(!get(START + Duration::from_secs(2)));
}

// Whoever may not have a file does not have it compressed either.
#[test]
fn refused_request_queues_nothing() {
    let host = CompressingHost::new(
        "access = [{ path = '/long.txt', deny = ['0.0.0.0/0', '::/0'] },\n\
                   { path = '/guide/index.html', signed-url = 'DIR/secrets' }]",
    );
    for path in ["/long.txt", "/guide/", "/guide/index.html"] {
        assert_eq!(host.get(path, "br").status, 403, "{path}");
    }
    assert_eq!(host.run(), 0);
    let get = || host.get(&signed("/guide/index.html", "/guide/index.html", 100), "br");
    get();
    assert_eq!(host.run(), 1);
    assert_eq!(brief(&get()), (200, Some("br")));
    assert_eq!(host.get("/guide/index.html", "br").status, 403);
    assert_eq!(host.get("/guide/", "br").status, 403);
}

#[test]
fn responses_vary_if_siblings_or_variants_may_be_sent() {
    for (toml, varies) in [
        ("", true),
        ("precompressed = false", true),
        ("compress = false", true),
        ("precompressed = false\ncompress = false", false),
    ] {
        let host = CompressingHost::new(toml);
        let vary = host.get("/long.txt", "").field("vary").map(str::to_owned);
        assert_eq!(vary.is_some(), varies, "{toml}");
    }
}
