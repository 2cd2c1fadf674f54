//! Encrypted Client Hello, over QUIC and TCP: keys made by the command, rotated, and unknown ones.

use std::fs;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use boring::base64;
use boring::ssl::HandshakeError;
use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;

use crate::support::certify::certify;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;

const SECRET: &str = "secret.example";
const PUBLIC: &str = "public.example";

/// Makes a key in a file of this name. Returns what DNS is to have.
fn make_key(dir: &Path, name: &str) -> String {
    let file = dir.join(name);
    let args = ["ech-keys", file.to_str().unwrap()];
    let made = server_command(&args).args(["--public-name", PUBLIC]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = server_command(&args).output().unwrap();
    assert_eq!(shown.stdout, made.stdout);
    let said = String::from_utf8(made.stdout).unwrap();
    said.trim_end().strip_prefix("ech=").unwrap().to_owned()
}

/// What a client that uses a configuration meets.
#[derive(Debug, PartialEq, Eq)]
enum EchOutcome {
    Accepted,

    /// The server offers this configuration.
    Rejected(String),
}

/// Connects over TCP. Returns the server's certificate as well, in DER form.
fn over_tcp(server: SocketAddr, config: &str) -> (EchOutcome, Vec<u8>) {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    let mut configuration = connector.build().configure().unwrap();
    configuration.set_verify_hostname(false);
    configuration.set_ech_config_list(&base64::decode_block(config).unwrap()).unwrap();
    let certificate = |ssl: &boring::ssl::SslRef| ssl.peer_certificate().unwrap().to_der().unwrap();
    match configuration.connect(SECRET, TcpStream::connect(server).unwrap()) {
        Ok(stream) => {
            assert!(stream.ssl().ech_accepted());
            (EchOutcome::Accepted, certificate(stream.ssl()))
        }
        Err(HandshakeError::Failure(failed)) => {
            let offered = base64::encode_block(failed.ssl().get_ech_retry_configs().unwrap());
            (EchOutcome::Rejected(offered), certificate(failed.ssl()))
        }
        Err(e) => panic!("{e:?}"),
    }
}

fn over_quic(server: SocketAddr, config: &str) -> EchOutcome {
    let mut client = Command::new(sibling("edge-client"));
    let url = format!("https://{SECRET}:{}/", server.port());
    client.args([&url, "--insecure", "--connect", &server.to_string(), "--ech", config]);
    let output = client.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.success() {
        true => EchOutcome::Accepted,
        false => {
            assert_eq!(said.lines().count(), 1, "{said}");
            EchOutcome::Rejected(said.trim_end().rsplit(' ').next().unwrap().to_owned())
        }
    }
}

#[test]
fn server_reads_encrypted_names_and_offers_its_newest_key() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("www")).unwrap();
    fs::write(dir.path().join("www/index.html"), "home").unwrap();
    let [secret, public] = [SECRET, PUBLIC].map(|name| certify(dir.path(), name));
    let path = |name: &str| dir.path().join(name).display().to_string();
    let host = |name: &str| {
        let [cert, key] = ["pem", "key"].map(|kind| path(&format!("{name}.{kind}")));
        format!("[[host]]\nnames = ['{name}']\ncert = '{cert}'\nkey = '{key}'\n")
    };
    let config = path("edge.toml");
    let configure = |keys: &[&str]| {
        let keys: Vec<_> = keys.iter().map(|name| format!("'{}'", path(name))).collect();
        let server = format!("[server]\nech-keys = [{}]\n", keys.join(", "));
        fs::write(&config, server + &host(SECRET) + &host(PUBLIC)).unwrap();
    };
    let [one, two, three] = ["one", "two", "three"].map(|name| make_key(dir.path(), name));
    configure(&["two", "one"]);
    let root = path("www");
    let args = ["--listen", "127.0.0.1:0", "--root", &root, "--config", &config];
    let mut server = Running::start(&mut server_command(&args));
    let address = server.address();
    let check = |config: &str, expected: EchOutcome| {
        let certificate = if expected == EchOutcome::Accepted { &secret } else { &public };
        let (outcome, got) = over_tcp(address, config);
        assert_eq!((&outcome, &got), (&expected, certificate));
        assert_eq!(over_quic(address, config), expected);
    };
    check(&two, EchOutcome::Accepted);
    check(&one, EchOutcome::Accepted);
    check(&three, EchOutcome::Rejected(two.clone()));
    configure(&["three", "two"]);
    server.ask_to_reload();
    server.wait_for("reloaded");
    check(&three, EchOutcome::Accepted);
    check(&one, EchOutcome::Rejected(three.clone()));
    assert_eq!(server.count("public name"), 0);
    assert!(server.stop().success());
}

#[test]
fn unusable_key_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    let file = file.to_str().unwrap();
    make_key(dir.path(), "key");
    let www = dir.path().join("www");
    fs::create_dir(&www).unwrap();
    let root = www.to_str().unwrap();
    let serve = ["--listen", "127.0.0.1:0", "--root", root, "--check", "--ech-keys"];
    let cert = dir.path().join("cert");
    certify(dir.path(), "cert");
    let cert = format!("{}.pem", cert.display());
    for (args, code, named) in [
        (&["ech-keys", file, "--public-name", PUBLIC][..], 1, "is there already; name another"),
        (
            &["ech-keys", "/nonexistent/key", "--public-name", PUBLIC],
            1,
            "its folder does not exist",
        ),
        (&["ech-keys", "/nonexistent/key"], 1, "make it with --public-name"),
        (&["ech-keys", "/nonexistent/key", "--public-name", "a b"], 1, "'a b' is no host name"),
        (&["ech-keys", "/"], 1, "name a file that this user may read"),
        (&["ech-keys"], 2, "<FILE>"),
        (&[&serve[..], &[&cert]].concat(), 2, "holds no X25519 private key"),
        (&[&serve[..], &["/nonexistent"]].concat(), 2, "cannot read --ech-keys /nonexistent: No"),
        (&[&serve[..], &["/"]].concat(), 2, "name a readable file"),
    ] {
        let output = server_command(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?} {said}");
        assert!(said.contains(named) && said.lines().count() == 1, "{args:?} {said}");
    }
    // The public name has no certificate but the self-signed one, of other names, and clients get the
    // key.
    let root = ["--root", dir.path().to_str().unwrap()];
    let args = [&serve[..2], &root, &serve[4..], &[file]].concat();
    let output = server_command(&args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--ech-keys") && said.contains("download"), "{said}");
    assert!(
        output.status.success() && said.contains("no certificate for public.example"),
        "{said}"
    );
}
