//! Limits on clients: the options, and their defaults.

use std::time::Duration;

use clap::value_parser;
use clap::Args;
use log::warn;
use quiche::resume::ResumeConfig;

/// Largest UDP payload sent where what a path takes is discovered, in bytes: it fills
/// an Ethernet frame with IPv6.
pub const PACKET_BYTES_MAX: usize = 1452;

/// The least that `--max-jump` may be: slow start has as much, twice the largest
/// initial window, when the jump is due.
const MAX_JUMP_LEAST: i64 = 2 * 10 * PACKET_BYTES_MAX as i64;

/// The least that is kept of responses where nothing is said.
const SEND_BUFFER_LEAST: u64 = 32 << 20;

/// Limits for clients, one by one and together. Those that say so count for all
/// workers of the process together.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// The most connections, of all workers together; further clients are refused
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = value_parser!(u32).range(1..))]
    pub connections_max: u32,

    /// The most connections of clients from one subnet, as --prefix-v4 and --prefix-v6
    /// have it; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = value_parser!(u32).range(1..))]
    pub connections_per_subnet: u32,

    /// The most handshakes that begin in a second, in all workers; beyond half of it clients
    /// prove their addresses first, beyond all of it they are refused
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub handshakes_per_second: u32,

    /// A worker with so many handshakes under way has further clients prove their
    /// addresses first
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub retry_above: u32,

    /// How long a handshake may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    pub handshake_timeout: u32,

    /// How long a connection lives without packets from its client
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u32).range(1..))]
    pub idle_timeout: u32,

    /// How long a connection lives at all; then its client is told to connect anew, and has
    /// what it asked
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = value_parser!(u32).range(1..))]
    pub connection_time_max: u32,

    /// How long clients may keep a request unfinished, or a response waiting, while they
    /// send or take less than 256 bytes a second
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
    pub stall_timeout: u32,

    /// The largest window that a connection jumps to; a path that holds twice as much needs
    /// no more
    #[arg(long, value_name = "BYTES", default_value_t = ResumeConfig::default().max_jump as u32, value_parser = value_parser!(u32).range(MAX_JUMP_LEAST..=1 << 30))]
    pub max_jump: u32,

    /// The most of responses that a connection keeps until the client has acknowledged it:
    /// more than its path holds, twice if packets are lost; by default 32 MiB, or four times
    /// --max-jump where that is more
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u64).range(65_536..=4 << 30))]
    pub send_buffer_max: Option<u64>,

    /// The most requests under way on a connection
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = value_parser!(u32).range(1..=10_000))]
    pub requests_max: u32,

    /// The longest request header, each field counted with 32 bytes besides; a longer one
    /// is answered with 431, and one twice as long closes the connection
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 10, value_parser = value_parser!(u32).range(1024..=1 << 20))]
    pub header_bytes_max: u32,
}

impl Limits {
    /// How long a handshake may take.
    pub fn handshake_time(&self) -> Duration {
        seconds(self.handshake_timeout)
    }

    /// How long a connection lives without packets from its client.
    pub fn idle_time(&self) -> Duration {
        seconds(self.idle_timeout)
    }

    /// How long a connection lives until its client is told to go.
    pub fn connection_time(&self) -> Duration {
        seconds(self.connection_time_max)
    }

    /// How long what is under way may stall.
    pub fn stall_time(&self) -> Duration {
        seconds(self.stall_timeout)
    }

    /// The most of responses that a connection keeps, in bytes.
    pub fn send_buffer(&self) -> u64 {
        // Once more while a lost packet is repeated.
        let for_jumps = 2 * self.jumped_flight();
        self.send_buffer_max.unwrap_or(for_jumps.max(SEND_BUFFER_LEAST))
    }

    /// Warns of a send buffer that keeps a connection from what it may jump to.
    pub fn warn_of_send_buffer(&self) {
        let (kept, needed) = (self.send_buffer(), self.jumped_flight());
        if kept < needed {
            warn!(
                "--send-buffer-max {kept} limits what --max-jump {} allows: a connection has no \
                 more than {kept} bytes in flight, and {needed} after such a jump; leave it out, \
                 or lower --max-jump",
                self.max_jump
            );
        }
    }

    /// What is in flight, in bytes, when the largest jump has been confirmed.
    fn jumped_flight(&self) -> u64 {
        2 * u64::from(self.max_jump)
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CaseLine {
        #[command(flatten)]
        limits: Limits,
    }

    /// What these options ask for.
    pub fn limits(options: &[&str]) -> Limits {
        let program = ["edge-server"];
        CaseLine::try_parse_from(program.iter().chain(options)).unwrap().limits
    }

    #[test]
    fn the_send_buffer_follows_the_largest_jump_unless_it_is_said() {
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
