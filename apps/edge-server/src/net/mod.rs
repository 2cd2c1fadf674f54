//! UDP: sockets of the workers, the send queue, steering of datagrams; links and private sockets
//! between processes, and what goes between servers.

pub mod envelope;
pub mod node_socket;
pub mod private_socket;
pub mod process_link;
pub mod route;
pub mod send_queue;
pub mod socket;
pub mod steering;
