//! Hot restart: a new process takes over the sockets, and the old one finishes its connections.
//!
//! Both meet at a Unix socket. The old process gives each worker's UDP socket, one end of a
//! [link](crate::net::process_link::Link), and its links to still older processes, and the TCP sockets
//! that listen, and the one at which other servers forward packets. When the new one
//! is ready to serve, the old one stops reading, reports it, and drains. From then on the new one
//! reads everything, and passes on what belongs to none of its connections
//! ([relay](crate::worker::relay)). If it ends while the old one has connections, or at once, the old
//! one serves again.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use log::warn;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;

use crate::acme::AcmeHandle;
use crate::net::private_socket;
use crate::net::private_socket::PrivateListener;
use crate::net::process_link::Link;
use crate::quic::worker_octet;
use crate::quic::worker_octet::WorkerMaskKey;
use crate::server::supervisor::Supervisor;
use crate::tcp::TcpHandle;
use crate::telemetry::admin::socket::SecondName;
use crate::telemetry::admin::AdminListener;
use crate::telemetry::health::Health;
use crate::telemetry::process_log::notice;
use crate::worker::command::Command;
use crate::worker::command::CommandSender;
use crate::worker::command::Handover;
use crate::worker::drain::DrainReason;
use crate::worker::nodes::NodeHandle;
use crate::worker::relay::OlderProcess;

/// What the old process begins with. Another version says something else.
const GREETING: [u8; 8] = *b"edge-ho3";

/// What one begins with whose connection IDs have no worker octet, and which has no key of them.
const EARLIER_GREETING: [u8; 8] = *b"edge-ho2";

/// What an admin socket begins with, which has heard nothing for some seconds.
const OF_ADMIN_SOCKET: [u8; 8] = *b"HTTP/1.1";

/// The new process is ready; the old one has stopped to read.
const READY: u8 = b'r';
const YOURS: u8 = b'y';

/// The new process asks for TCP sockets. One without TCP does not, nor one of an older version.
const ASKS_FOR_TCP: u8 = b't';

/// The new process asks for the socket at which other servers forward.
const ASKS_FOR_NODES: u8 = b'n';

/// What comes with a socket, and after the last.
const SOCKET: u8 = b's';
const NO_SOCKET: u8 = b'e';

/// The most links of a worker that a process gets, to the old process and to older ones.
const LINKS_MAX: usize = 16;

/// The socket, and the links.
const DESCRIPTORS_MAX: usize = 1 + LINKS_MAX;

/// Pause after a failure, such as no free file descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Time that the kernel takes to close what a killed process had.
const CLOSING_TIME: Duration = Duration::from_millis(200);

/// How long the other process may take for a step.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process that has served so far.
pub struct OldProcess {
    stream: UnixStream,
    path: PathBuf,

    /// Key of the worker octets in its connection IDs, if they have such.
    pub mask_key: Option<WorkerMaskKey>,

    /// What its workers have given, in their order.
    pub workers: Vec<WorkerDescriptors>,

    /// Its TCP sockets that listen.
    pub tcp_sockets: Vec<OwnedFd>,
}

/// Reason why the old process gave nothing, in the operator's words.
#[derive(Debug)]
enum NoHandover {
    Unresponsive,
    Ended,
}

impl fmt::Display for NoHandover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unresponsive => "the server there does not respond; end it first",
            Self::Ended => {
                "the server there did not hand over; its log says why, or another server was faster"
            }
        })
    }
}

impl std::error::Error for NoHandover {}

/// What a worker gets from the same worker of the old process.
pub struct WorkerDescriptors {
    pub socket: OwnedFd,

    /// The old process, and older ones, the youngest first.
    pub older: Vec<OlderProcess>,
}

/// Where a successor knocks.
pub struct TakeoverListener(PrivateListener);

/// What a successor gets, and what ends when it has it.
pub struct TakeoverState {
    pub generation: u8,
    pub mask_key: WorkerMaskKey,

    /// What the workers have, in their order.
    pub workers: Vec<WorkerDescriptors>,

    pub tcp: Option<TcpHandle>,

    /// Receiver of what other servers forward.
    pub nodes: Option<NodeHandle>,
    pub acme: AcmeHandle,
    pub supervisor: Supervisor,

