//! Hosts, certificates, limits and secrets, and what a reload changes.

use std::fs;

use super::client::Client;
use super::client::ResumptionData;
use super::codes::CONNECTION_REFUSED;
use super::harness::Lab;
use super::harness::Server;

const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Writes a certificate and its key for `name`. Returns the certificate, in DER form.
fn certify(lab: &Lab, name: &str) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    lab.write(&format!("{name}.pem"), made.cert.pem());
    lab.write(&format!("{name}.key"), made.signing_key.serialize_pem());
    made.cert.der().to_vec()
}

/// Writes the configuration file.
fn configure(lab: &Lab, toml: &str) {
    lab.write("edge.toml", lab.fill(toml));
}

fn get_of(client: &mut Client, host: &str, path: &str) -> super::client::ClientResponse {
    let stream = client.request_with(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", host),
        (":path", path),
    ]);
    client.response(stream)
}

#[test]
fn hosts_have_their_own_certificates_and_rules() {
    let lab = Lab::new();
    for (folder, file) in [("www", "index.html"), ("a", "index.html"), ("b", "index.html")] {
        lab.write(&format!("{folder}/{file}"), folder);
    }
    lab.write("a/gone.html", "not at a");
    let [of_a, of_b] = ["a.example", "b.example"].map(|name| certify(&lab, name));
    configure(
        &lab,
        r#"
        [[host]]
        header = [{ path = "**", set = { cache-control = "max-age=60" } }]

        [[host]]
        names = ["a.example", "*.a.example"]
        root = "DIR/a"
        cert = "DIR/a.example.pem"
        key = "DIR/a.example.key"
        error = { 404 = "/gone.html" }
        redirect = [{ from = "/old", to = "https://b.example/" }]

        [[host]]
        names = ["b.example"]
        root = "DIR/b"
        cert = "DIR/b.example.pem"
        key = "DIR/b.example.key"
        "#,
    );
    let server = lab.serve(&["--config", "DIR/edge.toml"]);

    let mut other = Vec::new();
    for (name, certificate, body) in [
        (Some("a.example"), Some(&of_a), "a"),
        (Some("x.A.example"), Some(&of_a), "a"),
        (Some("b.example"), Some(&of_b), "b"),
        (Some("c.example"), None, "www"),
        (None, None, "www"),
    ] {
        let mut client = server.client().named(name).connect();
        match certificate {
            Some(expected) => assert!(client.certificate() == *expected, "{name:?}"),
            None => other.push(client.certificate()),
        }
        let response = get_of(&mut client, name.unwrap_or("127.0.0.1"), "/");
        assert_eq!(response.body, body.as_bytes(), "{name:?}");
        assert_eq!(response.headers["cache-control"], "max-age=60", "{name:?}");
    }
    assert!(other[0] == other[1] && other[0] != of_a && other[0] != of_b);

    let mut client = server.client().named(Some("a.example")).connect();
    let missing = get_of(&mut client, "a.example:4433", "/missing");
    assert_eq!((missing.status(), missing.body.as_slice()), ("404", &b"not at a"[..]));
    let old = get_of(&mut client, "a.example:4433", "/old");
    assert_eq!(old.headers["location"], "https://b.example/");
}

/// The host `a.example` in a folder.
fn host(folder: &str) -> String {
    format!(
        "[[host]]\nnames = ['a.example']\nroot = 'DIR/{folder}'\n\
         cert = 'DIR/a.example.pem'\nkey = 'DIR/a.example.key'\n"
    )
}

fn home(client: &mut Client) -> String {
    String::from_utf8(get_of(client, "a.example", "/").body).unwrap()
}

/// A lab with two folders that each have another `index.html`.
fn two_folders() -> Lab {
    let lab = Lab::new();
    for folder in ["old", "new"] {
        lab.write(&format!("{folder}/index.html"), folder);
    }
    lab
}

#[test]
fn reload_changes_hosts_and_certificates() {
    const ARGS: [&str; 3] = ["--speedtest", "--config", "DIR/edge.toml"];
    let lab = two_folders();
    certify(&lab, "a.example");
    configure(&lab, &host("old"));
    let server = lab.serve(&ARGS);
    let mut before = server.client().named(Some("a.example")).connect();
    let old = before.certificate();
    assert_eq!(home(&mut before), "old");
    let download = before.request("GET", "/bytes/30000000");
    before.receive(download, 1);

    let new = certify(&lab, "a.example");
    configure(&lab, &host("new"));
    server.reload(&ARGS);
    assert_eq!(home(&mut before), "new", "on a connection that was there");
    assert_eq!(before.response(download).body.len(), 30_000_000);
    let mut client = server.client().named(Some("a.example")).connect();
    assert!(client.certificate() == new && new != old);
    assert_eq!(home(&mut client), "new");
}

