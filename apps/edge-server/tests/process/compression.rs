//! Files that the server compresses by itself, over HTTP/3, HTTP/2 and HTTP/1.1. Which are, and how
//! they are sent, is tested in memory: `content/tests/compression.rs`.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::Running;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;

const NAP: Duration = Duration::from_millis(20);
const NAPS_MAX: usize = 1500;

/// Coding and body of a response.
type EncodedBody = (Option<String>, Vec<u8>);

/// Requests a file over each version of HTTP, with the codings that the client accepts.
fn over_all(server: SocketAddr, path: &str, accepted: &str) -> Vec<EncodedBody> {
    let fields = [("accept-encoding", accepted)];
    let start =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let mut client = UdpClient::connect(server);
    let stream = client.request_with(&[&start[..], &fields].concat());
    let response = client.response(stream);
    client.close();
    assert_eq!(response.status(), "200", "{path}");
    let coding = response.headers.into_iter().find(|(name, _)| name == "content-encoding");
    let mut all = vec![(coding.map(|(_, coding)| coding), response.body)];
    for version in [Version::Http2, Version::Http11] {
        let mut client = TcpClient::connect(server, "localhost", version);
        let response = client.get("localhost", path, &fields);
        let coding = response.headers().get("content-encoding");
        let coding = coding.map(|coding| coding.to_str().unwrap().to_owned());
        let length = response.headers()["content-length"].to_str().unwrap();
        assert_eq!(length, response.body().len().to_string(), "{path}");
        all.push((coding, response.body().to_vec()));
    }
    all
}

fn decoded((coding, body): &EncodedBody) -> Vec<u8> {
    let mut decoded = Vec::new();
    match coding.as_deref() {
        None => return body.clone(),
        Some("br") => brotli::Decompressor::new(&body[..], 4096).read_to_end(&mut decoded),
        Some("zstd") => zstd::Decoder::new(&body[..]).unwrap().read_to_end(&mut decoded),
        Some("gzip") => flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut decoded),
        Some(other) => panic!("{other}"),
    }
    .unwrap();
    decoded
}

#[test]
fn text_is_sent_compressed_over_all_versions_once_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let lines = (0..20_000).map(|number| format!("line {number} of the file\n"));
    let text = lines.collect::<String>().into_bytes();
    fs::write(dir.path().join("long.txt"), &text).unwrap();
    fs::write(dir.path().join("image.png"), &text).unwrap();
    let root = dir.path().to_str().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--metrics", "127.0.0.1:0"];
    let mut server = Running::start(&mut server_command(&args));
    let (address, metrics_at) = (server.address(), server.metrics_address());
    let mut variants = 0;
    for coding in ["br", "zstd", "gzip"] {
        // Not before the file has settled, either.
        let is_compressed = || {
            let all = over_all(address, "/long.txt", coding);
            assert!(all.iter().all(|encoded| decoded(encoded) == text), "{coding}");
            thread::sleep(NAP);
            all.iter().all(|(own, _)| own.as_deref() == Some(coding))
        };
        assert!((0..NAPS_MAX).any(|_| is_compressed()), "{coding}");
        let all = over_all(address, "/long.txt", coding);
        assert!(all.iter().all(|encoded| encoded == &all[0]), "{coding}: the same over all");
        assert!(all[0].1.len() * 4 < text.len(), "{coding}: {} bytes", all[0].1.len());
        variants += all[0].1.len() as u64;
    }
    for (path, accepted) in [("/long.txt", "identity"), ("/image.png", "br")] {
        for encoded in over_all(address, path, accepted) {
            assert!(encoded == (None, text.clone()), "{path} {accepted}");
        }
    }
    let read = |name: &str| metrics::read(metrics_at, name);
    assert_eq!(read("edge_server_compressions_total{result=\"smaller\"}"), 3);
    assert_eq!(read("edge_server_compression_input_bytes_total"), 3 * text.len() as u64);
    assert_eq!(read("edge_server_compression_output_bytes_total"), variants);
    assert_eq!(read("edge_server_compression_variant_bytes"), variants);
    assert!(server.stop().success());
}