    pub commands: Arc<CommandSender>,
    pub health: Health,
    pub status: Option<AdminListener>,

    /// The name of the admin socket while a newer process has its path.
    pub admin: Option<Arc<SecondName>>,
}

impl OldProcess {
    /// The process that waits at `path`, if there is one. It is asked for its TCP sockets if this one
    /// `has_tcp`.
    ///
    /// # Errors
    ///
    /// One line that names the path. The other process serves on.
    pub fn find(path: &Path, has_tcp: bool) -> Option<anyhow::Result<Self>> {
        if let Err(e) = check(path) {
            return Some(Err(e));
        }
        match Self::find_once(path, has_tcp)? {
            Err(e) if matches!(e.downcast_ref(), Some(NoHandover::Ended)) => {
                // The kernel accepts for a process that was killed, until it has closed all of it.
                thread::sleep(CLOSING_TIME);
                Self::find_once(path, has_tcp)
            }
            found => Some(found),
        }
    }

    fn find_once(path: &Path, has_tcp: bool) -> Option<anyhow::Result<Self>> {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        match UnixStream::connect(path) {
            Ok(stream) => Some(Self::receive(stream, path, has_tcp)),
            // Nobody listens there yet, or any more.
            Err(e) if [NotFound, ConnectionRefused].contains(&e.kind()) => None,
            Err(e) => Some(Err(e).with_context(|| unusable(path))),
        }
    }

    fn receive(stream: UnixStream, path: &Path, has_tcp: bool) -> anyhow::Result<Self> {
        // The process that listens there decides which sockets this server reads.
        let trusted = private_socket::check_peer(&stream).map_err(anyhow::Error::from);
        let workers = trusted.and_then(|()| receive(&stream)).map_err(explained);
        let (mask_key, workers) = workers
            .with_context(|| format!("cannot take over through --takeover {}", path.display()))?;
        let (path, tcp_sockets) = (path.to_owned(), Vec::new());
        let mut old_process = Self { stream, path, mask_key, workers, tcp_sockets };
        if !has_tcp {
            return Ok(old_process);
        }
        match old_process.receive_tcp_sockets() {
            Ok(()) => Ok(old_process),
            // One of an older version has none, and expects something else.
            Err(_) => {
                let path = &old_process.path;
                let stream = UnixStream::connect(path).with_context(|| unusable(path))?;
                Self::receive(stream, path, false)
            }
        }
    }

    fn receive_tcp_sockets(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&[ASKS_FOR_TCP])?;
        self.tcp_sockets = receive_sockets(&self.stream)?;
        Ok(())
    }

    /// Receives the socket at which other servers forward, if it has one. One of an earlier release does not.
    ///
    /// # Errors
    ///
    /// It did not hand over.
    pub fn receive_node_socket(&mut self) -> anyhow::Result<Option<OwnedFd>> {
        if self.mask_key.is_none() {
            return Ok(None);
        }
        self.stream.write_all(&[ASKS_FOR_NODES])?;
        Ok(receive_sockets(&self.stream)?.pop())
    }

    /// Returns its generation.
    pub fn generation(&self) -> u8 {
        let older = self.workers.first().and_then(|worker| worker.older.first());
        older.map_or(0, |old_process| old_process.generation)
    }

    /// Returns its process ID, if it has started this process.
    pub fn parent(&self) -> Option<u32> {
        let id = sockopt::socket_peercred(&self.stream).ok()?.pid.as_raw_nonzero();
        let parent = rustix::process::getppid()?.as_raw_nonzero();
        (id == parent).then(|| id.get().cast_unsigned())
    }

    /// Tells it to stop reading: the new process is about to.
    ///
    /// # Errors
    ///
    /// It did not, and serves on.
    pub fn request_handover(mut self) -> anyhow::Result<()> {
        let mut answer = [0];
        let said = self.stream.write_all(&[READY]);
        let said = said.and_then(|()| self.stream.read_exact(&mut answer));
        if said.is_err() || answer != [YOURS] {
            bail!("the server at --takeover {} did not hand over; try again", self.path.display());
        }
        Ok(())
    }
}