// As deployments do that switch a link.
#[test]
fn reload_opens_a_folder_again() {
    const ARGS: [&str; 2] = ["--root", "DIR/old"];
    let lab = two_folders();
    let server = lab.serve(&ARGS);
    fs::rename(lab.file("old"), lab.file("gone")).unwrap();
    fs::rename(lab.file("new"), lab.file("old")).unwrap();
    assert_eq!(home(&mut server.connect()), "old");
    server.reload(&ARGS);
    assert_eq!(home(&mut server.connect()), "new");
}

#[test]
fn reload_changes_limits() {
    let server = Server::start(&[]);
    let mut inside = [server.connect(), server.connect()];
    server.reload(&["--connections-max", "2"]);
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);
    for client in &mut inside {
        assert_eq!(home(client), "home", "on a connection that was there");
    }
    server.reload(&["--connections-max", "3", "--retry-above", "0"]);
    assert_eq!(home(&mut server.connect()), "home");
    assert!(server.metric("edge_server_retries_total") > 0);
}

#[test]
fn reload_changes_connection_ids_of_new_clients() {
    const ARGS: [&str; 2] = ["--config", "DIR/edge.toml"];
    let table = |config_id: u8| {
        format!("[[quic-lb]]\nconfig-id = {config_id}\nserver-id = '0a'\nnonce-length = 12\n")
    };
    let lab = Lab::new();
    configure(&lab, "");
    let server = lab.serve(&ARGS);
    let mut clients = Vec::new();
    for (toml, first_octet) in
        [(String::new(), 0xf3), (table(2), 0x53), (table(0) + &table(2), 0x13)]
    {
        configure(&lab, &toml);
        server.reload(&ARGS);
        let client = server.connect();
        assert_eq!(client.destination_id()[0], first_octet);
        clients.push(client);
        clients.iter_mut().for_each(|client| assert_eq!(client.get("/").body, b"home"));
    }
}

/// A server with these secrets.
fn serve_with(lab: &Lab, secrets: &[&str]) -> Server {
    lab.write("secrets", secrets.join("\n"));
    lab.serve(&["--secrets", "DIR/secrets"])
}

#[test]
fn stateless_reset_tells_clients_of_a_killed_server() {
    for (started_with, learns) in [(&[ONE][..], true), (&[OTHER, ONE], true), (&[OTHER], false)] {
        let lab = Lab::new();
        let server = serve_with(&lab, &[ONE]);
        let mut client = server.connect();
        assert_eq!(client.get("/").body, b"home");
        server.kill();

        lab.write("secrets", started_with.join("\n"));
        lab.serve_at(server.address(), &["--secrets", "DIR/secrets"]);
        client.request("GET", "/");
        assert_eq!(client.is_reset(), learns, "{started_with:?}");
    }
}

#[test]
fn session_is_resumed_wherever_its_secret_is_known() {
    let lab = Lab::new();
    let mut first = serve_with(&lab, &[ONE]).connect();
    assert!(!first.is_resumed());
    let memory = ResumptionData { token: None, ..first.resumption_data() };
    for (secrets, resumes) in
        [(&[ONE][..], true), (&[OTHER, ONE], true), (&[ONE, OTHER], true), (&[OTHER], false)]
    {
        let server = serve_with(&lab, secrets);
        let mut client = server.client().with(&memory).connect();
        assert_eq!(client.is_resumed(), resumes, "{secrets:?}");
        assert_eq!(client.get("/").body, b"home");
    }
}

#[test]
fn session_of_a_server_without_a_file_is_its_own() {
    let lab = Lab::new();
    let [one, other] = [(); 2].map(|()| lab.serve(&[]));
    let memory = ResumptionData { token: None, ..one.connect().resumption_data() };
    assert!(one.client().with(&memory).connect().is_resumed());
    assert!(!other.client().with(&memory).connect().is_resumed());
}
