//! UDP: the socket, packets that wait to be sent, datagrams that arrive, and their way to the worker whose they are.

pub mod process_link;
pub mod route;
pub mod send_queue;
pub mod socket;
pub mod steering;
