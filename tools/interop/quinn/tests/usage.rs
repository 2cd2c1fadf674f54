//! Usage that the harness relies on beyond the cases themselves.

use std::process::Command;
use std::process::Output;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interop-quinn")).args(args).output().unwrap()
}

#[test]
fn a_case_must_be_named() {
    assert_eq!(run(&["https://127.0.0.1:1", "cert.pem", "objects.json"]).status.code(), Some(2));
}

#[test]
fn a_certificate_that_is_missing_is_named() {
    let output = run(&["https://127.0.0.1:1", "/nowhere/cert.pem", "objects.json", "small"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/cert.pem"));
}
