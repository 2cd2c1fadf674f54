//! Batched UDP: sockets that send and receive many datagrams with one system call.
//!
//! The kernel segments sent data into datagrams (GSO), coalesces received datagrams of one sender
//! (GRO), and returns several such groups at a time (recvmmsg). Without one of these, each call
//! carries less.

mod control_messages;
pub mod drops;
mod receiver;
mod segmentation;
mod socket;

pub use quinn_udp::EcnCodepoint;

pub use crate::receiver::datagrams;
pub use crate::receiver::Group;
pub use crate::receiver::Received;
pub use crate::receiver::Receiver;
pub use crate::receiver::GROUPS_MAX;
pub use crate::socket::bind_group;
pub use crate::socket::Destination;
pub use crate::socket::Socket;
