//! The server on tokio-quiche over a GEO path: the second download jumps if tokio-quiche paces, and
//! never if it does not.

mod service;

use std::process::Command;

use service::tokio_quiche_server;
use service::Service;
use service::CERT;
use service::KEY;

/// Downloads once. Returns the server's lines up to the end of the connection.
fn download(service: &Service) -> Vec<String> {
    service.download();
    service.server.lines_to("closed, ")
}

#[test]
fn second_download_jumps_without_loss() {
    let service = Service::start(tokio_quiche_server);
    let first = download(&service);
    assert_eq!(first[0], "Normal, Some(NoSavedSet)");

    let second = download(&service);
    let phases: Vec<_> =
        second.iter().filter_map(|line| line.split_once(", ")).map(|(phase, _)| phase).collect();
    let expected = ["Reconnaissance", "Unvalidated", "Validating", "Normal", "closed"];
    assert_eq!(phases, expected, "{second:?}");
    assert!(second[3].ends_with("Some(LastUnvalidatedPacketAcknowledged)"), "{second:?}");
    assert!(second[4].starts_with("closed, 0 packets lost, saved Some("), "{second:?}");
}

#[test]
fn unpaced_server_neither_jumps_nor_saves() {
    let service = Service::start(|folder, store| {
        let mut command = tokio_quiche_server(folder, store);
        command.arg("--unpaced");
        command
    });
    for visit in [1, 2] {
        let lines = download(&service);
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("Normal, Some(NotPaced)"), "{visit}: {lines:?}");
        assert!(!has("Unvalidated"), "{visit}: {lines:?}");
        assert!(has("saved None"), "{visit}: {lines:?}");
        // The log of the process has it once.
        assert_eq!(has("packets leave long before their release times"), visit == 1);
    }
}

#[test]
fn unreadable_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (cert, key) in [("no-such.crt", KEY), (CERT, "no-such.key")] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tokio-quiche-server"));
        server.arg("127.0.0.1:0").arg(folder.path()).arg(folder.path().join("paths.db"));
        let done = server.args([cert, key]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.starts_with(&format!("error: {cert} and {key}: ")), "{said}");
        assert_eq!((said.lines().count(), done.status.code()), (1, Some(1)), "{said}");
    }
}