impl TakeoverListener {
    /// Builds one for `path`, beside it.
    ///
    /// # Errors
    ///
    /// One line that names the path: no socket can be there.
    pub fn build(path: &Path) -> anyhow::Result<Self> {
        PrivateListener::build(path).map(Self).with_context(|| unusable(path))
    }

    /// Takes its place, waits for a successor, on a thread of its own, and gives it
    /// everything. If all successors end before this process, does so again.
    ///
    /// # Errors
    ///
    /// The process may have no more threads, or the folder is gone.
    pub fn wait(self, mut takeover_state: TakeoverState) -> anyhow::Result<()> {
        self.take_place()?;
        let wait = move || {
            let mut listener = self;
            loop {
                let newer_ended = listener.hand_over(&takeover_state);
                let path = listener.0.path().to_owned();
                drop(listener);
                // The workers end, or serve again.
                if newer_ended.recv().is_err() {
                    return;
                }
                takeover_state.serve_again();
                let built = Self::build(&path);
                let built = built.and_then(|built| built.take_place().map(|()| built));
                // Only now: who reads that may ask for metrics or start the next server at once.
                match takeover_state.health.is_draining() {
                    true => notice!("the newer server has ended; draining on"),
                    false => notice!("the newer server has ended; serving again"),
                }
                listener = match built {
                    Ok(listener) => listener,
                    Err(e) => return warn!("no server can take over: {e:#}"),
                };
            }
        };
        thread::Builder::new().name("takeover".into()).spawn(wait)?;
        Ok(())
    }

    fn take_place(&self) -> anyhow::Result<()> {
        self.0.take_place().with_context(|| unusable(self.0.path()))
    }

    /// Waits for a successor, and gives it everything. Returns what gets a message when all
    /// successors have ended.
    fn hand_over(&self, takeover_state: &TakeoverState) -> Receiver<()> {
        loop {
            let stream = self.0.listener.accept().map(|(stream, _)| stream);
            match stream.and_then(|stream| takeover_state.hand_over(stream)) {
                Ok(newer_ended) => return newer_ended,
                Err(e) => {
                    warn!("cannot hand over, still serving: {}", reason(&e));
                    thread::sleep(RETRY_DELAY);
                }
            }
        }
    }
}

impl TakeoverState {
    /// Gives a process at the other end of `stream` everything, if it takes it. Returns what gets a
    /// message when that process and all that take over from it have ended.
    fn hand_over(&self, mut stream: UnixStream) -> io::Result<Receiver<()>> {
        private_socket::check_peer(&stream)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&GREETING)?;
        stream.write_all(&self.mask_key.to_bytes())?;
        stream.write_all(&(self.workers.len() as u16).to_be_bytes())?;
        let mut links = Vec::new();
        for worker in &self.workers {
            let (own, other) = Link::pair()?;
            let this = OlderProcess { generation: self.generation, link: Link::new(other) };
            send_worker(&stream, &worker.socket, &this, &worker.older)?;
            links.push(own);
        }
        let mut nodes = None;
        loop {
            let mut answer = [0];
            stream.read_exact(&mut answer)?;
            match answer {
                [READY] => break,
                [ASKS_FOR_TCP] => {
                    let sockets = self.tcp.as_ref().map_or(&[][..], TcpHandle::sockets);
                    send_sockets(&stream, sockets)?;
                }
                [ASKS_FOR_NODES] => {
                    nodes = self.nodes.as_ref();
                    let sockets: Vec<_> = nodes.into_iter().map(|nodes| &*nodes.socket).collect();
                    send_sockets(&stream, &sockets)?;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        self.health.set_handed_over(true);
        let second_name = self.admin.as_ref().map(|admin| admin.add()).transpose();
        let (newer_ended, all_ended) = channel();
        let handovers = links
            .into_iter()
            .map(|link| Command::HandOver(Handover { link, newer_ended: newer_ended.clone() }));
        self.acme.set_paused(true);
        self.tcp.iter().for_each(TcpHandle::hand_over);
        nodes.into_iter().for_each(NodeHandle::hand_over);
        self.commands.broadcast_and_wait(handovers);
        drop(newer_ended);
        if let Some(status) = &self.status {
            status.close();
        }
        // It reads already, should it not hear that.
        let _ = stream.write_all(&[YOURS]);
        match second_name {
            Ok(None) => notice!("handed over"),
            Ok(Some(path)) => notice!("handed over; the admin socket is now {}", path.display()),
            Err(e) => notice!("handed over, and so is the admin socket: {e:#}"),
        }
        // Only now: a process without connections ends at once.
        let drain = || Command::Drain(DrainReason::HandedOver);
        self.commands.broadcast_and_wait(std::iter::repeat_with(drain));
        Ok(all_ended)
    }

    /// Serves what the event loops do not: readiness, metrics and commands.
    fn serve_again(&mut self) {
        self.health.set_handed_over(false);
        self.acme.set_paused(false);
        // Before it is told: clients may come at once.
        self.tcp.iter().for_each(TcpHandle::serve_again);
        self.nodes.iter().for_each(NodeHandle::serve_again);
        if let Some(Err(e)) = self.status.as_mut().map(AdminListener::reopen) {
            warn!("{e:#}");
        }
        if let Some(Err(e)) = self.admin.as_ref().map(|admin| admin.take_back()) {
            warn!("{e:#}");
        }
        self.supervisor.set_silent(false);
        if !self.health.is_draining() {
            self.supervisor.ready();
        }
    }
}

/// Returns why a handover failed, in the operator's words.
fn reason(error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => {
            "the new server gave up; its log says why".into()
        }
        _ => error.to_string(),
    }
}

/// Replaces an error of the connection to the old process by what the operator can do.
fn explained(error: anyhow::Error) -> anyhow::Error {
    use io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(WouldBlock | TimedOut) => NoHandover::Unresponsive.into(),
        Some(ConnectionReset | UnexpectedEof) => NoHandover::Ended.into(),
        _ => error,
    }
}

