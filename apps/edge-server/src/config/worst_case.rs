//! Worst case of the process's memory, computed from the options for the documentation.

mod sum;

use std::fmt::Write;

use clap::Parser;

use crate::config::Cli;

const PAGE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/edge-server/security-and-limits.md");
const START: &str = "<!-- Written by `make options` from apps/edge-server/src/config. -->\n";
const END: &str = "<!-- End of the table. -->\n";

const WORKERS: u64 = 8;

fn table(cli: &Cli) -> String {
    let limits = &cli.limits;
    let rows = sum::rows(&sum::Options {
        file_cache_max: cli.file_cache_max,
        compression_cache_max: cli.compression_cache_max,
        cache_memory_max: cli.cache_memory_max,
        connections_max: limits.connections_max.into(),
        responses_memory_max: limits.responses_memory_max,
        requests_memory_max: limits.requests_memory_max,
        workers: WORKERS,
        store_entries: cli.store_entries.into(),
    });
    let mut table = "\n| what | option | at most, with the defaults |\n|---|---|---|\n".to_owned();
    let megabytes = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
    for sum::Row { what, options, bytes } in &rows {
        writeln!(table, "| {what} | {options} | {} |", megabytes(*bytes)).unwrap();
    }
    let sum = rows.iter().map(|row| row.bytes).sum();
    writeln!(table, "| **all** | | **{}** |\n", megabytes(sum)).unwrap();
    table
}

#[test]
fn worst_case_on_the_page_follows_from_the_options() {
    let cli = Cli::parse_from(["edge-server", "--listen", "[::]:443", "--root", "."]);
    let table = table(&cli);
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(START).expect("the page has a place for the table");
    let (written, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("UPDATE_OPTIONS").is_some() {
        return std::fs::write(PAGE, [before, START, &table, END, after].concat()).unwrap();
    }
    assert!(written == table, "the worst case of {PAGE} is not current; run make options");
}
