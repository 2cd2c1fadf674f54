//! Compiles the C program of the tests, with every warning an error.

fn main() {
    const FILES: [&str; 5] = ["cases.c", "additions.c", "options.c", "pair.c", "testbed.c"];

    println!("cargo::rerun-if-changed=tests/program");
    println!("cargo::rerun-if-changed=../../quiche/include");

    cc::Build::new()
        .files(FILES.map(|file| format!("tests/program/{file}")))
        .include("../../quiche/include")
        .std("c99")
        .define("_POSIX_C_SOURCE", "200809L")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("c_api_program");
}
