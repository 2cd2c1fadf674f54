//! Receive batches: buffers for several groups of datagrams, each group from one sender and
//! coalesced by the kernel.

use std::io;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::time::Duration;

use quinn_udp::EcnCodepoint;
use quinn_udp::RecvMeta;

use crate::socket::Socket;

/// Maximum number of groups in one call.
pub const GROUPS_MAX: usize = quinn_udp::BATCH_SIZE;

/// Maximum size of a group, in bytes.
const GROUP_BYTES_MAX: usize = 1 << 16;

/// Receive buffers, which several sockets may share.
#[derive(Debug)]
pub struct Receiver {
    buffer: Box<[u8]>,
    metas: [RecvMeta; GROUPS_MAX],
}

/// Result of one receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more.
    Full,

    /// The socket is empty.
    Drained,
}

/// Consecutive datagrams of one sender.
#[derive(Debug)]
pub struct Group<'a> {
    pub from: SocketAddr,

    /// The address that they were sent to.
    pub to: SocketAddr,
    pub ecn: Option<EcnCodepoint>,

    /// When the kernel received them, since the Unix epoch. A socket that is bound to all
    /// addresses does not know.
    pub timestamp: Option<Duration>,

    /// The size of each; the last may be shorter.
    pub datagram_bytes: usize,
    pub contents: &'a mut [u8],
}

impl Receiver {
    /// Reserves memory for a number of groups, from 1 to [`GROUPS_MAX`].
    pub fn new(groups: usize) -> Self {
        let groups = groups.clamp(1, GROUPS_MAX);
        let buffer = vec![0; groups * GROUP_BYTES_MAX].into_boxed_slice();
        Self { buffer, metas: [RecvMeta::default(); GROUPS_MAX] }
    }

    /// Receives once and hands each group of datagrams to `take`.
    ///
    /// # Errors
    ///
    /// Those of the system call, except that an empty socket is no error. An error that
    /// reports an earlier send is reported once.
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut take: impl FnMut(Group<'_>),
    ) -> io::Result<Received> {
        let groups = self.buffer.len() / GROUP_BYTES_MAX;
        let mut chunks = self.buffer.chunks_exact_mut(GROUP_BYTES_MAX);
        let mut buffers: [IoSliceMut<'_>; GROUPS_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = match socket.receive(&mut buffers[..groups], &mut self.metas) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        for (meta, buffer) in self.metas.iter().zip(&mut buffers).take(count) {
            take(Group {
                from: meta.addr,
                to: socket.arrival_address(meta.dst_ip),
                ecn: meta.ecn,
                timestamp: meta.timestamp,
                datagram_bytes: meta.stride,
                contents: &mut buffer[..meta.len],
            });
        }
        Ok(if count == groups { Received::Full } else { Received::Drained })
    }
}

impl<'a> Group<'a> {
    /// Takes the group apart. An empty datagram is one, too.
    pub fn into_datagrams(self) -> impl Iterator<Item = &'a mut [u8]> {
        let empty: Option<&mut [u8]> = self.contents.is_empty().then_some(&mut []);
        empty.into_iter().chain(self.contents.chunks_mut(self.datagram_bytes.max(1)))
    }
}

/// Takes the contents of a group apart. An empty datagram is one, too.
pub fn datagrams(contents: &[u8], datagram_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let empty = contents.is_empty().then_some(contents);
    empty.into_iter().chain(contents.chunks(datagram_bytes.max(1)))
}
