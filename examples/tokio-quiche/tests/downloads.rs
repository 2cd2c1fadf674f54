//! The server on tokio-quiche over a GEO path: the second download jumps if tokio-quiche paces, and
//! never if it does not.

mod service;

use service::tokio_quiche_server;
use service::Service;

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
