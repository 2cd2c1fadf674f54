//! Memory to receive into: a batch of groups of datagrams, each group of one
//! sender and coalesced by the kernel.

use std::io;
use std::io::IoSliceMut;

use quiche::RecvInfo;
use quinn_udp::RecvMeta;
use quinn_udp::BATCH_SIZE;

use crate::net::socket::Socket;

/// The most bytes that the kernel coalesces.
const GROUP_BYTES_MAX: usize = 1 << 16;

/// Receive buffers of one worker.
pub struct Receiver {
    buffer: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

/// What one receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more.
    Full,

    /// The socket is empty.
    Drained,
}

impl Receiver {
    pub fn new() -> Self {
        let buffer = vec![0; BATCH_SIZE * GROUP_BYTES_MAX];
        Self { buffer, metas: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Receives once and hands each datagram to `take`.
    ///
    /// # Errors
    ///
    /// Those of the system call, except that an empty socket is none. An error
    /// that tells of an earlier send is taken off the socket by being returned.
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut take: impl FnMut(RecvInfo, &mut [u8]),
    ) -> io::Result<Received> {
        let mut groups = self.buffer.chunks_exact_mut(GROUP_BYTES_MAX);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(groups.next().unwrap_or_default()));
        let count = match socket.receive(&mut slices, &mut self.metas) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        for (meta, slice) in self.metas.iter().zip(&mut slices).take(count) {
            let to = socket.arrival_address(meta.dst_ip);
            for datagram in slice[..meta.len].chunks_mut(meta.stride.max(1)) {
                take(RecvInfo { from: meta.addr, to }, datagram);
            }
        }
        Ok(if count == BATCH_SIZE { Received::Full } else { Received::Drained })
    }
}
