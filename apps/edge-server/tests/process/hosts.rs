//! The configuration file: hosts by name, each with a certificate and rules of its
//! own.

use std::fs;

use crate::support::certify::certify;
use crate::support::client::Client;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

#[test]
fn each_host_has_its_certificate_its_folder_and_its_rules() {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("index.html"), name).unwrap();
        path
    };
    let (www, a, b) = (folder("www"), folder("a"), folder("b"));
    fs::write(a.join("gone.html"), "not at a").unwrap();
    let [of_a, of_b] = ["a.example", "b.example"].map(|name| certify(dir.path(), name));
    let toml = format!(
        r#"
        [[host]]
        header = [{{ path = "**", set = {{ cache-control = "max-age=60" }} }}]

        [[host]]
        names = ["a.example", "*.a.example"]
        root = "{a}"
        cert = "{dir}/a.example.pem"
        key = "{dir}/a.example.key"
        error = {{ 404 = "/gone.html" }}
        redirect = [{{ from = "/old", to = "https://b.example/" }}]

        [[host]]
        names = ["b.example"]
        root = "{b}"
        cert = "{dir}/b.example.pem"
        key = "{dir}/b.example.key"
        "#,
        a = a.display(),
        b = b.display(),
        dir = dir.path().display(),
    );
    let config = dir.path().join("edge.toml");
    fs::write(&config, toml).unwrap();
    let (_server, address) = serve(&www, &["--config", config.to_str().unwrap()]);

    let mut other = Vec::new();
    for (name, certificate, body) in [
        (Some("a.example"), Some(&of_a), "a"),
        (Some("x.A.example"), Some(&of_a), "a"),
        (Some("b.example"), Some(&of_b), "b"),
        (Some("c.example"), None, "www"),
        (None, None, "www"),
    ] {
        let mut client = Client::connect_to(name, address);
        match certificate {
            Some(expected) => assert!(client.certificate() == *expected, "{name:?}"),
            None => other.push(client.certificate()),
        }
        let stream = client.request_with(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", name.unwrap_or("127.0.0.1")),
            (":path", "/"),
        ]);
        let response = client.response(stream);
        assert_eq!(response.body, body.as_bytes(), "{name:?}");
        assert_eq!(response.headers["cache-control"], "max-age=60", "{name:?}");
    }
    assert!(other[0] == other[1] && other[0] != of_a && other[0] != of_b);

    let mut client = Client::connect_to(Some("a.example"), address);
    let mut get = |path: &str| {
        let stream = client.request_with(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a.example:4433"),
            (":path", path),
        ]);
        client.response(stream)
    };
    let missing = get("/missing");
    assert_eq!((missing.status(), missing.body.as_slice()), ("404", &b"not at a"[..]));
    assert_eq!(get("/old").headers["location"], "https://b.example/");
}

#[test]
fn a_configuration_that_makes_no_sense_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    certify(dir.path(), "a");
    certify(dir.path(), "b");
    let config = dir.path().join("edge.toml");
    let config = config.to_str().unwrap();
    let table = [
        ("[[host]]\nindx = []", 2, "edge.toml: line 2: unknown field `indx`"),
        ("[[host]\n", 2, "edge.toml: line 1"),
        ("[[host]]\nnames = ['a']\nroot = '/nonexistent'", 1, "root = /nonexistent"),
        ("[[host]]\nredirect = [{ from = 'a', to = '/' }]", 1, "redirect from 'a'"),
        ("[[host]]\nnames = ['a', 'a']", 1, "'a'"),
        (
            "[[host]]\nnames = ['a']\ncert = 'DIR/a.pem'\nkey = 'DIR/b.key'",
            1,
            "[[host]] a: key = DIR/b.key is not the key of cert = DIR/a.pem",
        ),
    ];
    for (toml, code, named) in table {
        fs::write(config, toml.replace("DIR", root)).unwrap();
        let args = ["--listen", "127.0.0.1:0", "--root", root, "--config", config];
        let (status, said) = Running::start(&mut server_command(&args)).end();
        assert_eq!(status.code(), Some(code), "{toml}: {said:?}");
        assert_eq!(said.len(), 1, "{toml}: {said:?}");
        assert!(said[0].contains(&named.replace("DIR", root)), "{toml}: {said:?}");
    }
}
