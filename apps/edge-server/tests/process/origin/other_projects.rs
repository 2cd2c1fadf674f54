//! Origins of other projects: nginx, Node and Python's http.server.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use super::over_all;
use super::serve;
use super::upload_over_all;
use super::value;
use super::wait_until;
use crate::support::certify::certify;

const FILE_BYTES: u32 = 5_000_000;
const FIELD_BYTES: usize = 5_000;

/// Status, fields and body.
type WholeReply = (u16, Vec<(String, String)>, Vec<u8>);

/// A process that ends with the test.
struct OriginProcess(Child);

impl Drop for OriginProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// An origin: its name, the keys of its rule, and whether it has ranges.
#[derive(Clone)]
struct RealOrigin {
    name: &'static str,
    keys: String,
    has_ranges: bool,
}

fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/origin").join(name)
}

/// Starts a program that prints its ports.
fn start(program: &str, args: &[&Path]) -> (OriginProcess, Vec<u16>) {
    let mut child = Command::new(program)
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run {program}: {e}; make test-origin installs it"));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ports = line.split_whitespace().map(|port| port.parse().unwrap()).collect();
    (OriginProcess(child), ports)
}

/// Starts nginx, and returns its ports for HTTP/1.1, for HTTP/2 by prior knowledge, and for either over TLS.
fn start_nginx(dir: &Path) -> (OriginProcess, Vec<u16>) {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    let [http11, http2, tls] = ports;
    let shown = dir.display();
    let config = format!(
        "daemon off; master_process off; pid {shown}/nginx.pid; error_log {shown}/nginx.log;
         events {{}}
         http {{
             access_log off; client_max_body_size 10m; default_type text/plain;
             client_body_temp_path {shown}/body; proxy_temp_path {shown}/proxy;
             fastcgi_temp_path {shown}/fastcgi; uwsgi_temp_path {shown}/uwsgi; scgi_temp_path {shown}/scgi;
             server {{
                 listen 127.0.0.1:{http11}; listen 127.0.0.1:{http2} http2; listen 127.0.0.1:{tls} ssl http2;
                 ssl_certificate {shown}/localhost.pem; ssl_certificate_key {shown}/localhost.key;
                 root {shown}; dav_methods PUT;
                 location = /app/large-field {{ add_header x-large $http_x_large; return 200 $http_x_large; }}
             }}
         }}"
    );
    let path = dir.join("nginx.conf");
    fs::write(&path, config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(dir).arg("-c").arg(&path).stderr(Stdio::null());
    let child = command.spawn().unwrap_or_else(|e| panic!("cannot run nginx: {e}"));
    let process = OriginProcess(child);
    wait_until("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", http11)).is_ok());
    (process, ports.to_vec())
}

/// Returns the origins of three ports.
fn of_ports(name: &'static str, ports: &[u16]) -> Vec<RealOrigin> {
    let keys = [
        format!("url = 'http://127.0.0.1:{}'", ports[0]),
        format!("url = 'http://127.0.0.1:{}'\nhttp-version = '2'", ports[1]),
        format!("url = 'https://localhost:{}'\nca = 'DIR/localhost.pem'", ports[2]),
        format!(
            "url = 'https://localhost:{}'\nca = 'DIR/localhost.pem'\nhttp-version = '1.1'",
            ports[2]
        ),
    ];
    keys.into_iter().map(|keys| RealOrigin { name, keys, has_ranges: true }).collect()
}

