//! Configuration: the command line and the file that it names.

pub mod acme;
pub mod controller;
mod environment;
pub mod file;
mod file_errors;
mod foreign_writers;
mod heading;
pub mod host_map;
pub mod limits;
mod listen_addresses;
pub mod listener;
mod options;
#[cfg(test)]
mod options_page;
mod paths;
pub mod position;
pub mod preflight;
pub mod quic_lb;
pub mod subnets;
pub mod tls;
#[cfg(test)]
mod worst_case;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::Arg;
use clap::ArgMatches;
use clap::CommandFactory;
use clap::FromArgMatches;
use clap::Parser;
use clap::ValueEnum;
use command_line::one_line;
use command_line::parse_share;
use command_line::EcnMode;
use command_line::OnOff;
use command_line::Program;
use command_line::Stop;
use ipnet::IpNet;
use log::warn;
use path_store::StateKept;
use quiche::careful_resume::AfterJump;
use quiche::ecn::EcnConfig;
use quiche::slow_start::SlowStartExit;

use crate::config::acme::AcmeOptions;
use crate::config::controller::CongestionController;
use crate::config::file::ConfigFile;
use crate::config::file::Host;
use crate::config::heading::CONGESTION;
use crate::config::heading::CONTENT;
use crate::config::heading::PROCESS;
use crate::config::heading::RESUME;
use crate::config::heading::SECURITY;
use crate::config::heading::STORE;
use crate::config::heading::TELEMETRY;
use crate::config::limits::Limits;
use crate::config::listener::Listener;
use crate::config::options::Setting;
use crate::config::paths::Collision;
use crate::config::paths::OptionValues;
use crate::config::position::Position;
use crate::config::quic_lb::QuicLbConfig;
use crate::config::tls::TlsOptions;

/// Largest `--path-lifetime`, in seconds: 30 days.
const PATH_LIFETIME_MAX: i64 = 30 * 86_400;

/// Name of the program in its messages.
pub const PROGRAM: Program = Program("edge-server");

/// Largest number of workers, of all listeners: a byte of a connection ID names one.
pub const WORKERS_MAX: u16 = 256;

/// Options that the file cannot contain.
const NOT_IN_FILE: [&str; 2] = ["check", "config"];

/// Options that need another.
const NEEDS: [(&str, &str); 11] = [
    ("acme-external-account", "acme-dir"),
    ("acme-contact", "acme-dir"),
    ("acme-ca", "acme-dir"),
    ("acme-retry", "acme-dir"),
    ("cert", "key"),
    ("key", "cert"),
    ("cache-disk-max", "cache-dir"),
    ("qlog-rate", "qlog-dir"),
    ("qlog-subnet", "qlog-dir"),
    ("qlog-bytes-max", "qlog-dir"),
    ("qlog-files-max", "qlog-dir"),
];

/// Options of which a reload applies a change; most of them to new connections only.
pub const RELOADED: [&str; 46] = [
    "acme-external-account",
    "acme-dir",
    "acme-directory",
    "acme-contact",
    "acme-ca",
    "acme-retry",
    "root",
    "file-cache-max",
    "compression-cache-max",
    "cache-memory-max",
    "trusted-proxies",
    "speedtest",
    "cert",
    "key",
    "tls-min",
    "tls-groups",
    "client-ca",
    "ech-keys",
    "cc",
    "slow-start-exit",
    "resume-share",
    "resume-except",
    "after-jump",
    "early-jump",
    "max-jump",
    "path-lifetime",
    "pmtud",
    "ecn",
    "ecn-backoff",
    "early-data",
    "qlog-rate",
    "qlog-subnet",
    "connections-max",
    "connections-per-subnet",
    "handshakes-per-second",
    "retry-above",
    "handshake-timeout",
    "idle-timeout",
    "connection-time-max",
    "stall-timeout",
    "send-buffer-max",
    "responses-memory-max",
    "requests-memory-max",
    "open-files-max",
    "requests-max",
    "header-bytes-max",
];

const AFTER_HELP: &str = "\
SIGHUP reloads the configuration and certificates, and reopens the access log; SIGUSR1
only reopens the log. SIGTERM drains: clients finish what they have requested, for up to
--drain seconds. SIGINT closes every connection at once. A second SIGTERM or SIGINT ends
the process immediately. What connections observed of their paths is saved in every case
but the last.

edge-server admin PATH COMMAND commands a server with --admin PATH: reload, reopen,
rollback, drain, stop, log, connections and others; see edge-server admin --help.
edge-server ech-keys F --public-name NAME makes a key for --ech-keys.

RUST_LOG=debug logs what happens inside. Each option but --config and --check may also
be set in the configuration file. More: docs/edge-server/.

Exit codes: 0 stopped by a signal or a command, 1 failed, 2 bad usage or configuration.";

