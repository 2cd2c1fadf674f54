//! Worst case of the process's memory, computed from the options for the documentation.

use std::fmt::Write;

use clap::Parser;

use crate::config::Cli;

const PAGE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/edge-server/security-and-limits.md");
const START: &str = "<!-- Written by `make options` from apps/edge-server/src/config. -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// A connection whose client acknowledges nothing: its state, and records of packets that only
/// acknowledge the client's, as tests/hostile_input/without_acks.rs measures them.
const CONNECTION_BYTES: u64 = 250_000;

/// Part of the connections that there may be beyond the limit, while their handshakes are under way:
/// `admission/connection_limits.rs`.
const SURPLUS_DIVISOR: u64 = 8;

/// Records of the packets that carry a thousand bytes of responses.
const RECORDS_PER_1000_BYTES: u64 = 400;

/// What is not measured yet: `connection/kept.rs`.
const UNMEASURED_BYTES: u64 = 16 << 10;
const UNMEASURED_DIVISOR: u64 = 16;

/// Used tokens, socket buffers, queues.
const WORKER_BYTES: u64 = 32_000_000;

/// An entry of a store in memory.
const ENTRY_BYTES: u64 = 500;

const WORKERS: u64 = 8;

/// One row of the table.
struct Row {
    what: &'static str,
    options: &'static str,
    bytes: u64,
}

fn rows(cli: &Cli) -> Vec<Row> {
    let limits = &cli.limits;
    let connections = u64::from(limits.connections_max);
    let connections = connections + connections.div_ceil(SURPLUS_DIVISOR);
    let counted = limits.responses_memory_max;
    let responses = counted + counted / UNMEASURED_DIVISOR;
    let counted = limits.requests_memory_max;
    let requests = counted + counted / UNMEASURED_DIVISOR;
    vec![
        Row {
            what: "connections, and an eighth more with handshakes under way, 250 kB each if the client acknowledges nothing",
            options: "`--connections-max`",
            bytes: connections * CONNECTION_BYTES,
        },
        Row {
            what: "response data, a sixteenth that is not counted yet, and 400 bytes of records for each 1000",
            options: "`--responses-memory-max`",
            bytes: responses + responses / 1000 * RECORDS_PER_1000_BYTES,
        },
        Row {
            what: "request data, a sixteenth that is not counted yet, in buffers that double",
            options: "`--requests-memory-max`",
            bytes: 2 * requests,
        },
        Row {
            what: "other data that is not counted yet, 16 KiB for each connection",
            options: "`--connections-max`",
            bytes: connections * UNMEASURED_BYTES,
        },
        Row {
            what: "8 workers, 32 MB each",
            options: "`--workers`",
            bytes: WORKERS * WORKER_BYTES,
        },
        Row {
            what: "saved path state in memory, 500 bytes a subnet",
            options: "`--store-entries`",
            bytes: u64::from(cli.store_entries) * ENTRY_BYTES,
        },
    ]
}

fn table(cli: &Cli) -> String {
    let rows = rows(cli);
    let mut table = "\n| what | option | at most, with the defaults |\n|---|---|---|\n".to_owned();
    let megabytes = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
    for Row { what, options, bytes } in &rows {
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
