//! Client of edge-server with quinn and h3: runs the named cases, and prints the result of
//! each as a line of JSON. See tools/interop/README.md.

mod cases;
mod client;
mod tls;

use std::path::PathBuf;

use clap::Parser;
use http::Uri;
use serde_json::json;

/// What every client of the test is told.
#[derive(Parser)]
struct Cli {
    /// The server: https://ADDRESS:PORT
    url: Uri,
    /// Its certificate, PEM
    certificate: PathBuf,
    /// The SHA-256 of each object by its path, JSON
    objects: PathBuf,
    /// What to try
    #[arg(required = true)]
    cases: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let server = client::Server::new(&cli.url, &cli.certificate)?;
    let objects = cases::Objects::read(&cli.objects)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for case in &cli.cases {
        let outcome = runtime.block_on(cases::run(case, &server, &objects));
        let ok = outcome.is_ok();
        let detail = outcome.unwrap_or_else(|e| format!("{e:#}"));
        println!("{}", json!({ "case": case, "ok": ok, "detail": detail }));
    }
    Ok(())
}
