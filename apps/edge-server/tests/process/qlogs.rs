//! Which connections have a qlog.

use std::fs;
use std::net::Ipv4Addr;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::process::serve;

#[test]
fn some_subnets_have_qlogs_and_a_reload_changes_which() {
    let dir = tempfile::tempdir().unwrap();
    let (qlogs, config) = (dir.path().join("qlogs"), dir.path().join("edge.toml"));
    fs::write(&config, "[server]\nqlog-rate = 0\n").unwrap();
    let args = ["--qlog-dir", qlogs.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let new_logs = |from: [Ipv4Addr; 3]| {
        let count = || fs::read_dir(&qlogs).unwrap().count();
        let before = count();
        let connect = |from| Client::connect_from(from, address, Limits::default());
        from.map(connect).iter_mut().for_each(Client::close);
        count() - before
    };
    let clients = [1, 2, 2].map(|subnet| Ipv4Addr::new(127, 0, subnet, 9));
    assert_eq!(new_logs(clients), 0);
    for (toml, logs) in [
        ("qlog-rate = 1", 3),
        ("qlog-subnet = ['127.0.2.0/24', '192.0.2.0/24']", 2),
        ("qlog-subnet = ['127.0.1.0/24']\nqlog-rate = 0.0", 0),
    ] {
        fs::write(&config, format!("[server]\n{toml}\n")).unwrap();
        let before = server.count("reloaded");
        server.ask_to_reload();
        server.wait_for_another("reloaded", before);
        assert_eq!(new_logs(clients), logs, "{toml}");
    }
    assert_eq!(server.count("until a restart"), 0);
    assert!(server.stop().success());
}
