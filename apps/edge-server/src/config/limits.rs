//! Limits on clients: the options, and their defaults.

use std::sync::OnceLock;
use std::time::Duration;

use clap::value_parser;
use clap::Args;
use log::warn;
use quiche::careful_resume::CarefulResumeConfig;
use rustix::process::getrlimit;
use rustix::process::Resource;

use crate::config::heading::LIMITS;
use crate::config::heading::RESUME;

/// Largest UDP payload that path MTU discovery tries, in bytes: fills an Ethernet frame with
/// IPv6.
pub const PACKET_BYTES_MAX: usize = 1452;

/// Flow-control windows of a connection, in bytes: clients send little more than requests. That of
/// uploads is the largest BDP that the server is meant for. The server discards uploads as they
/// arrive, so that the window costs memory only behind a gap.
pub const CONNECTION_WINDOW_BYTES: u64 = 1 << 20;
pub const UPLOAD_WINDOW_BYTES_MAX: u64 = 24 << 20;

/// Largest header section that HTTP/3 decodes, as a multiple of `--header-bytes-max`: sections
/// between the two limits get a 431, larger ones close the connection.
pub const DECODED_HEADERS_MULTIPLE: u64 = 2;

/// Smallest `--max-jump`, for clap.
const MAX_JUMP_MIN: i64 = CarefulResumeConfig::MAX_JUMP_MIN as i64;

/// Smallest default of `--send-buffer-max`, in bytes.
const SEND_BUFFER_DEFAULT_MIN: u64 = 32 << 20;

/// Share of the file descriptors that requests leave to other things, such as a takeover, and the
/// most of them.
const RESERVED_DIVISOR: u64 = 4;
const RESERVED_MAX: u64 = 128;

/// TCP connections may have one in so many file descriptors of those that requests may use.
const TCP_DIVISOR: u64 = 4;

/// Limits on clients.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = LIMITS)]
pub struct Limits {
    /// Maximum number of connections, all workers together
    ///
    /// The server refuses further clients with CONNECTION_REFUSED. TCP connections count apart, and may
    /// have a quarter of the file descriptors.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = value_parser!(u32).range(1..))]
    pub connections_max: u32,

    /// Maximum number of connections from one client subnet
    ///
    /// --prefix-v4 and --prefix-v6 define subnets. An idle or stuck connection of the client that has
    /// most makes room; if there is none, the server refuses further clients of the subnet.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = value_parser!(u32).range(1..))]
    pub connections_per_subnet: u32,

    /// Maximum number of handshakes that begin in a second, all workers together
    ///
    /// Half of them are reserved for clients with a validated address. When the other half is used
    /// up, other clients get a Retry; when all are, clients with a validated address are refused.
    /// Of these, one client may have an eighth of all.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub handshakes_per_second: u32,

    /// Unfinished handshakes in a worker at which further clients get a Retry
    ///
    /// With 0, every client has to validate its address first.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub retry_above: u32,

    /// Maximum duration of a handshake, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    pub handshake_timeout: u32,

    /// Time without packets from the client after which a connection ends, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u32).range(1..))]
    pub idle_timeout: u32,

    /// Maximum lifetime of a connection, in seconds
    ///
    /// The client then gets a GOAWAY, receives what it has requested, and reconnects for more.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = value_parser!(u32).range(1..))]
    pub connection_time_max: u32,

    /// Time after which a stalled request or response is cancelled, in seconds
    ///
    /// A request or response is stalled while its connection moves less than 256 bytes a second. A
    /// request's header must arrive within this time in any case.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
    pub stall_timeout: u32,

