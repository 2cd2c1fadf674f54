//! Two nodes that claim from one store at a time, and the check of their records.

use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_claim-load"))
}

fn node(name: &str, store: &Path, record: &Path) -> Child {
    program()
        .args(["run", "--node", name, "--rate", "500", "--endpoints", "8", "--claims", "400"])
        .args(["--seed", if name == "a" { "1" } else { "2" }, "--store"])
        .arg(store)
        .stdout(File::create(record).unwrap())
        .spawn()
        .unwrap()
}

fn check(records: &[&Path]) -> (bool, String) {
    let output = program().arg("check").args(records).stderr(Stdio::piped()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn claims_of_two_nodes_do_not_overlap_on_one_store_and_do_on_two() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);

    for (stores, expected) in [(["one", "one"], true), (["this", "that"], false)] {
        let (a, b) = (path("a"), path("b"));
        let children = [node("a", &path(stores[0]), &a), node("b", &path(stores[1]), &b)];
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let (is_clean, report) = check(&[&a, &b]);
        assert_eq!(is_clean, expected, "{report}");
        assert!(report.contains(" 0 failed, 0 dropped"), "{report}");
    }
}
