//! Compiles the server in C, with every warning an error. The example `resuming_server_c` is it.

fn main() {
    println!("cargo::rerun-if-changed=resuming_server.c");
    println!("cargo::rerun-if-changed=../quiche/include");

    cc::Build::new()
        .file("resuming_server.c")
        .include("../quiche/include")
        .std("c11")
        .define("_GNU_SOURCE", None)
        .define("main", "resuming_server")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("resuming_server_c");
}
