//! Command line of `path-store`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use command_line::parse_share;
use command_line::Stop;
use path_store::RedisUrl;
use path_store::CAPACITY_DEFAULT;

use crate::selector::Selector;

/// Lines of at most 58 columns, which a narrow terminal does not wrap.
const EXAMPLES: &str = r"Examples:
  path-store --store /var/lib/edge/paths.db list
  path-store --store paths.db list --claimed
  path-store --store paths.db list --prefix 198.51.0.0/16
  path-store --store paths.db get 198.51.100.7
  path-store --store paths.db get 198.51.100.7 \
    --hash-keys /etc/edge/hash-keys
  path-store --store paths.db put 198.51.100.0/24 \
    --sender 192.0.2.1 --cwnd 3125000 --rtt 50
  path-store --store paths.db delete 2001:db8:1::/48
  path-store --store paths.db --json list | jq .saved_cwnd
  path-store --store paths.db export |
    path-store --store redis://cache import
  path-store --store redis://cache watch
  path-store gain --share 0.9 /var/log/edge/access.log

Exit codes: 0 done, 1 failed, 2 bad usage.";

/// Viewer and editor of the store in which edge-server saves path state; tells what
/// Careful Resume gains
///
/// Works while servers use the store. gain reads access logs and needs no store.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Cli {
    /// Store: the path of a file, or redis://HOST, as in edge-server --store
    #[arg(long, value_name = "PATH|URL")]
    pub store: Option<String>,

    /// Maximum number of client subnets, as in edge-server --store-entries; limits put and
    /// import, and stats shows it
    #[arg(long, global = true, value_name = "N", default_value_t = CAPACITY_DEFAULT as u32,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub store_entries: u32,

    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub json: bool,

    /// File of keys with which servers hash client subnets, to find one by its address
    #[arg(long, global = true, value_name = "F")]
    pub hash_keys: Option<PathBuf>,

    #[command(subcommand)]
    pub command: Command,
}

/// Filter of entries; without any, all.
#[derive(Clone, Debug, Default, Args)]
pub struct Filter {
    /// Only entries within this client prefix, or those that contain this client address
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<Selector>,

    /// Only entries of this sending address or path group
    #[arg(long, value_name = "NAME")]
    pub sender: Option<String>,

    /// Only entries with this DSCP
    #[arg(long, value_name = "DSCP")]
    pub dscp: Option<u8>,

    /// Only entries that a connection has claimed
    #[arg(long)]
    pub claimed: bool,

    /// Only entries with a hold-off after a retreat
    #[arg(long)]
    pub held_off: bool,
}

/// Saved parameters to keep.
#[derive(Clone, Debug, Args)]
pub struct Put {
    /// Client prefix, such as 198.51.100.0/24
    #[arg(value_name = "PREFIX")]
    pub prefix: Selector,

    /// Sending address or path group
    #[arg(long, value_name = "NAME")]
    pub sender: String,

    /// DSCP, if the servers use --path-dscp
    #[arg(long, value_name = "DSCP", value_parser = clap::value_parser!(u8).range(..=63))]
    pub dscp: Option<u8>,

    /// saved_cwnd: what the path carries in one RTT, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub cwnd: u64,

    /// saved_rtt, in milliseconds
    #[arg(long, value_name = "MS", value_parser = rtt)]
    pub rtt: Duration,

    /// How long the parameters may be used, for example 1h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
    pub lifetime: Duration,
}

/// Access logs to evaluate.
#[derive(Clone, Debug, Args)]
pub struct GainArgs {
    /// Access logs of edge-server, in either format; - is standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,

    /// Share of clients that may jump, as in edge-server --resume-share, to check the arms by
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub share: Option<f64>,

    /// Seed of the confidence intervals: the same logs and seed give the same output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Draw the gain and its confidence intervals to this file, as SVG
    #[arg(long, value_name = "F")]
    pub plot: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    OfStore(StoreCommand),

    /// Compare times to the last byte of clients that may jump with those of the control
    /// group, from access logs of edge-server --resume-share
    Gain(GainArgs),
}

/// Command on a store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show entries
    List(Filter),

    /// Show the entries of a client prefix
    Get {
        /// Client prefix, for all entries within it, or a client address
        #[arg(value_name = "PREFIX")]
        prefix: Selector,
    },

    /// Save parameters, as if a connection had observed them now
    Put(Put),

    /// Delete the entries of a client prefix, with their claims and hold-offs
    Delete {
        /// Client prefix, for all entries within it, or a client address
        #[arg(value_name = "PREFIX")]
        prefix: Selector,
    },

    /// Delete every entry, with all claims and hold-offs
    Flush,

    /// Show the number, age and size of entries, and how often servers' reads and claims
    /// succeeded
    Stats,

    /// Write every entry to standard output, one JSON object per line
    Export,

    /// Save the entries of an export, read from standard input; skip those that have
    /// expired, or of which the store has a better observation
    Import,

    /// Show changes as they happen, until interrupted
    Watch {
        /// Interval between two looks, for example 1s
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
        interval: Duration,
    },
}

/// Longer, no client waits for an answer.
const RTT_MAX: Duration = Duration::from_secs(60);

/// Parameters that are older say nothing about a path.
const LIFETIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// More often, nobody can read it.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

fn rtt(text: &str) -> Result<Duration, String> {
    let ms = text.parse::<f64>().ok();
    let rtt = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok());
    rtt.filter(|rtt| !rtt.is_zero() && *rtt <= RTT_MAX)
        .ok_or_else(|| "expected milliseconds, such as 50; at most 60000".to_string())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = humantime::parse_duration(text).ok();
    lifetime
        .filter(|lifetime| !lifetime.is_zero() && *lifetime <= LIFETIME_MAX)
        .ok_or_else(|| "expected a time, such as 1h; at most 30days".to_string())
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).ok();
    interval
        .filter(|interval| *interval >= INTERVAL_MIN)
        .ok_or_else(|| "expected a time, such as 1s; at least 10ms".to_string())
}

impl Cli {
    /// Returns the store, which every command but gain needs.
    ///
    /// # Errors
    ///
    /// It is missing.
    pub fn store(&self) -> Result<&str, Stop> {
        let missing = "the store is missing: --store <PATH|URL>; see path-store --help";
        self.store.as_deref().ok_or_else(|| Stop::Usage(missing.to_string()))
    }

    /// Returns the name of the store for messages: an URL may hold a password.
    pub fn store_name(&self) -> String {
        let store = self.store.as_deref().unwrap_or_default();
        match RedisUrl::parse(store) {
            Some(Ok(url)) => url.name(),
            _ => store.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_a_narrow_terminal() {
        for line in EXAMPLES.lines() {
            assert!(line.chars().count() <= 58, "{line}");
        }
    }
}
