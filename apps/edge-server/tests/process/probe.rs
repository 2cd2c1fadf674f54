//! Health checks by the program itself: `edge-server probe`.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::UdpSocket;
use std::thread;

use crate::support::certify::certify;
use crate::support::process::serve;
use crate::support::process::server_command;

/// Runs a probe. Returns its exit code, what it prints and what it says.
fn probe(args: &[&str], authorities: &str) -> (i32, String, String) {
    let mut command = server_command(&[&["probe"], args].concat());
    let output = command.env("SSL_CERT_FILE", authorities).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn probe_tells_by_its_exit_code_whether_a_server_responds() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    certify(dir.path(), "www.example.org");
    certify(dir.path(), "another");
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (file("www.example.org.pem"), file("www.example.org.key"));
    let another = file("another.pem");
    let args = ["--cert", &cert, "--key", &key, "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &args);
    let metrics = format!("http://{}", server.metrics_address());
    let connect = address.to_string();
    let by_address = format!("https://{address}");
    let here = ["--connect", &connect];
    let one = |url: &str, more: &[&str], authorities: &str| {
        let mut words = vec![url];
        words.extend(more);
        probe(&words, authorities)
    };
    for (url, more, authorities, code, text) in [
        (format!("{metrics}/readyz"), &[][..], "", 0, "200\n"),
        (format!("{metrics}/none"), &[], "", 1, "status 404"),
        (format!("{by_address}/"), &["--insecure"], "", 0, "200\n"),
        (format!("{by_address}/none"), &["--insecure"], "", 1, "status 404"),
        (format!("{by_address}/"), &[], &cert, 1, "certificates are for names"),
        ("https://www.example.org/".into(), &here, &cert, 0, "200\n"),
        ("https://other.example.org/".into(), &here, &cert, 1, "is not for this name"),
        ("https://www.example.org/".into(), &here, &another, 1, "of an unknown authority"),
        ("https://www.example.org/".into(), &here, "/none", 1, "cannot read /none"),
        ("ftp://www.example.org/".into(), &[], "", 2, "write it as https://"),
        ("www.example.org".into(), &[], "", 2, "write it as https://"),
        ("http://127.0.0.1:91000/".into(), &[], "", 2, "the port is a number from 1 to 65535"),
        ("https://127.0.0.1:0/".into(), &[], "", 2, "the port is a number from 1 to 65535"),
        ("http://[::1]:/".into(), &[], "", 2, "the port is a number from 1 to 65535"),
    ] {
        let (found, printed, said) = one(&url, more, authorities);
        let shown = [printed, said.clone()].concat();
        assert!(found == code && shown.contains(text), "{url}: {found}, {shown}");
        assert!(said.lines().count() <= 1, "{said}");
    }
    assert!(server.stop().success());
    for url in [format!("{metrics}/readyz"), format!("{by_address}/")] {
        let (code, _, said) = one(&url, &["--insecure"], "");
        assert!(code == 1 && said.contains("nobody listens there"), "{said}");
    }
}

#[test]
fn probe_waits_for_the_final_response_over_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    for (response, code, text) in [
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 X\r\n\r\n", 1, "status 503"),
        ("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.0 204\r\n\r\n", 0, "204"),
        ("HTTP/1.1 100 Continue\r\n\r\n", 1, "without a response"),
        ("HTTP/1.1 000 X\r\n\r\n", 1, "no HTTP/1.1"),
        ("HTTP/1.1 2000 X\r\n\r\n", 1, "no HTTP/1.1"),
        ("SSH-2.0-x\r\n", 1, "no HTTP/1.1"),
    ] {
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1000]).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
            });
            let (found, printed, said) = probe(&[&url], "");
            let shown = [printed, said].concat();
            assert!(found == code && shown.contains(text), "{response}: {found}, {shown}");
        });
    }
}

#[test]
fn probe_of_a_silent_server_ends_in_time() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for url in [
        format!("http://{}/", tcp.local_addr().unwrap()),
        format!("https://{}/", udp.local_addr().unwrap()),
    ] {
        let (code, _, said) = probe(&[&url, "--insecure", "--timeout", "1"], "");
        assert!(code == 1 && said.contains("no response in time"), "{said}");
    }
}