/// Checks whether processes could meet at a path, as far as can be told without.
///
/// # Errors
///
/// One line that names it.
pub fn check(path: &Path) -> anyhow::Result<()> {
    private_socket::check(path).with_context(|| unusable(path))
}

fn unusable(path: &Path) -> String {
    format!("cannot use --takeover {}; name a socket in a writable folder", path.display())
}

fn receive(
    mut stream: &UnixStream,
) -> anyhow::Result<(Option<WorkerMaskKey>, Vec<WorkerDescriptors>)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut greeting, mut workers) = ([0; GREETING.len()], [0; 2]);
    stream.read_exact(&mut greeting)?;
    if greeting == OF_ADMIN_SOCKET {
        bail!("that is an admin socket; name the path of --takeover of the server that has it");
    }
    let mask_key = match greeting {
        GREETING => {
            let mut key = [0; worker_octet::KEY_BYTES];
            stream.read_exact(&mut key)?;
            Some(WorkerMaskKey::from_bytes(key))
        }
        EARLIER_GREETING => None,
        _ => bail!("another version listens there; stop it first"),
    };
    stream.read_exact(&mut workers)?;
    let workers = (0..u16::from_be_bytes(workers)).map(|_| receive_worker(stream));
    let workers = workers.collect::<anyhow::Result<Vec<_>>>()?;
    if workers.is_empty() {
        bail!("it has no sockets; stop the server that listens there");
    }
    Ok((mask_key, workers))
}

/// Sends the descriptors of one worker, with the number of links and their generations.
fn send_worker(
    stream: &UnixStream,
    socket: &OwnedFd,
    this: &OlderProcess,
    older: &[OlderProcess],
) -> io::Result<()> {
    // They are those of the start of this process.
    let older: Vec<_> = older.iter().filter(|older| !older.link.is_closed()).collect();
    if older.len() >= LINKS_MAX {
        return Err(io::Error::other(format!(
            "{} older servers still have clients; drain or stop them through their admin sockets",
            older.len()
        )));
    }
    let links: Vec<_> = std::iter::once(this).chain(older).collect();
    let mut message = [0; 1 + LINKS_MAX];
    message[0] = links.len() as u8;
    for (slot, link) in message[1..].iter_mut().zip(&links) {
        *slot = link.generation;
    }
    let of_links = links.iter().map(|older| older.link.as_fd());
    let descriptors: Vec<_> = std::iter::once(socket.as_fd()).chain(of_links).collect();
    send(stream, &message, &descriptors)
}

