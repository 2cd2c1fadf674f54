//! The command line.

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use command_line::Program;
use std::path::PathBuf;

pub const PROGRAM: Program = Program("same-packets");

/// Compare the fork's datagrams with the release's
#[derive(Debug, Parser)]
#[command(name = "same-packets", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the names of the scenarios
    List,

    /// Print every datagram of one side
    Trace {
        #[arg(long)]
        side: Side,

        /// Print the crate's log as well: it has each frame
        #[arg(long)]
        frames: bool,
        scenario: String,
    },

    /// Print a hash of the fork's trace of each scenario
    Digest(Choice),

    /// Compare both sides, and the release with itself
    Compare {
        #[command(flatten)]
        choice: Choice,
        #[command(flatten)]
        table: Table,

        /// File with the hashes of the release's traces, of the same tool: written, and read by
        /// later comparisons, which then do not run the release again
        #[arg(long, value_name = "FILE")]
        release: Option<PathBuf>,
    },

    /// Compare the table with the changes that were found patch by patch
    CheckTable {
        /// File with a patch and a scenario on each line
        changes: PathBuf,
        #[command(flatten)]
        choice: Choice,
        #[command(flatten)]
        table: Table,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    Release,
    Fork,
}

/// Choice of scenarios.
#[derive(Clone, Debug, Args)]
pub struct Choice {
    /// A scenario, instead of all that have a name; a random one is random-SEED. May be repeated
    #[arg(long = "scenario", value_name = "NAME")]
    pub scenarios: Vec<String>,

    /// Number of random scenarios, beside the others
    #[arg(long, value_name = "COUNT", default_value = "0")]
    pub random: u64,

    /// Seed of the first random scenario
    #[arg(long, value_name = "SEED", default_value = "1")]
    pub seed: u64,
}

/// Table of the scenarios that may differ, and must.
#[derive(Clone, Debug, Args)]
pub struct Table {
    /// Page with the table
    #[arg(long, value_name = "FILE", requires = "series")]
    pub exceptions: Option<PathBuf>,

    /// List of all patches
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,

    /// Number of patches that the fork has [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub applied: Option<usize>,
}
