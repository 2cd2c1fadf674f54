//! Command line of `claim-load`.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use command_line::Program;

pub const PROGRAM: Program = Program("claim-load");

/// Load of claims on a store of path state, and a check of what it granted
#[derive(Debug, Parser)]
#[command(name = "claim-load", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Claim from a store as the connections of an edge-server do, and print a JSON line for each
    /// claim that is granted or ends
    ///
    /// Times are of the machine's monotonic clock, which its containers share.
    Run(RunArgs),

    /// Check in the records of all nodes that no two claims of an endpoint were live at a time
    ///
    /// A claim lives from its grant to its release, or to its time-out. Two may be live if the store
    /// granted one before a failover and the other after it; others are an error.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Store, as in edge-server --store
    #[arg(long, value_name = "PATH|URL")]
    pub store: String,

    /// Name of this node in the record
    #[arg(long, value_name = "NAME")]
    pub node: String,

    /// New connections per second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,

    /// Number of endpoints that all nodes claim
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub endpoints: u32,

    /// End after this number of claims
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub claims: u64,

    /// End only when this file exists
    #[arg(long, value_name = "F")]
    pub until: Option<PathBuf>,

    /// Seed of endpoints and times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Records of claim-load run
    #[arg(value_name = "RECORD", required = true)]
    pub records: Vec<PathBuf>,

    /// When another server of the store became the primary, in UTC; more than once for several
    #[arg(long = "failover", value_name = "2026-01-31T23:59:59.123Z", value_parser = humantime::parse_rfc3339)]
    pub failovers: Vec<SystemTime>,
}