    /// Largest congestion window to jump to, in bytes
    ///
    /// A jump goes to half the saved capacity, so that paths with a bandwidth-delay product of up
    /// to twice this value need no more. At most twice this value is saved as capacity. The
    /// minimum, 29040, is what slow start reaches by the time of the jump.
    #[arg(long, value_name = "BYTES", default_value_t = CarefulResumeConfig::default().max_jump as u32,
        help_heading = RESUME, value_parser = value_parser!(u32).range(MAX_JUMP_MIN..=1 << 30))]
    pub max_jump: u32,

    /// Maximum response data buffered for a connection until the client acknowledges it, in bytes
    /// [default: 33554432, or 4 x --max-jump if that is more]
    ///
    /// It limits what is in flight: a connection needs the bandwidth-delay product of its path, and as
    /// much again while a lost packet is retransmitted.
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u64).range(65_536..=4 << 30))]
    pub send_buffer_max: Option<u64>,

    /// Maximum response data buffered for all connections together, in bytes
    ///
    /// Beyond it, the server closes the largest connection of the subnet that keeps most, with
    /// H3_EXCESSIVE_LOAD, and goes on until the rest fits.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = value_parser!(u64).range(1 << 20..=1 << 50))]
    pub responses_memory_max: u64,

    /// Maximum request data buffered for all connections together, in bytes
    ///
    /// It counts data that is not read yet or has a gap before it, and headers that have not ended.
    /// Beyond it, the server closes the largest connection of the subnet that keeps most, with
    /// H3_EXCESSIVE_LOAD.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20, value_parser = value_parser!(u64).range(1 << 20..=1 << 50))]
    pub requests_memory_max: u64,

    /// Maximum number of files that responses have open [default: half the file descriptors that
    /// requests may use]
    ///
    /// Responses with the same file share it; it counts for one that is not finished. A subnet may
    /// have half of them open: its further requests get a 503 response. Beyond the maximum for all,
    /// the server closes the connection that has most of the subnet that has most, with
    /// H3_EXCESSIVE_LOAD.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(16..))]
    pub open_files_max: Option<u32>,

    /// Maximum number of concurrent requests on a connection
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = value_parser!(u32).range(1..=10_000))]
    pub requests_max: u32,

    /// Maximum length of a request's header, in bytes
    ///
    /// Each field counts with 32 bytes in addition to its name and value. A longer header gets a 431
    /// response; one more than twice as long closes the connection.
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 10, value_parser = value_parser!(u32).range(1024..=1 << 20))]
    pub header_bytes_max: u32,
}

impl Limits {
    /// Returns the timeout of a handshake.
    pub fn handshake_time(&self) -> Duration {
        seconds(self.handshake_timeout)
    }

    /// Returns the idle timeout of a connection.
    pub fn idle_time(&self) -> Duration {
        seconds(self.idle_timeout)
    }

    /// Returns the age at which a connection begins a graceful shutdown.
    pub fn connection_time(&self) -> Duration {
        seconds(self.connection_time_max)
    }

    /// Returns how long a request or response may stall.
    pub fn stall_time(&self) -> Duration {
        seconds(self.stall_timeout)
    }

    /// Returns the largest send buffer of a connection, in bytes.
    pub fn send_buffer(&self) -> u64 {
        // Twice, for the round trip in which lost packets are retransmitted.
        let for_jumps = 2 * self.jumped_flight();
        self.send_buffer_max.unwrap_or(for_jumps.max(SEND_BUFFER_DEFAULT_MIN))
    }

    /// Returns how many TCP connections there may be: each has a file descriptor, and most are left to
    /// files.
    pub fn tcp_connections(&self) -> u32 {
        let descriptors = request_descriptors() / TCP_DIVISOR;
        u32::try_from(descriptors)
            .map_or(self.connections_max, |most| most.min(self.connections_max))
    }

    /// Returns how many TCP connections a subnet may have: half of all at most, so that none keeps
    /// others out.
    pub fn tcp_connections_per_subnet(&self) -> u32 {
        self.connections_per_subnet.min(self.tcp_connections().div_ceil(2))
    }

    /// Returns how many files responses may have open.
    pub fn open_files(&self) -> u64 {
        self.open_files_max.map_or_else(|| request_descriptors() / 2, u64::from)
    }

    /// Warns if the send buffer is smaller than the flight after the largest jump.
    pub fn warn_of_send_buffer(&self) {
        let (buffer, needed) = (self.send_buffer(), self.jumped_flight());
        if buffer < needed {
            warn!(
                "--send-buffer-max {buffer} limits what --max-jump {} allows: a connection has at \
                 most {buffer} bytes in flight, and such a jump leads to {needed}; leave it out, \
                 or lower --max-jump",
                self.max_jump
            );
        }
    }