/// HTTP/3 file server with Careful Resume (RFC 9959).
///
/// Saves the capacity and RTT of the path to each client subnet; a later connection from
/// that subnet jumps to half the saved capacity instead of starting slowly.
#[derive(Debug, Parser)]
#[command(name = "edge-server", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// UDP address to listen on; may be repeated
    ///
    /// Port 0 picks a free port, which the server prints. [::]:443 serves IPv4 as well, unless
    /// net.ipv6.bindv6only is set. With ,cc=NAME after the port, connections there have that congestion
    /// controller in place of that of --cc; a reload applies its change.
    #[arg(long, required = true, value_name = "ADDR:PORT[,cc=NAME]", help_heading = PROCESS)]
    pub listen: Vec<Listener>,

    /// HTTP/1.1 and HTTP/2 over TCP, at the addresses of --listen
    ///
    /// Browsers come over TCP first, and learn from Alt-Svc that the server has HTTP/3. on serves them
    /// the same hosts and files, with the same certificates and limits, on threads of their own. off
    /// leaves the TCP ports to another server.
    #[arg(long, value_enum, value_name = "on|off", default_value = "on", help_heading = PROCESS)]
    pub tcp: OnOff,

    /// TCP address for plain HTTP, which is redirected to HTTPS; may be repeated
    ///
    /// Usually [::]:80. The redirect leads to the port of the first --listen. Needs --tcp on.
    #[arg(long, value_name = "ADDR:PORT", help_heading = PROCESS)]
    pub http: Vec<SocketAddr>,

    /// Number of event loops per --listen, each on its own thread [default: one per core]
    #[arg(long, value_name = "N", help_heading = PROCESS,
        value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    pub workers: Option<u16>,

    /// Folder to serve
    ///
    /// Hosts in the configuration file may name other folders.
    #[arg(long, value_name = "DIR", help_heading = CONTENT)]
    pub root: PathBuf,

    /// Memory for small files and for names that are not there, in bytes; 0 is none
    ///
    /// Files of up to 16 KiB stay in memory with what a response needs of them, and so do names that do
    /// not exist, and compressed siblings that do not. What a response tells may then be a second old; a
    /// reload forgets all.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, help_heading = CONTENT,
        value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub file_cache_max: u64,

    /// Memory for compressed variants of files, in bytes; 0 is none, and no compression
    ///
    /// A text file without a compressed sibling is compressed in the background when a client that
    /// accepts a coding first asks for it, and is sent compressed afterwards. Variants that responses still
    /// send may take as much again. A reload forgets all.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, help_heading = CONTENT,
        value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub compression_cache_max: u64,

    /// Memory for responses of origins, in bytes; 0 is none, and no cache
    ///
    /// Those of origins with a cache in the configuration file are kept. Responses that are still sent, or
    /// on their way, may take as much again. A reload keeps them.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, help_heading = CONTENT,
        value_parser = clap::value_parser!(u64).range(..=1 << 40))]
    pub cache_memory_max: u64,

    /// Folder for responses of origins, which survive a restart there
    ///
    /// One process at a time has it: after a hot restart the new one keeps responses in memory until the
    /// old one has ended.
    #[arg(long, value_name = "DIR", help_heading = CONTENT)]
    pub cache_dir: Option<PathBuf>,

    /// The most bytes in that folder
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 30, requires = "cache_dir",
        help_heading = CONTENT, value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 50))]
    pub cache_disk_max: u64,

    /// Where to save path state: a file, memory:, or redis://HOST
    ///
    /// A file is an SQLite database that all processes of a machine may share. memory: is lost when
    /// the process ends. redis://HOST is shared by machines; rediss:// is Redis over TLS and
    /// redis+cluster:// a Redis cluster.
    #[arg(long, value_name = "PATH|URL", default_value = "memory:", help_heading = STORE)]
    pub store: String,

    /// Where saved path state is kept: store, token or both [default: both with --secrets, else store]
    ///
    /// store keeps one per client subnet. token seals each client's own in the address-validation
    /// token for its next connection; the store keeps claims and retreats alone. both prefers a
    /// client's own, and takes the subnet's for clients that bring none. A client's own state is
    /// used within two hours, by servers with the same --secrets and --store.
    #[arg(long, value_enum, value_name = "NAME", hide_possible_values = true, help_heading = STORE)]
    pub state: Option<StateKept>,

    /// Maximum number of client subnets in the store
    ///
    /// When the store is full, the entries that expire first make room (in memory: those
    /// unused for longest). Give all servers that share a store the same value.
    #[arg(long, value_name = "N", default_value_t = path_store::CAPACITY_DEFAULT as u32,
        help_heading = STORE, value_parser = clap::value_parser!(u32).range(1..))]
    pub store_entries: u32,

    #[command(flatten)]
    pub tls: TlsOptions,

    #[command(flatten)]
    pub acme: AcmeOptions,

    /// Congestion controller
    ///
    /// bbr2 is the BBRv2 of upstream quiche, with Careful Resume. It ends its start by its own rules:
    /// --slow-start-exit and --after-jump soft do not concern it. A --listen may name another
    /// controller, and so may a host of the configuration file, which wins.
    #[arg(long, value_enum, value_name = "NAME", default_value = "cubic", help_heading = CONGESTION)]
    pub cc: CongestionController,

    /// Careful Resume and the pacing that it needs
    ///
    /// With off and --slow-start-exit hystart, congestion control is that of upstream quiche.
    #[arg(long, value_enum, value_name = "on|off", default_value = "on", help_heading = RESUME)]
    pub resume: OnOff,

    /// Share of clients whose connections may jump, from 0 to 1
    ///
    /// The others are a control group. Their connections start slowly, save what they observe, and
    /// log whether they could have jumped: `path-store gain` compares both groups. A client keeps
    /// its group as long as --secrets stay the same.
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse_share,
        help_heading = RESUME)]
    pub resume_share: f64,

    /// Client subnet without Careful Resume; may be repeated
    ///
    /// Connections from this subnet do not jump, and nothing that they observe is saved.
    #[arg(long, value_name = "CIDR", value_parser = parse_subnet, help_heading = RESUME)]
    pub resume_except: Vec<IpNet>,

    /// Growth of slow start after a jump: soft, ceiling or none
    ///
    /// soft grows by a quarter per round trip beyond the saved capacity, and ends slow start when a
    /// round trip brings a queue and delivers no more. ceiling ends slow start at the
    /// saved capacity. none goes on doubling.
    #[arg(long, value_name = "NAME", default_value = AfterJump::default().name(), help_heading = RESUME)]
    pub after_jump: AfterJump,

    /// Experiment: jump on the handshake's ACKs alone
    ///
    /// RFC 9959, 3.2 has a sender wait until its initial window is acknowledged. on jumps a round trip
    /// earlier, when that window is sent: to a quarter of the saved capacity, and only if the RTT of the
    /// handshake is above half and below twice the saved one. All else is as for any jump. What
    /// --early-data answers early waits as before. The control group of --resume-share decides
    /// whether it could have jumped as with off, so that the comparison is not exact.
    #[arg(long, value_enum, value_name = "on|off", default_value = "off", help_heading = RESUME)]
    pub early_jump: OnOff,

    /// The name that `--after-jump` had.
    #[arg(long, hide = true, value_name = "on|off", value_parser = parse_resume_ceiling)]
    pub resume_ceiling: Option<Infallible>,

    /// What ends slow start, besides loss: queue, rapid, hystart, search, search-3 or none
    ///
    /// queue ends it at a standing queue. rapid does the same, and triples the window each round
    /// trip until a queue shows: it reaches the capacity sooner for clients never seen before, and
    /// loses more where the buffer holds less than the path. hystart is HyStart++, as upstream quiche
    /// has it. search is SEARCH 4.0, and search-3 SEARCH 3.x. none leaves it to loss alone.
    #[arg(long, value_name = "NAME", default_value = SlowStartExit::Queue.name(), help_heading = CONGESTION)]
    pub slow_start_exit: SlowStartExit,

    /// Path MTU discovery (RFC 8899)
    ///
    /// Finds the largest packets that each path carries, from 1200 to 1452 bytes of UDP payload,
    /// once a connection has sent an initial window (12 kB), and again after three
    /// consecutive probe timeouts. off sends 1350 bytes, which paths with an MTU below 1378 drop.
    #[arg(long, value_enum, value_name = "on|off", default_value = "on", help_heading = CONGESTION)]
    pub pmtud: OnOff,

    /// Explicit Congestion Notification (RFC 3168; RFC 9000, 13.4)
    ///
    /// Marks packets as ECN-capable, so that routers on the path may mark them instead of dropping
    /// them, and reduces the congestion window at such a mark. The first packets of each
    /// connection test the path; one that loses or changes their marks gets unmarked packets from then on.
    ///
    /// l4s marks them for the low-latency queue of a dual queue (L4S, RFC 9330) and reduces the window
    /// by the share of marks, with cubic and reno. On a path whose queue turns out to be another one,
    /// it goes on as on does.
    #[arg(long, value_enum, value_name = "on|off|l4s", default_value = "on", hide_possible_values = true,
        help_heading = CONGESTION)]
    pub ecn: EcnMode,

    /// Response to a congestion mark: standard or alternative
    ///
    /// standard reduces the congestion window as far as a loss does. alternative (RFC 8511) keeps 85 %
    /// of it with cubic and 80 % with reno, once slow start has ended: a queue that marks is short. It
    /// does not concern bbr2.
    #[arg(long, value_enum, value_name = "NAME", default_value = "standard", hide_possible_values = true,
        help_heading = CONGESTION)]
    pub ecn_backoff: EcnBackoff,

    /// Name under which servers share saved path state [default: the sending address]
    ///
    /// Give servers one name only if clients reach them over the same network path.
    #[arg(long, value_name = "NAME", help_heading = STORE,
        value_parser = NonEmptyStringValueParser::new())]
    pub path_group: Option<String>,

    /// How long saved path state may be used, in seconds
    ///
    /// This is the Lifetime of RFC 9959, 4.3.1. A jump that the path takes renews it, up
    /// to four Lifetimes after the capacity was observed. What is already saved keeps the Lifetime with
    /// which it was saved: `path-store flush` deletes it.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, help_heading = RESUME,
        value_parser = clap::value_parser!(u32).range(1..=PATH_LIFETIME_MAX))]
    pub path_lifetime: u32,

    /// Prefix length of a client's IPv4 subnet, in bits
    ///
    /// The server saves path state per subnet, and --connections-per-subnet counts per subnet.
    #[arg(long, value_name = "BITS", default_value_t = 24, help_heading = STORE,
        value_parser = clap::value_parser!(u8).range(..=32))]
    pub prefix_v4: u8,

    /// Prefix length of a client's IPv6 subnet, in bits
    #[arg(long, value_name = "BITS", default_value_t = 48, help_heading = STORE,
        value_parser = clap::value_parser!(u8).range(..=128))]
    pub prefix_v6: u8,

    /// DSCP that the network gives this server's packets
    ///
    /// Set it where paths differ by DSCP: it becomes part of the key of saved path state. The server
    /// does not mark its packets itself.
    #[arg(long, value_name = "DSCP", help_heading = STORE,
        value_parser = clap::value_parser!(u8).range(..=63))]
    pub path_dscp: Option<u8>,

    /// File of keys to hash client subnets with, so that the store holds no client address
    ///
    /// The server reads the file again within ten seconds of a change.
    #[arg(long, value_name = "F", help_heading = STORE)]
    pub hash_keys: Option<PathBuf>,

    /// File of secrets for tokens, stateless resets and session tickets [default: a random secret]
    ///
    /// Servers with the same secrets accept each other's tokens and tickets, and a server its
    /// own after a restart. The server reads the file again within ten seconds of a change.
    #[arg(long, value_name = "F", help_heading = SECURITY)]
    pub secrets: Option<PathBuf>,

    /// Address for packets that other servers forward to this one, over UDP
    ///
    /// A server with a table of nodes in [[quic-lb]] forwards packets to the server that their connection ID
    /// names, from this address to the other's. Needs --secrets for nodes. Let the other servers alone reach it.
    #[arg(long, value_name = "ADDR:PORT", help_heading = PROCESS)]
    pub quic_lb_listen: Option<SocketAddr>,

    #[command(flatten)]
    pub limits: Limits,

    /// Early data (0-RTT, RFC 8470)
    ///
    /// Clients that resume a session may send GET and HEAD requests with their first packets. An attacker
    /// may replay such requests.
    #[arg(long, value_enum, value_name = "on|off", default_value = "off", help_heading = SECURITY)]
    pub early_data: OnOff,

    /// Time that SIGTERM gives clients to finish what they requested, in seconds
    ///
    /// A server that hands over to a new one gives them as much, and two seconds at least.
    #[arg(long, value_name = "SECONDS", default_value_t = 25, help_heading = PROCESS)]
    pub drain: u32,

    /// Unix socket for hot restarts
    ///
    /// Takes the UDP sockets over from the server that listens there, if there is one, and then
    /// listens there for the next server.
    #[arg(long, value_name = "PATH", help_heading = PROCESS)]
    pub takeover: Option<PathBuf>,

    /// Address of the admin listener: /metrics, /healthz and /readyz, over plain HTTP
    #[arg(long, value_name = "ADDR:PORT", help_heading = TELEMETRY)]
    pub metrics: Option<SocketAddr>,

    /// Unix socket for commands, such as reload, rollback, drain, log, connections, stats
    ///
    /// `edge-server admin PATH reload` uses it, and so does HTTP. Only the server's own user and root
    /// may. A server that has handed over and drains listens at PATH.N, where N is its generation.
    #[arg(long, value_name = "PATH", help_heading = TELEMETRY)]
    pub admin: Option<PathBuf>,

    /// Format of the log on standard error
    ///
    /// RUST_LOG, or a command to the admin socket, sets what it shows.
    #[arg(long, value_enum, value_name = "NAME", default_value = "text", help_heading = TELEMETRY)]
    pub log_format: LogFormat,

    /// File for the access log, one line per response; - is standard output
    #[arg(long, value_name = "F", help_heading = TELEMETRY)]
    pub access_log: Option<PathBuf>,

    /// Format of the access log
    ///
    /// common is the combined log format of Apache and nginx, followed by the host and the duration.
    #[arg(long, value_enum, value_name = "NAME", default_value = "json", help_heading = TELEMETRY)]
    pub access_log_format: AccessLogFormat,

    /// Folder for qlog files, one per connection
    #[arg(long, value_name = "DIR", help_heading = TELEMETRY)]
    pub qlog_dir: Option<PathBuf>,

    /// Share of connections with a qlog file, from 0 to 1, chosen at random
    #[arg(long, value_name = "SHARE", requires = "qlog_dir", default_value = "1",
        value_parser = parse_share, help_heading = TELEMETRY)]
    pub qlog_rate: f64,

    /// Client subnet with qlog files; may be repeated [default: all]
    ///
    /// --qlog-rate applies to the connections from these subnets.
    #[arg(long, value_name = "CIDR", requires = "qlog_dir", value_parser = parse_subnet,
        help_heading = TELEMETRY)]
    pub qlog_subnet: Vec<IpNet>,

    /// Maximum size of all qlog files in the folder, in bytes
    ///
    /// Files of earlier processes count as well. Beyond it, files end early and no more begin. One file
    /// may have a sixteenth of it.
    #[arg(long, value_name = "BYTES", requires = "qlog_dir", default_value_t = 4 << 30,
        help_heading = TELEMETRY, value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 50))]
    pub qlog_bytes_max: u64,

    /// Maximum number of qlog files in the folder
    #[arg(long, value_name = "N", requires = "qlog_dir", default_value_t = 10_000,
        help_heading = TELEMETRY, value_parser = clap::value_parser!(u32).range(1..))]
    pub qlog_files_max: u32,

    /// Configuration file, TOML
    ///
    /// Describes hosts, how their files are served, and what connection IDs tell balancers, and may set
    /// options. Options on the command line win.
    #[arg(long, value_name = "F", help_heading = PROCESS)]
    pub config: Option<PathBuf>,

    /// Subnet of proxies that tell their clients' addresses; may be repeated
    ///
    /// A request from there is for the client that X-Forwarded-For names, or Forwarded if there is no
    /// such field: the last address there that is in none of these subnets. Access rules and their rates,
    /// a client's share of an origin, the access log, and the fields that origins get go by it. Name your
    /// own load balancers and shields alone, and have them add to X-Forwarded-For, or add to Forwarded and
    /// remove X-Forwarded-For. From all others, the fields mean nothing. Limits on connections, and Careful Resume, go by the address of the
    /// packets.
    #[arg(long, value_name = "CIDR", value_parser = parse_subnet, help_heading = CONTENT)]
    pub trusted_proxies: Vec<IpNet>,

    /// Serve /bytes/N, /upload and /speedtest on every host
    ///
    /// /bytes/N is N bytes, at most 16 GiB; /upload takes as many; /speedtest is a page that
    /// measures both in a browser, and shows what Careful Resume did.
    #[arg(long, help_heading = CONTENT)]
    pub speedtest: bool,

    /// Check the configuration and exit
    ///
    /// Reads options, configuration, folders, error pages, certificates, secrets and keys, and looks
    /// whether this user may write store, logs and sockets; prints "ok", or one line with the first
    /// problem. Does not listen, creates nothing, and does not open the store.
    #[arg(long, help_heading = PROCESS)]
    pub check: bool,
}

