//! C and C++ headers: each compiles on its own, without warnings.

use std::process::Command;

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/include");

/// Returns the compiler that make and cargo use.
fn compiler(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_string())
}

fn assert_compiles(compiler: &str, language: &str, standards: &[&str]) {
    const HEADERS: [&str; 5] = [
        "quiche.h",
        "quiche_careful_resume.h",
        "quiche_slow_start.h",
        "quiche_options.h",
        "quiche_batch.h",
    ];
    for header in HEADERS {
        for standard in standards {
            let status = Command::new(compiler)
                .args(["-x", language, &format!("-std={standard}")])
                .args(["-D_POSIX_C_SOURCE=200809L", "-pedantic"])
                .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
                .arg(format!("{INCLUDE}/{header}"))
                .status()
                .unwrap();
            assert!(status.success(), "{header} as {standard}");
        }
    }
}

#[test]
fn headers_compile_as_c() {
    assert_compiles(&compiler("CC", "cc"), "c", &["c99", "c11", "c17"]);
}

#[test]
fn headers_compile_as_cplusplus() {
    assert_compiles(&compiler("CXX", "c++"), "c++", &["c++11", "c++17", "c++20"]);
}
