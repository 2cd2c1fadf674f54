//! Configuration files that make no sense. What hosts are served is tested in memory:
//! `worker/tests/settings.rs`.

use std::fs;

use crate::support::certify::certify;
use crate::support::process::server_command;
use crate::support::process::Running;

#[test]
fn configuration_that_makes_no_sense_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    certify(dir.path(), "a");
    certify(dir.path(), "b");
    let config = dir.path().join("edge.toml");
    let config = config.to_str().unwrap();
    let table = [
        (
            "[[host]]\nindx = []",
            2,
            "edge.toml: line 2, column 1: [[host]] without names: there is no key 'indx'",
        ),
        ("[[host]\n", 2, "edge.toml: line 1"),
        (
            "[[host]]\nnames = ['a']\nroot = '/nonexistent'",
            2,
            "edge.toml: [[host]] a, line 1, column 1: cannot serve root = /nonexistent",
        ),
        ("[[host]]\nredirect = [{ from = 'a', to = '/' }]", 2, "line 2, column 13: redirect from 'a'"),
        ("[[host]]\nnames = ['a', 'a']", 2, "[[host]] a, line 1, column 1: two hosts"),
        (
            "[[host]]\nnames = ['a']\ncert = 'DIR/a.pem'\nkey = 'DIR/b.key'",
            2,
            "edge.toml: [[host]] a, line 1, column 1: key = DIR/b.key is not the key of cert = DIR/a.pem",
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