/// Sends sockets, each with a byte, and a byte at the end.
fn send_sockets(stream: &UnixStream, sockets: &[impl AsFd]) -> io::Result<()> {
    sockets.iter().try_for_each(|socket| send(stream, &[SOCKET], &[socket.as_fd()]))?;
    send(stream, &[NO_SOCKET], &[])
}

fn receive_sockets(stream: &UnixStream) -> anyhow::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    loop {
        let mut message = [0];
        let mut descriptors = receive_message(stream, &mut message)?;
        match (message, descriptors.pop_front()) {
            ([NO_SOCKET], None) => return Ok(sockets),
            ([SOCKET], Some(socket)) => sockets.push(socket),
            _ => bail!("file descriptors are missing; raise their limit"),
        }
    }
}

/// Sends a message with descriptors.
fn send(stream: &UnixStream, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        buffer.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    net::sendmsg(stream, &[IoSlice::new(message)], &mut buffer, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message of this length, and its descriptors.
fn receive_message(stream: &UnixStream, message: &mut [u8]) -> anyhow::Result<VecDeque<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let length = message.len();
    let mut slices = [IoSliceMut::new(message)];
    let received = net::recvmsg(stream, &mut slices, &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let messages = buffer.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(messages.flatten().collect())
}

fn receive_worker(stream: &UnixStream) -> anyhow::Result<WorkerDescriptors> {
    let mut message = [0; 1 + LINKS_MAX];
    let mut descriptors = receive_message(stream, &mut message)?;
    let [links, generations @ ..] = message;
    if descriptors.len() != 1 + usize::from(links) {
        bail!("file descriptors are missing; raise their limit");
    }
    let socket = descriptors.pop_front().context("the socket is missing")?;
    let older = generations.into_iter().zip(descriptors);
    let older = older.map(|(generation, link)| OlderProcess { generation, link: Link::new(link) });
    Ok(WorkerDescriptors { socket, older: older.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixListener;

    /// Hands over as a process of an older version does: what is no READY ends the attempt.
    fn hand_over_as_older_version(listener: &UnixListener) -> io::Result<[u8; 1]> {
        let (mut stream, _) = listener.accept()?;
        let socket = OwnedFd::from(UdpSocket::bind("127.0.0.1:0")?);
        let (_, other) = Link::pair()?;
        stream.write_all(&EARLIER_GREETING)?;
        stream.write_all(&1u16.to_be_bytes())?;
        let this = OlderProcess { generation: 0, link: Link::new(other) };
        send_worker(&stream, &socket, &this, &[])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        if answer == [READY] {
            stream.write_all(&[YOURS])?;
        }
        Ok(answer)
    }

    // One that was killed accepts until the kernel has closed what it had.
    #[test]
    fn old_process_that_is_being_closed_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("takeover.sock");
        for connections in [1, 2] {
            let listener = UnixListener::bind(&path).unwrap();
            let killed = thread::spawn(move || {
                (0..connections).for_each(|_| drop(listener.accept()));
            });
            let found = OldProcess::find(&path, false);
            let error = found.map(|found| format!("{:#}", found.map(drop).unwrap_err()));
            assert_eq!(error.is_none(), connections == 1, "{error:?}");
            killed.join().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn process_of_an_older_version_hands_over_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("takeover.sock");
        for (has_tcp, answers) in [(false, &[READY][..]), (true, &[ASKS_FOR_TCP, READY])] {
            let listener = UnixListener::bind(&path).unwrap();
            let count = answers.len();
            let older = thread::spawn(move || {
                (0..count)
                    .map(|_| hand_over_as_older_version(&listener).map_or(0, |[answer]| answer))
                    .collect::<Vec<_>>()
            });
            let old_process = OldProcess::find(&path, has_tcp).unwrap().unwrap();
            assert_eq!((old_process.workers.len(), old_process.tcp_sockets.len()), (1, 0));
            assert_eq!(old_process.mask_key, None);
            old_process.request_handover().unwrap();
            assert_eq!(older.join().unwrap(), answers);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
