//! Careful Resume as qlogs tell it, and the connections that have a qlog.

use std::fs;

use super::harness::Lab;
use super::harness::Server;

#[path = "../../../tests/process/support/phases.rs"]
mod phases;

pub use self::phases::events;
pub use self::phases::phases;
pub use self::phases::PhaseChange;

/// The only qlog in a folder of the test's.
#[track_caller]
pub fn only_qlog(lab: &Lab, folder: &str) -> String {
    let mut qlogs = fs::read_dir(lab.file(folder)).unwrap();
    let qlog = qlogs.next().expect("a qlog file").unwrap().path();
    assert!(qlogs.next().is_none(), "one connection, one file");
    fs::read_to_string(qlog).unwrap()
}

/// How many qlogs clients of these subnets leave.
fn new_logs(server: &Server, subnets: [u8; 3]) -> usize {
    let count = || fs::read_dir(server.lab().file("qlogs")).unwrap().count();
    let before = count();
    for subnet in subnets {
        server.client().from([127, 0, subnet, 9]).connect().close();
    }
    count() - before
}

#[test]
fn qlogs_are_of_the_subnets_that_a_reload_names() {
    let server = Server::start(&["--qlog-dir", "DIR/qlogs", "--qlog-rate", "0"]);
    assert_eq!(new_logs(&server, [1, 2, 2]), 0);
    for (args, logs) in [
        (&["--qlog-rate", "1"][..], 3),
        (&["--qlog-subnet", "127.0.2.0/24", "--qlog-subnet", "192.0.2.0/24"], 2),
        (&["--qlog-subnet", "127.0.1.0/24", "--qlog-rate", "0.0"], 0),
    ] {
        server.reload(&[&["--qlog-dir", "DIR/qlogs"], args].concat());
        assert_eq!(new_logs(&server, [1, 2, 2]), logs, "{args:?}");
    }
}

// In a packet of their own they would cost both ends a system call more.
#[test]
fn spare_connection_ids_come_with_first_packets() {
    let server = Server::start(&["--qlog-dir", "DIR/qlogs"]);
    server.connect().get("/");
    server.stop();
    server.end();
    let qlog = only_qlog(server.lab(), "qlogs");
    let mut sent = qlog.lines().filter(|line| line.contains(r#""name":"quic:packet_sent""#));
    let first = sent.find(|packet| packet.contains("new_connection_id")).unwrap();
    assert!(first.contains("handshake_done"), "{first}");
}