    /// Warns if one connection may keep more responses than all together.
    pub fn warn_of_responses_memory(&self) {
        let (memory, buffer) = (self.responses_memory_max, self.send_buffer());
        if memory < buffer {
            warn!(
                "--responses-memory-max {memory} is less than --send-buffer-max {buffer}: the server \
                 closes a connection for what it alone may keep; raise the one, or lower the other"
            );
        }
    }

    /// Warns if one connection, which may take `uploads`, may keep more of requests than all together.
    pub fn warn_of_requests_memory(&self, uploads: bool) {
        let window = if uploads { UPLOAD_WINDOW_BYTES_MAX } else { CONNECTION_WINDOW_BYTES };
        let needed = window + DECODED_HEADERS_MULTIPLE * u64::from(self.header_bytes_max);
        let memory = self.requests_memory_max;
        if memory < needed {
            warn!(
                "--requests-memory-max {memory} is less than the {needed} bytes that a connection may \
                 need: the server closes it for what it alone may keep; raise it, lower \
                 --header-bytes-max, or leave --speedtest out"
            );
        }
    }

    /// Warns if responses may have more files open than the process.
    pub fn warn_of_open_files(&self) {
        let process_max = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let warning = self.open_files_max.and_then(|max| open_files_warning(max, process_max));
        warning.into_iter().for_each(|line| warn!("{line}"));
    }

    /// Returns the bytes in flight once the largest jump has been validated.
    fn jumped_flight(&self) -> u64 {
        2 * u64::from(self.max_jump)
    }
}

/// Returns how many file descriptors the process may have while a request gets one, as of the first
/// call: every request asks, and the process raises its limit only when it starts.
pub fn request_descriptors() -> u64 {
    static DESCRIPTORS: OnceLock<u64> = OnceLock::new();
    let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    *DESCRIPTORS.get_or_init(|| request_descriptors_of(limit()))
}

fn request_descriptors_of(limit: u64) -> u64 {
    limit - (limit / RESERVED_DIVISOR).min(RESERVED_MAX)
}

fn open_files_warning(files_max: u32, process_max: u64) -> Option<String> {
    (u64::from(files_max) > process_max).then(|| {
        format!(
            "--open-files-max {files_max} is more than the {process_max} files that the process may \
             have open: requests get 503 before; lower it, or raise the limit (LimitNOFILE, ulimit -Hn)"
        )
    })
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct LimitArgs {
        #[command(flatten)]
        limits: Limits,
    }

    /// Parses `options`.
    pub fn limits(options: &[&str]) -> Limits {
        let program = ["edge-server"];
        LimitArgs::try_parse_from(program.iter().chain(options)).unwrap().limits
    }

    #[test]
    fn more_files_than_the_process_may_have_are_warned_of() {
        assert!(open_files_warning(1025, 1024).unwrap().contains("--open-files-max 1025"));
        assert_eq!(open_files_warning(1024, 1024), None);
    }

    // Beside files, a process has sockets, pollers, logs and the store: 33 with two workers. Until a
    // connection is closed, subnets open half as many again (`admission::file_limits`).
    #[test]
    fn files_leave_descriptors_of_any_limit_to_requests() {
        for limit in [240, 256, 1024, 4096, 1 << 20] {
            let requests = request_descriptors_of(limit);
            let files = requests / 2;
            assert!(files + files / 2 + 40 <= requests, "{limit}");
        }
    }

    #[test]
    fn send_buffer_default_follows_max_jump() {
        for (options, expected) in [
            (&[][..], 32 << 20),
            (&["--max-jump", "30000"], 32 << 20),
            (&["--max-jump", "40000000"], 160_000_000),
            (&["--max-jump", "1073741824"], 4 << 30),
            (&["--max-jump", "40000000", "--send-buffer-max", "65536"], 65_536),
        ] {
            assert_eq!(limits(options).send_buffer(), expected, "{options:?}");
        }
    }
}
