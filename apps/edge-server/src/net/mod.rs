//! UDP: the socket, the send queue, receive batches, and steering of datagrams to workers.

pub mod process_link;
pub mod route;
pub mod send_queue;
pub mod socket;
pub mod steering;