/// Response to a congestion mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EcnBackoff {
    Standard,

    /// RFC 8511.
    Alternative,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessLogFormat {
    Json,
    Common,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

impl Cli {
    /// Returns the number of workers of each listener.
    pub fn workers(&self) -> u16 {
        let most = (usize::from(WORKERS_MAX) / self.listen.len().max(1)).max(1);
        self.workers.unwrap_or_else(|| {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            u16::try_from(cores.min(most)).unwrap_or(WORKERS_MAX)
        })
    }

    /// Returns the controller of connections to a listener whose hosts name none.
    pub fn controller_of(&self, listener: &Listener) -> CongestionController {
        listener.cc.unwrap_or(self.cc)
    }

    /// Returns where saved path state is kept. Tokens of a random secret do not outlive the process.
    pub fn state(&self) -> StateKept {
        self.state.unwrap_or(match self.secrets {
            Some(_) => StateKept::Both,
            None => StateKept::Store,
        })
    }

    /// Returns whether Careful Resume is on. It is off if quiche was built without it.
    pub fn resumes(&self) -> bool {
        self.resume == OnOff::On && quiche::HAS_CAREFUL_RESUME
    }

    /// Returns the settings of ECN, unless it is off.
    pub fn ecn(&self) -> Option<EcnConfig> {
        let alternative_backoff = self.ecn_backoff == EcnBackoff::Alternative;
        let l4s = self.ecn == EcnMode::L4s;
        (self.ecn != EcnMode::Off).then_some(EcnConfig { alternative_backoff, l4s })
    }

    /// Warns of options that make others ineffective.
    pub fn warn_of_conflicts(&self) {
        if self.resumes() {
            self.limits.warn_of_send_buffer();
        }
        self.limits.warn_of_responses_memory();
        self.limits.warn_of_requests_memory(self.speedtest);
        self.limits.warn_of_open_files();
        let keeps_in_tokens = self.state.is_some_and(|state| state != StateKept::Store);
        if self.resumes() && keeps_in_tokens && self.secrets.is_none() {
            warn!(
                "--state without --secrets: what clients keep of it is lost when this server ends, and no \
                 other can read it; name a file with --secrets, or leave --state out"
            );
        }
        if self.resume == OnOff::Off && self.resume_share < 1.0 {
            let share = self.resume_share;
            warn!(
                "--resume off leaves --resume-share {share} without effect: there are no groups to \
                 compare; leave out one of them, or switch jumps off with --resume-share 0"
            );
        }
        if self.cc == CongestionController::Bbr2 {
            self.warn_of_what_bbr2_ignores();
        }
    }

    fn warn_of_what_bbr2_ignores(&self) {
        let exit = self.slow_start_exit;
        let ignored = [
            (exit != SlowStartExit::Queue, "--slow-start-exit", exit.name()),
            (self.ecn == EcnMode::L4s, "--ecn", "l4s"),
            (self.ecn_backoff == EcnBackoff::Alternative, "--ecn-backoff", "alternative"),
        ];
        for (_, option, value) in ignored.into_iter().filter(|(is_set, ..)| *is_set) {
            warn!(
                "--cc bbr2 ignores {option} {value}, which is for cubic and reno: leave it out, or choose \
                 one of them"
            );
        }
    }
}

/// Configuration of the server.
#[derive(Debug)]
pub struct Config {
    pub flags: Cli,
    pub file: ConfigFile,

    /// Values of all options, as text.
    pub options: BTreeMap<String, Vec<OsString>>,
}

impl Config {
    /// Returns whether there is a certificate for names without their own.
    pub fn has_default_certificate(&self) -> bool {
        !self.flags.tls.cert.is_empty() || !self.file.default_host().cert.is_empty()
    }

    /// Returns an error about the value of an option, with its place if that is in the file.
    pub fn option_error(&self, option: &str, error: &anyhow::Error) -> ConfigError {
        ConfigError(match self.place(option) {
            Some(place) => format!("{place}: {error:#}"),
            None => format!("{error:#}"),
        })
    }

    /// Returns the place of an option in the file.
    fn place(&self, option: &str) -> Option<String> {
        let setting = self.file.server.iter().find(|setting| setting.name == option)?;
        Some(format!("{}{}", self.file_prefix(), setting.position))
    }

    /// Returns an error about the value of an option that cannot be used, with its place: one of the
    /// configuration, unless the system may accept the same value later.
    pub fn unusable(&self, option: &str, error: anyhow::Error) -> anyhow::Error {
        match preflight::is_transient(&error) {
            true => self.located(option, error),
            false => self.option_error(option, &error).into(),
        }
    }

    /// Adds the place of an option in the file to an error that is not the configuration's.
    pub fn located(&self, option: &str, error: anyhow::Error) -> anyhow::Error {
        match self.place(option) {
            Some(place) => error.context(place),
            None => error,
        }
    }

    /// Returns an error about a host of the file, with the place of the rule at fault, if it is one.
    pub fn host_error(&self, host: &Host, error: &anyhow::Error) -> ConfigError {
        let prefix = self.file_prefix();
        let Some(position) = error.downcast_ref::<Position>() else {
            return ConfigError(format!("{prefix}{host}: {error:#}"));
        };
        let causes: Vec<_> = error.chain().skip(1).map(ToString::to_string).collect();
        let name = host.first_name();
        ConfigError(format!("{prefix}[[host]] {name}, {position}: {}", causes.join(": ")))
    }

    /// Returns an error about a configuration of QUIC-LB in the file.
    pub fn quic_lb_error(&self, at_fault: &QuicLbConfig, error: &anyhow::Error) -> ConfigError {
        ConfigError(format!("{}{at_fault}: {error:#}", self.file_prefix()))
    }

    fn file_prefix(&self) -> String {
        let path = self.flags.config.as_ref();
        path.map(|path| format!("--config {}: ", path.display())).unwrap_or_default()
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let checked = listener::check(&self.flags.listen, self.flags.workers(), WORKERS_MAX);
        checked.map_err(|error| self.option_error("listen", &error))?;
        let (http, is_tcp) = (&self.flags.http, self.flags.tcp == OnOff::On);
        if let Some(http) = http.first().filter(|_| !is_tcp) {
            let error = anyhow!("--http {http} needs --tcp on, to which it redirects");
            return Err(self.option_error("http", &error));
        }
        let listen = self.flags.listen.iter().filter(|_| is_tcp);
        let named: Vec<_> = listen
            .map(|listener| ("listen", listener.address))
            .chain(http.iter().map(|address| ("http", *address)))
            .chain(self.flags.metrics.map(|address| ("metrics", address)))
            .collect();
        let checked = listen_addresses::check("TCP", &named);
        checked.map_err(|(option, why)| self.option_error(option, &anyhow!(why)))?;
        let Some(of_nodes) = self.flags.quic_lb_listen else { return Ok(()) };
        self.flags.listen.iter().try_for_each(|listener| {
            let named = [("listen", listener.address), ("quic-lb-listen", of_nodes)];
            let checked = listen_addresses::check("UDP", &named);
            checked.map_err(|(option, why)| self.option_error(option, &anyhow!(why)))
        })
    }

    /// Checks that hosts with `acme = true` can get certificates.
    fn check_acme(&self) -> Result<(), ConfigError> {
        let Some(host) = self.file.named().find(|host| host.acme) else { return Ok(()) };
        let problem = match (&self.flags.acme.acme_dir, self.flags.tcp) {
            (None, _) => "acme = true needs --acme-dir, a folder for account and certificates",
            (_, OnOff::Off) => {
                "acme = true needs --tcp on, where the authority's challenges arrive"
            }
            _ => return Ok(()),
        };
        Err(self.host_error(&host, &anyhow!(problem)))
    }

    /// Checks that packets can be forwarded to the nodes of QUIC-LB.
    fn check_nodes(&self) -> Result<(), ConfigError> {
        let Cli { quic_lb_listen, secrets, .. } = &self.flags;
        let checked = quic_lb::check_nodes(&self.file.quic_lb, *quic_lb_listen, secrets.is_some());
        checked.map_err(|(config, problem)| self.quic_lb_error(config, &anyhow!(problem)))
    }

    fn check_paths(&self) -> Result<(), ConfigError> {
        self.check_paths_of(&self.options)
    }

    /// Checks that nothing that the server reads is at a path to which it writes, as the options of its
    /// start say.
    ///
    /// # Errors
    ///
    /// One line that names both.
    pub fn check_paths_of(&self, started: &OptionValues) -> Result<(), ConfigError> {
        let located = |found: Collision| self.option_error(found.option, &anyhow!("{found}"));
        paths::check(started, &self.options, &self.file).map_err(located)
    }

    /// Warns of private files in folders that the server serves, and of paths that other users may
    /// write.
    pub fn warn_of_paths(&self) {
        foreign_writers::find(&self.options).iter().for_each(|line| warn!("{line}"));
        let of_hosts = self.file.hosts.iter().filter_map(|host| host.root.as_ref());
        let roots = of_hosts.chain([&self.flags.root]);
        paths::warn_of_served_files(&self.options, &self.file, roots);
    }
}

/// Error in the configuration, or in a file that it names.
#[derive(Debug)]
pub struct ConfigError(String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

fn parse_subnet(text: &str) -> Result<IpNet, String> {
    let parsed = subnets::parse(text).and_then(subnets::not_mapped);
    parsed.map_err(|why| format!("it {why}"))
}

/// Refuses the removed option `--resume-ceiling` and names its replacement.
fn parse_resume_ceiling(text: &str) -> Result<Infallible, String> {
    let value = if text == "on" { "ceiling" } else { "none" };
    Err(format!("use --after-jump {value} instead"))
}

/// Parses the command line and the configuration file that it names.
///
/// # Errors
///
/// The command line is invalid, or asks for help or the version.
pub fn parse(args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Config, Stop> {
    let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    parse_with(&mut args, std::env::vars_os())
}

fn parse_with(
    args: &mut Vec<OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Config, Stop> {
    // Help needs no valid environment.
    if let Err(e) = Cli::command().ignore_errors(true).try_get_matches_from(&*args) {
        return Err(Stop::new::<Cli>(&e));
    }
    add_environment(args, variables).map_err(Stop::Usage)?;
    // Errors are reported below, after the file has added its options.
    let given = match Cli::command().ignore_errors(true).try_get_matches_from(&*args) {
        Ok(given) => given,
        Err(e) => return Err(Stop::new::<Cli>(&e)),
    };
    let mut file = ConfigFile::default();
    if let Some(path) = given.get_one::<PathBuf>("config") {
        file = ConfigFile::read(path).map_err(|e| Stop::Usage(format!("{e:#}")))?;
        let more = arguments_of(&file, &given);
        let more = more.map_err(|e| Stop::Usage(format!("--config {}: {e}", path.display())))?;
        args.splice(1..1, more);
        file.server.retain(|setting| !is_on_command_line(&setting.name, &given));
    }
    let stop = |e: clap::Error| match (Stop::new::<Cli>(&e), given.get_one::<PathBuf>("config")) {
        (Stop::Usage(line), Some(path)) if e.kind() == ErrorKind::MissingRequiredArgument => {
            let path = path.display();
            Stop::Usage(format!("--config {path}: {line}, or set them below a line [server]"))
        }
        (stop, _) => stop,
    };
    let matches = Cli::command().try_get_matches_from(&*args).map_err(stop)?;
    let flags = Cli::from_arg_matches(&matches).map_err(stop)?;
    let options = options_of(&matches);
    let config = Config { flags, file, options };
    config.check_listeners().map_err(|e| Stop::Usage(e.to_string()))?;
    config.check_acme().map_err(|e| Stop::Usage(e.to_string()))?;
    config.check_nodes().map_err(|e| Stop::Usage(e.to_string()))?;
    config.check_paths().map_err(|e| Stop::Usage(e.to_string()))?;
    Ok(config)
}

/// Adds the options of the environment, except those that the command line has.
fn add_environment(
    args: &mut Vec<OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), String> {
    let options: Vec<Arg> = Cli::command().get_arguments().cloned().collect();
    let variables = environment::arguments(variables, &options)?;
    if variables.is_empty() {
        return Ok(());
    }
    // Other errors, and help, are for later.
    let given = Cli::command().disable_help_flag(true).disable_version_flag(true);
    let given = given.ignore_errors(true).try_get_matches_from(&*args).unwrap_or_default();
    for (variable, more) in variables {
        validate(&more).map_err(|e| format!("{variable}: {e}"))?;
        let name = more.first().and_then(|argument| argument.to_str()?.strip_prefix("--"));
        let name = name.map(|argument| argument.split('=').next().unwrap_or(argument).to_owned());
        if name.is_some_and(|name| !is_on_command_line(&name, &given)) {
            args.splice(1..1, more);
        }
    }
    Ok(())
}

fn options_of(matches: &ArgMatches) -> BTreeMap<String, Vec<OsString>> {
    let command = Cli::command();
    let option = |option: &Arg| {
        let values = matches.get_raw(option.get_id().as_str());
        let values = values.into_iter().flatten().map(OsString::from).collect();
        Some((option.get_long()?.to_owned(), values))
    };
    command.get_arguments().filter_map(option).collect()
}

/// Returns the options of the file as arguments, except those that the command line has.
fn arguments_of(file: &ConfigFile, given: &ArgMatches) -> Result<Vec<OsString>, String> {
    let command = Cli::command();
    let mut arguments = Vec::new();
    for setting in &file.server {
        let Setting { name, position, .. } = setting;
        let known = |option: &&Arg| option.get_long() == Some(name);
        let option = command.get_arguments().find(known);
        let option = option.filter(|_| !NOT_IN_FILE.contains(&name.as_str()));
        let option = option.ok_or_else(|| {
            format!(
                "{position}: [server] has no '{name}'; use the option names of edge-server --help"
            )
        })?;
        let from_file =
            setting.arguments(option).map_err(|e| format!("{position}: {name}: {e}"))?;
        validate(&from_file).map_err(|e| format!("{position}: {e}"))?;
        if !is_on_command_line(name, given) {
            arguments.extend(from_file);
        }
    }
    check_needs(file, given)?;
    Ok(arguments)
}

fn is_on_command_line(name: &str, given: &ArgMatches) -> bool {
    let command = Cli::command();
    let option = command.get_arguments().find(|option| option.get_long() == Some(name));
    let source = option.and_then(|option| given.value_source(option.get_id().as_str()));
    source == Some(ValueSource::CommandLine)
}

/// Checks that the options that those of the file need are there or on the command line.
fn check_needs(file: &ConfigFile, given: &ArgMatches) -> Result<(), String> {
    let command = Cli::command();
    let is_given = |name: &str| {
        let option = command.get_arguments().find(|option| option.get_long() == Some(name));
        option.is_some_and(|option| given.contains_id(option.get_id().as_str()))
    };
    let in_file = |name: &str| file.server.iter().any(|setting| setting.name == name);
    for Setting { name, position, .. } in &file.server {
        let needed = NEEDS.iter().find(|(option, _)| option == name).map(|(_, needed)| needed);
        if let Some(needed) = needed.filter(|needed| !in_file(needed) && !is_given(needed)) {
            return Err(format!("{position}: {name} needs {needed}"));
        }
    }
    Ok(())
}

/// Validates the arguments of one option, even if required options are missing.
///
/// # Errors
///
/// One line that names the invalid value.
fn validate(option: &[OsString]) -> Result<(), String> {
    let program = OsString::from("edge-server");
    match Cli::command().try_get_matches_from(std::iter::once(&program).chain(option)) {
        Err(e) if e.kind() != ErrorKind::MissingRequiredArgument => Err(one_line::<Cli>(&e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::careful_resume::CarefulResumeConfig;

    fn parse_words(line: &str) -> Result<Config, Stop> {
        parse(line.split(' '))
    }

    #[test]
    fn environment_wins_over_the_file_and_the_command_line_over_both() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        let toml = "[server]\nlisten = '[::]:1'\nroot = 'file'\nworkers = 1\ncc = 'reno'";
        std::fs::write(&file, toml).unwrap();
        let variable =
            |(name, value): (&str, &str)| (format!("EDGE_SERVER_{name}").into(), value.into());
        let parsed = |line: &str, variables: &[(&str, &str)]| {
            let mut args = line.split(' ').map(OsString::from).collect();
            let config = ("CONFIG", file.to_str().unwrap());
            let variables = variables.iter().copied().chain([config]).map(variable);
            add_environment(&mut args, variables)?;
            parse(args).map_err(|stop| stop.to_string())
        };
        let variables = [("ROOT", "environment"), ("WORKERS", "2"), ("LISTEN", "[::]:2\n[::]:3")];
        let Config { flags, .. } = parsed("edge-server --workers 3", &variables).unwrap();
        assert_eq!((flags.root, flags.workers), ("environment".into(), Some(3)));
        assert_eq!((flags.listen.len(), flags.listen[1].to_string()), (2, "[::]:3".into()));
        assert_eq!(flags.cc, CongestionController::Reno);
        let error = parsed("edge-server", &[("WORKERS", "none")]).unwrap_err();
        assert!(error.starts_with("EDGE_SERVER_WORKERS: ") && error.contains("'none'"), "{error}");
    }

    #[test]
    fn help_is_shown_whatever_the_environment() {
        for (option, expected) in [
            ("--version", "edge-server "),
            ("-V", "edge-server "),
            ("--help", "HTTP/3 file server"),
            ("-h", "HTTP/3"),
        ] {
            let mut args = vec!["edge-server".into(), option.into()];
            let variables = [("EDGE_SERVER_LISTN".into(), "x".into())].into_iter();
            match parse_with(&mut args, variables) {
                Err(Stop::Print(text)) => assert!(text.starts_with(expected), "{option}: {text}"),
                other => panic!("{option}: {other:?}"),
            }
        }
    }

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_options_are_parsed() {
        let line = "edge-server --listen [::]:4433 --workers 3 --root www --store paths.db --cert c --key k \
                    --cc reno --pmtud off --ecn off --ecn-backoff alternative --resume off --resume-share 0.9 --resume-except 10.1.0.0/16 \
                    --after-jump ceiling --early-jump on --slow-start-exit search-3 --path-group pop7 --path-lifetime 60 --prefix-v4 20 --prefix-v6 56 \
                    --path-dscp 46 --hash-keys keys --secrets secrets --retry-above 0 --connections-max 9 \
                    --connections-per-subnet 8 --handshakes-per-second 7 --handshake-timeout 6 \
                    --idle-timeout 5 --connection-time-max 4 --stall-timeout 3 --requests-max 2 \
                    --header-bytes-max 1024 --max-jump 30000 --send-buffer-max 65536 \
                    --responses-memory-max 1048576 --requests-memory-max 2097152 --open-files-max 99 \
                    --early-data on --drain 7 --takeover sock --quic-lb-listen 127.0.0.1:9200 --metrics 127.0.0.1:9100 \
                    --admin admin.sock --log-format json \
                    --access-log - --access-log-format common --qlog-dir logs --qlog-rate 0.5 \
                    --qlog-subnet 10.0.0.0/8 --qlog-subnet fd00::/8 --check \
                    --qlog-bytes-max 1048576 --qlog-files-max 77 \
                    --speedtest";
        let config = parse_words(line).unwrap();
        let cli = config.flags;
        assert_eq!(cli.listen[0].to_string(), "[::]:4433");
        assert_eq!(cli.workers(), 3);
        assert_eq!(cli.root, PathBuf::from("www"));
        assert_eq!(cli.store, "paths.db");
        assert_eq!((cli.tls.cert, cli.tls.key), (vec!["c".into()], vec!["k".into()]));
        assert_eq!(cli.cc, CongestionController::Reno);
        assert_eq!((cli.pmtud, cli.resume), (OnOff::Off, OnOff::Off));
        assert_eq!((cli.ecn, cli.ecn_backoff), (EcnMode::Off, EcnBackoff::Alternative));
        assert_eq!(cli.resume_share, 0.9);
        assert_eq!(cli.resume_except, ["10.1.0.0/16".parse::<IpNet>().unwrap()]);
        assert_eq!((cli.after_jump, cli.early_jump), (AfterJump::Ceiling, OnOff::On));
        assert_eq!(cli.slow_start_exit.name(), "search-3");
        assert_eq!(cli.path_group.as_deref(), Some("pop7"));
        assert_eq!((cli.prefix_v4, cli.prefix_v6, cli.path_dscp), (20, 56, Some(46)));
        assert_eq!(cli.path_lifetime, 60);
        assert_eq!(cli.hash_keys, Some("keys".into()));
        assert_eq!(cli.secrets, Some("secrets".into()));
        let Limits { connections_max, connections_per_subnet, handshakes_per_second, .. } =
            cli.limits;
        assert_eq!((connections_max, connections_per_subnet), (9, 8));
        assert_eq!((handshakes_per_second, cli.limits.retry_above), (7, 0));
        let times = [cli.limits.handshake_time(), cli.limits.idle_time()];
        assert_eq!(times.map(|time| time.as_secs()), [6, 5]);
        let times = [cli.limits.connection_time(), cli.limits.stall_time()];
        assert_eq!(times.map(|time| time.as_secs()), [4, 3]);
        assert_eq!((cli.limits.requests_max, cli.limits.header_bytes_max), (2, 1024));
        assert_eq!((cli.limits.max_jump, cli.limits.send_buffer_max), (30_000, Some(65_536)));
        let memory = (cli.limits.responses_memory_max, cli.limits.requests_memory_max);
        assert_eq!(memory, (1 << 20, 2 << 20));
        assert_eq!(cli.limits.open_files(), 99);
        assert_eq!(cli.early_data, OnOff::On);
        assert_eq!((cli.drain, cli.takeover), (7, Some("sock".into())));
        assert_eq!(cli.quic_lb_listen.map(|at| at.port()), Some(9200));
        assert_eq!(cli.metrics.map(|at| at.port()), Some(9100));
        assert_eq!((cli.admin, cli.log_format), (Some("admin.sock".into()), LogFormat::Json));
        assert_eq!(cli.access_log, Some("-".into()));
        assert_eq!(cli.access_log_format, AccessLogFormat::Common);
        assert_eq!((cli.qlog_dir, cli.qlog_rate), (Some("logs".into()), 0.5));
        assert_eq!((cli.qlog_bytes_max, cli.qlog_files_max), (1 << 20, 77));
        let subnets: Vec<_> = cli.qlog_subnet.iter().map(IpNet::to_string).collect();
        assert_eq!(subnets, ["10.0.0.0/8", "fd00::/8"]);
        assert!(cli.speedtest && cli.check);
    }

    #[test]
    fn nodes_need_an_address_and_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let toml = "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 8\n\
                    nodes = { 0b = '192.0.2.7:1' }";
        let start = " --listen [::]:1 --root . --store memory:";
        for (more, expected) in [
            ("", Some("nodes need --quic-lb-listen")),
            (
                " --quic-lb-listen [::1]:2",
                Some("192.0.2.7:1 is of another family than --quic-lb-listen"),
            ),
            (
                " --quic-lb-listen 192.0.2.1:2",
                Some("nodes need --secrets, the same on all servers"),
            ),
            (" --quic-lb-listen 192.0.2.1:2 --secrets s", None),
        ] {
            let error = parse_words(&with_file(&dir, toml, &format!("{start}{more}"))).err();
            let error = error.map(|stop| stop.to_string());
            let place = "edge.toml: [[quic-lb]], line 1, column 1: ";
            let is_named =
                |error: &String| error.contains(place) && error.contains(expected.unwrap());
            assert_eq!(error.is_some(), expected.is_some(), "{more}: {error:?}");
            assert!(error.as_ref().is_none_or(is_named), "{error:?}");
        }
    }

    #[test]
    fn odd_nodes_are_refused_unless_they_are_harmless() {
        const OWN: &str = "192.0.2.1:4434";
        let dir = tempfile::tempdir().unwrap();
        let table = "[[quic-lb]]\nconfig-id = 0\nserver-id = '0a'\nnonce-length = 8\n";
        for (own, nodes, expected) in [
            (OWN, "0a = '192.0.2.1:4434', 0b = '192.0.2.7:4434'", None),
            (OWN, "0b = '192.0.2.7:4434'", None),
            (OWN, "0a = '192.0.2.1:4434'", None),
            (OWN, "", None),
            ("0.0.0.0:4434", "0a = '192.0.2.1:4434'", None),
            ("192.0.2.1:0", "0a = '192.0.2.1:4434'", None),
            (
                OWN,
                "0a = '192.0.2.2:4434'",
                Some(
                    "nodes: '0a' is this server's, and 192.0.2.2:4434 is not --quic-lb-listen \
                     192.0.2.1:4434; write that address, or the server-id of this server",
                ),
            ),
            (OWN, "0a = '192.0.2.1:4435'", Some("192.0.2.1:4435 is not --quic-lb-listen")),
            ("0.0.0.0:4434", "0a = '192.0.2.1:1'", Some("192.0.2.1:1 is not --quic-lb-listen")),
            (
                OWN,
                "0b = '192.0.2.1:4434'",
                Some(
                    "nodes: '0b' has the address of this server, --quic-lb-listen 192.0.2.1:4434;",
                ),
            ),
            (
                OWN,
                "0b = '192.0.2.7:1', 0c = '192.0.2.7:1'",
                Some("nodes: '0b' and '0c' have one address; write each server's own"),
            ),
            (
                OWN,
                "0c = '192.0.2.7:1', 0C = '192.0.2.8:1'",
                Some("nodes: '0c' is there twice; leave out one of them"),
            ),
            (OWN, "0b = '192.0.2.7:0'", Some("nodes: '192.0.2.7:0': nobody receives at port 0;")),
            (
                OWN,
                "0b = '0.0.0.0:4434'",
                Some("nodes: '0.0.0.0:4434' is not the address of one server; write that server's"),
            ),
            (OWN, "0b = '224.0.0.1:1'", Some("is not the address of one server")),
            (OWN, "0b = '255.255.255.255:1'", Some("is not the address of one server")),
            ("[::1]:4434", "0b = '[::]:4434'", Some("is not the address of one server")),
            ("[::1]:4434", "0b = '[::ffff:0.0.0.0]:1'", Some("is not the address of one server")),
            (OWN, "0b01 = '192.0.2.7:1'", Some("nodes: '0b01' has another length than server-id;")),
            (OWN, "0b0 = '192.0.2.7:1'", Some("nodes: '0b0': write 1 to 10 octets as pairs of")),
            (OWN, "0x = '192.0.2.7:1'", Some("nodes: '0x': write 1 to 10 octets as pairs of")),
            ("127.0.0.1:443", "", Some("both need the UDP port 443 there; choose another for one")),
            ("0.0.0.0:443", "", Some("--listen 127.0.0.1:443 and --quic-lb-listen 0.0.0.0:443")),
            ("127.0.0.2:443", "", None),
        ] {
            let toml = format!("{table}nodes = {{ {nodes} }}");
            let start = " --listen 127.0.0.1:443 --root . --store memory: --secrets s";
            let more = format!("{start} --quic-lb-listen {own}");
            let error = parse_words(&with_file(&dir, &toml, &more)).err();
            let error = error.map(|stop| stop.to_string().trim_end().to_owned());
            assert_eq!(error.is_some(), expected.is_some(), "{own} {nodes}: {error:?}");
            let is_line =
                |error: &String| error.contains(expected.unwrap()) && !error.contains('\n');
            assert!(error.as_ref().is_none_or(is_line), "{own} {nodes}: {error:?}");
        }
    }

    /// Writes a configuration file. Returns a command line that names it.
    fn with_file(dir: &tempfile::TempDir, toml: &str, more: &str) -> String {
        let path = dir.path().join("edge.toml");
        std::fs::write(&path, toml).unwrap();
        format!("edge-server --config {}{more}", path.display())
    }

    #[test]
    fn file_sets_options_and_command_line_wins() {
        let dir = tempfile::tempdir().unwrap();
        let line = "--listen [::]:4433 --tcp on --http [::]:80 --workers 3 --root www --file-cache-max 1048576 --compression-cache-max 2097152 --cache-memory-max 3145728 --cache-dir cache --cache-disk-max 4194304 --trusted-proxies 10.2.0.0/16 --store paths.db --store-entries 5 --state token \
                    --cert c --key k --tls-min 1.3 --tls-groups X25519 --client-ca ca --ech-keys ech --acme-dir acme \
                    --acme-directory https://ca.example/acme --acme-contact mailto:a@b.example --acme-ca ca.pem \
                    --acme-external-account kid --acme-retry 9 --cc reno --pmtud off --ecn off \
                    --ecn-backoff alternative --resume off --resume-share 0.9 \
                    --resume-except 10.1.0.0/16 --after-jump ceiling --early-jump on \
                    --slow-start-exit search-3 --path-group pop7 --path-lifetime 60 --prefix-v4 20 --prefix-v6 56 \
                    --path-dscp 46 --hash-keys keys --secrets secrets --retry-above 0 --connections-max 9 \
                    --connections-per-subnet 8 --handshakes-per-second 7 --handshake-timeout 6 \
                    --idle-timeout 5 --connection-time-max 4 --stall-timeout 3 --requests-max 2 \
                    --header-bytes-max 1024 --max-jump 30000 --send-buffer-max 65536 \
                    --responses-memory-max 1048576 --requests-memory-max 2097152 --open-files-max 99 \
                    --early-data on --drain 7 --takeover sock --quic-lb-listen 127.0.0.1:9200 --metrics 127.0.0.1:9100 \
                    --admin admin.sock --log-format json \
                    --access-log - --access-log-format common --qlog-dir logs --qlog-rate 0.5 \
                    --qlog-bytes-max 1048576 --qlog-files-max 77 \
                    --qlog-subnet 10.0.0.0/8";
        let words: Vec<_> = line.split_whitespace().collect();
        let mut toml = String::from("[server]\nspeedtest = true\n");
        for pair in words.chunks(2) {
            let (name, value) = (pair[0].trim_start_matches("--"), pair[1]);
            let value = match value {
                "on" | "off" => (value == "on").to_string(),
                number if number.parse::<u32>().is_ok() => number.to_owned(),
                text => format!("'{text}'"),
            };
            toml += &format!("{name} = {value}\n");
        }
        let parsed = |line: String| match parse_words(&line) {
            Ok(config) => format!("{:?}", config.flags),
            other => panic!("{line}: {other:?}"),
        };
        let options = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let same = with_file(&dir, "", &format!(" --speedtest {options}"));
        assert_eq!(parsed(with_file(&dir, &toml, "")), parsed(same));
        let command = Cli::command();
        let shown = command.get_arguments().filter(|option| !option.is_hide_set());
        for option in shown.filter_map(|option| option.get_long()) {
            let is_said = toml.contains(&format!("\n{option} = "));
            assert!(is_said != NOT_IN_FILE.contains(&option), "{option}");
        }
        let other = with_file(&dir, &toml, " --root other --resume on");
        let config = parse_words(&other).unwrap();
        assert_eq!((config.flags.root, config.flags.resume), ("other".into(), OnOff::On));
        assert_eq!(config.flags.cc, CongestionController::Reno);
    }

    #[test]
    fn file_error_names_line_and_key() {
        let dir = tempfile::tempdir().unwrap();
        for (toml, named) in [
            (
                "[server]\n\nfrobnicate = 1",
                "edge.toml: line 3, column 1: [server] has no 'frobnicate'",
            ),
            ("[server]\nconfig = 'x'", "line 2, column 1: [server] has no 'config'"),
            ("[server]\nhelp = true", "line 2, column 1: [server] has no 'help'"),
            (
                "[server]\nresume-share = 1.5",
                "line 2, column 1: invalid value '1.5' for '--resume-share",
            ),
            (
                "[server]\nretry-above = -1",
                "line 2, column 1: invalid value '-1' for '--retry-above",
            ),
            ("[server]\nworkers = true", "line 2, column 1: invalid value 'on' for '--workers"),
            ("[server]\nroot = ['a', 'b']", "line 2, column 1: the argument '--root"),
            ("[server]\nroot = { a = 1 }", "line 2, column 1: root: write a text"),
            ("[server]\nspeedtest = 'yes'", "line 2, column 1: speedtest: write true or false"),
            ("[server]\nroot = 'a'\nroot = 'b'", "line 3, column 1: duplicate key 'root'"),
            (
                "[server]\nroot = 'a'",
                "edge.toml: the following required arguments were not provided",
            ),
            (
                "",
                "--listen <ADDR:PORT[,cc=NAME]> --root <DIR>; see edge-server --help, or set them",
            ),
            ("[server]\nroot = []", "line 2, column 1: root: the list is empty; write a folder"),
            (
                "[server]\nlisten = []",
                "column 1: listen: the list is empty; write an address, such",
            ),
            (
                "[server]\ncert = []\nkey = []",
                "line 2, column 1: cert: the list is empty; leave it out",
            ),
            ("[server]\nlisten = '[::]:0'", "--root"),
            ("[server]\ncert = 'c'", "edge.toml: line 2, column 1: cert needs key"),
            ("[server]\nkey = 'k'", "line 2, column 1: key needs cert"),
            ("[server]\nqlog-rate = 0", "edge.toml: line 2, column 1: qlog-rate needs qlog-dir"),
            ("[server]\nqlog-subnet = '::/0'", "line 2, column 1: qlog-subnet needs qlog-dir"),
            ("[server]\nacme-retry = 9", "line 2, column 1: acme-retry needs acme-dir"),
        ] {
            let parsed = parse_words(&with_file(&dir, toml, ""));
            let Err(Stop::Usage(error)) = parsed else { panic!("{toml}") };
            assert!(error.contains(named), "{toml}: {error}");
            assert!(!error.contains('\n'), "{toml}: {error}");
        }
    }

    #[test]
    fn host_with_acme_needs_a_folder_and_tcp() {
        let dir = tempfile::tempdir().unwrap();
        let file = "[[host]]\nnames = ['a.example']\nacme = true";
        let start = " --listen [::]:0 --root .";
        for (more, why) in [
            ("", "[[host]] a.example, line 1, column 1: acme = true needs --acme-dir"),
            (" --acme-dir x --tcp off", "a.example, line 1, column 1: acme = true needs --tcp on"),
        ] {
            let line = with_file(&dir, file, &format!("{start}{more}"));
            let Err(Stop::Usage(error)) = parse_words(&line) else { panic!("{line}") };
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        assert!(parse_words(&with_file(&dir, file, &format!("{start} --acme-dir x"))).is_ok());
    }

    #[test]
    fn two_sockets_at_one_path_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let toml = "[server]\nadmin = 's'\ntakeover = 's'";
        let start = " --listen [::]:0 --root .";
        for (toml, more, place) in [
            (toml, "", "edge.toml: line 3, column 1: --admin and"),
            ("", " --admin s --takeover s", "--admin and"),
        ] {
            let line = with_file(&dir, toml, &format!("{start}{more}"));
            let Err(Stop::Usage(error)) = parse_words(&line) else { panic!("{line}") };
            assert!(error.contains(place), "{error}");
        }
        let other = with_file(&dir, toml, &format!("{start} --takeover t"));
        assert!(parse_words(&other).is_ok());
    }

    #[test]
    fn option_that_the_file_needs_may_be_on_the_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = "[server]\nqlog-rate = 0.5\ncert = 'c'";
        let needed = " --listen [::]:0 --root . --qlog-dir logs --key k";
        let config = parse_words(&with_file(&dir, file, needed)).unwrap();
        assert_eq!((config.flags.qlog_rate, config.flags.qlog_dir), (0.5, Some("logs".into())));
    }

    #[test]
    fn defaults_enable_careful_resume_with_cubic() {
        let line = "edge-server --listen 127.0.0.1:0 --root .";
        let config = parse_words(line).unwrap();
        let cli = config.flags;
        assert!(cli.resumes());
        assert_eq!(cli.resume_share, 1.0);
        assert_eq!((cli.after_jump, cli.early_jump), (AfterJump::Soft, OnOff::Off));
        assert_eq!(cli.slow_start_exit, SlowStartExit::Queue);
        assert_eq!(cli.cc, CongestionController::Cubic);
        assert_eq!(cli.ecn(), Some(EcnConfig::default()));
        assert_eq!((cli.store.as_str(), cli.store_entries), ("memory:", 100_000));
        let resume = CarefulResumeConfig::default();
        assert_eq!(cli.limits.max_jump as usize, resume.max_jump);
        assert_eq!(u64::from(cli.path_lifetime), resume.lifetime.as_secs());
        assert!(!cli.speedtest);
        assert_eq!((cli.secrets, cli.limits.retry_above, cli.drain), (None, 1000, 25));
        assert_eq!(cli.early_data, OnOff::Off);
    }

    #[test]
    fn usage_error_is_one_line_naming_input() {
        let table = [
            ("edge-server --root .", "--listen"),
            ("edge-server --listen 127.0.0.1:0", "--root"),
            (
                "edge-server --listen nowhere --root .",
                "'nowhere' for '--listen <ADDR:PORT[,cc=NAME]>': expected ADDR:PORT",
            ),
            ("edge-server --listen [::]:1 --listen [::]:1,cc=reno --root .", "[::]:1 twice"),
            ("edge-server --listen [::]:1 --listen [::]:2 --root . --workers 129", "258"),
            (
                "edge-server --listen [::]:1,cc=bbr3 --root .",
                "cc = 'bbr3': use cubic, reno or bbr2",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --workers 0", "--workers"),
            ("edge-server --listen 127.0.0.1:0 --root . --workers 257", "257"),
            ("edge-server --listen 127.0.0.1:0 --root . --frobnicate", "'--frobnicate'"),
            ("edge-server --listen 127.0.0.1:0 --root . --cc bbr3", "'bbr3'"),
            ("edge-server --listen 127.0.0.1:0 --root . --resume maybe", "'maybe'"),
            ("edge-server --listen 127.0.0.1:0 --root . --ecn maybe", "'maybe'"),
            ("edge-server --listen 127.0.0.1:0 --root . --ecn-backoff half", "'half'"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --resume-share 90",
                "'90' for '--resume-share <SHARE>': a share is from 0 to 1, such as 0.9",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --resume-share nan", "'nan'"),
            ("edge-server --listen 127.0.0.1:0 --root . --resume-except 10", "192.0.2.0/24"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --resume-except 192.0.2.1/24",
                "'192.0.2.1/24' for '--resume-except <CIDR>': it is an address in 192.0.2.0/24;",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --after-jump 1", "'1'"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --resume-ceiling on",
                "--after-jump ceiling",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --resume-ceiling off", "--after-jump none"),
            ("edge-server --listen 127.0.0.1:0 --root . --slow-start-exit bbr", "search-3"),
            ("edge-server --listen 127.0.0.1:0 --root . --cert c", "--key"),
            ("edge-server --listen 127.0.0.1:0 --root . --key k", "--cert"),
            ("edge-server --listen 127.0.0.1:0 --root . --store-entries 0", "--store-entries"),
            ("edge-server --listen 127.0.0.1:0 --root . --prefix-v4 33", "33"),
            ("edge-server --listen 127.0.0.1:0 --root . --prefix-v6 129", "129"),
            ("edge-server --listen 127.0.0.1:0 --root . --path-dscp 64", "64"),
            ("edge-server --listen 127.0.0.1:0 --root . --path-group=", "--path-group <NAME>"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --retry-above -1",
                "no option has a value below zero, such as '-1'",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --connections-max 0", "--connections-max"),
            ("edge-server --listen 127.0.0.1:0 --root . --handshakes-per-second 0", "-per-second"),
            ("edge-server --listen 127.0.0.1:0 --root . --idle-timeout 0.5", "'0.5'"),
            ("edge-server --listen 127.0.0.1:0 --root . --stall-timeout 0", "--stall-timeout"),
            ("edge-server --listen 127.0.0.1:0 --root . --header-bytes-max 9", "1024"),
            ("edge-server --listen 127.0.0.1:0 --root . --send-buffer-max 9", "65536"),
            ("edge-server --listen 127.0.0.1:0 --root . --responses-memory-max 9", "1048576"),
            ("edge-server --listen 127.0.0.1:0 --root . --requests-memory-max 9", "1048576"),
            ("edge-server --listen 127.0.0.1:0 --root . --open-files-max 9", "16"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --max-jump 29039",
                "'29039' for '--max-jump <BYTES>': 29039 is not in 29040..=1073741824",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --max-jump 1073741825", "..=1073741824"),
            ("edge-server --listen 127.0.0.1:0 --root . --max-jump 8M", "'8M'"),
            ("edge-server --listen 127.0.0.1:0 --root . --path-lifetime 0", "1..=2592000"),
            ("edge-server --listen 127.0.0.1:0 --root . --early-data yes", "'yes'"),
            ("edge-server --listen 127.0.0.1:0 --root . --drain -1", "-1"),
            ("edge-server --listen 127.0.0.1:0 --root . --access-log-format xml", "'xml'"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-dir . --qlog-rate 1.1", "'1.1'"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-dir . --qlog-rate nan", "'nan'"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-dir . --qlog-subnet x", "'x'"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-subnet ::/0", "--qlog-dir"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-files-max 9", "--qlog-dir"),
            ("edge-server --listen 127.0.0.1:0 --root . --qlog-bytes-max 99999999", "--qlog-dir"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --qlog-dir . --qlog-bytes-max 9",
                "1048576",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --metrics 9100", "'9100'"),
            (
                "edge-server --listen 127.0.0.1:0 --root . --tcp off --http [::1]:80",
                "[::1]:80 needs --tcp on",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --tcp on --http 80", "'80'"),
            (
                "edge-server --listen [::]:81 --root . --metrics [::1]:81",
                "--listen [::]:81 and --metrics [::1]:81 both need the TCP port 81 there; choose",
            ),
            (
                "edge-server --listen [::1]:81 --root . --http [::1]:81",
                "--listen [::1]:81 and --http [::1]:81 both need",
            ),
            (
                "edge-server --listen [::1]:81 --root . --tcp on --http [::1]:80 --metrics [::]:80",
                "--http [::1]:80 and --metrics [::]:80 both need",
            ),
            (
                "edge-server --listen 127.0.0.1:0 --root . --acme-directory http://ca.example/",
                "'http://ca.example/' for '--acme-directory <URL>': name the https:// URL",
            ),
            (
                "edge-server --listen 127.0.0.1:0 --root . --acme-dir a --acme-contact a@b",
                "mailto:",
            ),
            ("edge-server --listen 127.0.0.1:0 --root . --acme-ca f", "--acme-dir"),
            ("edge-server --listen 127.0.0.1:0 --root . --acme-dir a --acme-retry 0", "1..=14400"),
            ("edge-server --listen 127.0.0.1:0 --root . --config missing.toml", "missing.toml"),
            ("edge-server --listen 127.0.0.1:0 --root . stray", "'stray'"),
        ];
        for (line, named) in table {
            let Err(Stop::Usage(error)) = parse_words(line) else { panic!("{line}") };
            assert!(error.contains(named), "{line}: {error}");
            assert!(!error.contains('\n'), "{line}: {error}");
        }
    }

    #[test]
    fn metrics_may_have_the_port_of_a_listener_without_tcp() {
        let line = "edge-server --listen [::]:81 --root . --metrics [::1]:81 --tcp off";
        assert!(parse_words(line).is_ok());
    }

    #[test]
    fn help_and_version_are_printed() {
        for flag in ["--help", "-h", "--version"] {
            assert!(matches!(parse(["edge-server", flag]), Err(Stop::Print(_))));
        }
    }
}
