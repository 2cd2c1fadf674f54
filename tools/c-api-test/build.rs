//! Compiles the C program of the tests, with every warning an error.

fn main() {
    const FILES: [&str; 3] =
        ["tests/program/cases.c", "tests/program/additions.c", "tests/program/testbed.c"];

    println!("cargo::rerun-if-changed=tests/program");
    println!("cargo::rerun-if-changed=../../quiche/include");

    cc::Build::new()
        .files(FILES)
        .include("../../quiche/include")
        .std("c99")
        .define("_POSIX_C_SOURCE", "200809L")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("c_api_program");
}