#[test]
#[ignore = "make test-origin runs it, with nginx, Node and Python"]
fn origins_of_other_projects_are_served_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    certify(dir, "localhost");
    fs::create_dir(dir.join("app")).unwrap();
    let file: Vec<u8> = (0..FILE_BYTES).map(|at| (at % 251) as u8).collect();
    fs::write(dir.join("app/file.bin"), &file).unwrap();

    let (_nginx, nginx) = start_nginx(dir);
    let (pem, key) = (dir.join("localhost.pem"), dir.join("localhost.key"));
    let (_node, node) = start("node", &[&tool("node.mjs"), dir, &pem, &key]);
    let (_python, python) = start("python3", &[&tool("python.py"), dir]);
    let mut origins = [of_ports("nginx", &nginx), of_ports("Node", &node)].concat();
    let keys = format!("url = 'http://127.0.0.1:{}'", python[0]);
    origins.push(RealOrigin { name: "Python", keys, has_ranges: false });
    for (number, origin) in origins.iter().enumerate() {
        check_origin(dir, origin, &file, number);
    }
}

fn check_origin(dir: &Path, origin: &RealOrigin, file: &[u8], number: usize) {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rule = format!("[[host.origin]]\npath = '/app/**'\n{}\n", origin.keys);
    let (mut server, address, _) = serve(dir, unused, &rule);
    let client = NamedClient { name: format!("{}, {}", origin.name, origin.keys), address };
    check_file(&client, file);
    check_range(&client, file, origin.has_ranges);
    check_large_field(&client);
    let stored = format!("/app/stored-{number}");
    for content in [&file[..3_000_000], &file[7..]] {
        check_upload(&client, &stored, content);
    }
    assert!(server.stop().success());
}

/// A client of all versions, and what it is named in messages.
struct NamedClient {
    name: String,
    address: SocketAddr,
}

impl NamedClient {
    fn send(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<WholeReply> {
        let got = over_all(self.address, method, path, fields).into_iter();
        got.map(|got| got.unwrap_or_else(|| panic!("{}: {path} breaks off", self.name))).collect()
    }
}

fn check_file(client: &NamedClient, file: &[u8]) {
    let (name, path) = (&client.name, "/app/file.bin");
    let mut modified = String::new();
    for (status, fields, body) in client.send("GET", path, &[]) {
        assert!(status == 200 && body == file, "{name}: {status}, other bytes");
        assert_eq!(value(&fields, "content-length"), Some("5000000"), "{name}");
        modified = value(&fields, "last-modified").unwrap().to_owned();
    }
    for (status, fields, body) in client.send("HEAD", path, &[]) {
        assert_eq!((status, body.len()), (200, 0), "{name}");
        assert_eq!(value(&fields, "content-length"), Some("5000000"), "{name}");
    }
    for (status, _, body) in client.send("GET", path, &[("if-modified-since", &modified)]) {
        assert_eq!((status, body.len()), (304, 0), "{name}");
    }
}

fn check_range(client: &NamedClient, file: &[u8], has_ranges: bool) {
    let name = &client.name;
    let (expected, range) = match has_ranges {
        true => (206, 100..200_000),
        false => (200, 0..file.len()),
    };
    for (status, fields, body) in
        client.send("GET", "/app/file.bin", &[("range", "bytes=100-199999")])
    {
        assert!(status == expected && body == file[range.clone()], "{name}: {status}, other bytes");
        let content_range = has_ranges.then_some("bytes 100-199999/5000000");
        assert_eq!(value(&fields, "content-range"), content_range, "{name}");
    }
}

fn check_large_field(client: &NamedClient) {
    let large = "x".repeat(FIELD_BYTES);
    for (status, fields, body) in client.send("GET", "/app/large-field", &[("x-large", &large)]) {
        assert_eq!((status, body.as_slice()), (200, large.as_bytes()), "{}", client.name);
        assert_eq!(value(&fields, "x-large"), Some(large.as_str()), "{}", client.name);
    }
}

fn check_upload(client: &NamedClient, path: &str, content: &[u8]) {
    let name = &client.name;
    for got in upload_over_all(client.address, "PUT", path, &[], content) {
        assert!(matches!(got, Some((201 | 204, _))), "{name}: {:?}", got.map(|got| got.0));
    }
    let got = client.send("GET", path, &[]);
    assert!(got.iter().all(|got| got.2 == content), "{name}: other bytes");
}
