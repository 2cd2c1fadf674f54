//! Model of one direction of a network link.
//!
//! Owns the fate of a packet that enters a link at a given time: when it is
//! delivered and with which ECN codepoint, or why it is dropped. Has no clock,
//! socket, or packet content.
//! Time is an argument, a [`Duration`] since any origin, exact to the
//! nanosecond, so that a relay in real time (`link-emulator`) and a simulation
//! in virtual time get the same verdicts for the same arrivals.
//!
//! A packet passes, in this order:
//!
//! 1. the ECN field: a faulty path clears it, re-marks it or drops the packet;
//! 2. the MTU: a larger IP packet is dropped;
//! 3. named loss: the packets a test names by their number are dropped;
//! 4. random loss, drawn from a seed, of single packets or in bursts;
//! 5. a policer, which drops what exceeds a rate;
//! 6. the buffer, in bytes: drop-tail, and PIE when a packet arrives or CoDel at its head if that
//!    is set. Both mark ECN-capable packets with CE instead of dropping them; a step marks those
//!    that have waited for longer than its threshold;
//! 7. the transmitter, which sends one packet after the other at the link's
//!    rate;
//! 8. aggregation, if it is set: a packet that the transmitter has sent waits for the medium's next
//!    grant, and those that have gathered arrive together;
//! 9. the propagation delay, and jitter, which keeps the order.
//!
//! A link with two queues, DualPI2, is a [`DualQueueLink`], and one with a queue for each flow,
//! FQ-CoDel, a [`FairQueueLink`]: there, the order of packets depends on those that come later.
//!
//! Rate, delay and loss may change at given times ([`LinkConfig::changes`]), once or again and
//! again. A [`PathTrace`] reads such a schedule from a file.
//! Acknowledgements of a flow can be thinned out before they come to a link:
//! [`AckThinner`].
//!
//! Sizes are those of whole IP packets: [`ip_packet_bytes`] adds the headers
//! to a UDP payload. Nothing below IP (Ethernet framing, say) is counted.
//!
//! [`Duration`]: std::time::Duration

mod aggregation;
mod burst;
mod codel;
mod config;
mod decision;
mod discipline;
mod drop_reason;
mod dual_queue;
mod dualpi2;
mod ecn;
mod error;
mod fair_queue;
mod jitter;
mod link;
mod loss;
mod named;
mod pie;
mod policer;
mod rate;
mod schedule;
mod thinning;
mod trace;
mod transmitter;

pub use burst::BurstLoss;
pub use config::LinkConfig;
pub use config::Queue;
pub use config::MTU_BYTES_DEFAULT;
pub use drop_reason::DropReason;
pub use dual_queue::Dequeued;
pub use dual_queue::DualQueueLink;
pub use ecn::Ecn;
pub use ecn::EcnHandling;
pub use error::ConfigError;
pub use fair_queue::FairQueueLink;
pub use link::Backlog;
pub use link::Link;
pub use link::LinkStats;
pub use link::Packet;
pub use link::Verdict;
pub use named::PacketNumbers;
pub use policer::Policer;
pub use rate::Rate;
pub use schedule::Change;
pub use thinning::AckThinner;
pub use thinning::ACK_HOLD;
pub use thinning::ACK_PAYLOAD_BYTES_MAX;
pub use trace::PathTrace;
pub use trace::Step;
pub use trace::TraceError;

/// Bytes of the IPv4 header (without options) and the UDP header.
pub const IPV4_UDP_HEADER_BYTES: u32 = 20 + 8;

/// Bytes of the IPv6 header (without extensions) and the UDP header.
pub const IPV6_UDP_HEADER_BYTES: u32 = 40 + 8;

/// Returns the size of the IP packet that carries `udp_payload_bytes` to or from
/// `peer`. An IPv4 address mapped into IPv6 travels as IPv4.
pub fn ip_packet_bytes(udp_payload_bytes: usize, peer: std::net::IpAddr) -> u32 {
    let header_bytes = match peer.to_canonical() {
        std::net::IpAddr::V4(_) => IPV4_UDP_HEADER_BYTES,
        std::net::IpAddr::V6(_) => IPV6_UDP_HEADER_BYTES,
    };
    u32::try_from(udp_payload_bytes).unwrap_or(u32::MAX).saturating_add(header_bytes)
}
