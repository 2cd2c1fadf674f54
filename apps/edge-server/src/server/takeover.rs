//! Hot restart: a new process takes over the sockets, and the old one finishes its connections.
//!
//! Both meet at a Unix socket. The old process gives each worker's UDP socket, and one
//! end of a [link](link::Link). When the new one is ready to serve, the old one stops
//! reading, reports it, and drains. From then on the new one reads everything, and passes on
//! what belongs to none of its connections ([relay](crate::worker::relay)).

use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
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

use crate::config::preflight;
use crate::net::process_link::Link;
use crate::telemetry::admin::AdminListener;
use crate::telemetry::health::Health;
use crate::worker::command::Command;
use crate::worker::command::CommandSender;

/// What the old process begins with. Another version says something else.
const GREETING: [u8; 8] = *b"edge-ho1";

/// The new process is ready; the old one has stopped to read.
const READY: u8 = b'r';
const YOURS: u8 = b'y';

/// Comes with the descriptors of one worker.
const WORKER: u8 = b'w';
const DESCRIPTORS: usize = 2;

/// How long the other process may take for a step.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process that has served so far.
pub struct OldProcess {
    stream: UnixStream,
    path: PathBuf,

    /// Those of its workers, in their order.
    pub sockets: Vec<OwnedFd>,
    pub links: Vec<Link>,
}

/// Where a successor knocks.
pub struct TakeoverListener {
    listener: UnixListener,
    path: PathBuf,

    /// Where it is until it takes its place, which may be another process's.
    built_at: PathBuf,
}

/// What a successor gets, and what ends when it has it.
pub struct TakeoverState {
    /// The workers' UDP sockets, in their order.
    pub sockets: Vec<OwnedFd>,
    pub commands: Arc<CommandSender>,
    pub health: Health,
    pub status: Option<AdminListener>,
}

impl OldProcess {
    /// The process that waits at `path`, if there is one.
    ///
    /// # Errors
    ///
    /// One line that names the path. The other process serves on.
    pub fn find(path: &Path) -> anyhow::Result<Option<Self>> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Nobody listens any more.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            Err(e) => return Err(e).with_context(|| unusable(path)),
        };
        let (sockets, links) = receive(&stream)
            .with_context(|| format!("cannot take over through --takeover {}", path.display()))?;
        Ok(Some(Self { stream, path: path.to_owned(), sockets, links }))
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
        let mut built_at = path.as_os_str().to_owned();
        built_at.push(".new");
        let (path, built_at) = (path.to_owned(), PathBuf::from(built_at));
        let build = || {
            check_free(&path)?;
            match std::fs::remove_file(&built_at) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => (),
            }
            let listener = UnixListener::bind(&built_at)?;
            std::fs::set_permissions(&built_at, PermissionsExt::from_mode(0o600))?;
            Ok(listener)
        };
        let listener = build().with_context(|| unusable(&path))?;
        Ok(Self { listener, path, built_at })
    }

    /// Takes its place, waits for a successor, on a thread of its own, and gives it
    /// everything.
    ///
    /// # Errors
    ///
    /// The process may have no more threads, or the folder is gone.
    pub fn wait(self, takeover_state: TakeoverState) -> io::Result<()> {
        std::fs::rename(&self.built_at, &self.path)?;
        let wait = move || {
            for stream in self.listener.incoming() {
                match stream.and_then(|stream| takeover_state.hand_over(stream)) {
                    Ok(()) => return,
                    Err(e) => warn!("cannot hand over, still serving: {}", reason(&e)),
                }
            }
        };
        thread::Builder::new().name("takeover".into()).spawn(wait)?;
        Ok(())
    }
}

impl TakeoverState {
    /// Gives a process at the other end of `stream` everything, if it takes it.
    fn hand_over(&self, mut stream: UnixStream) -> io::Result<()> {
        let peer = sockopt::socket_peercred(&stream)?.uid;
        if !peer.is_root() && peer != rustix::process::geteuid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&GREETING)?;
        stream.write_all(&(self.sockets.len() as u16).to_be_bytes())?;
        let mut links = Vec::new();
        for socket in &self.sockets {
            let (own, other) = Link::pair()?;
            send_descriptors(&stream, [socket, &other])?;
            links.push(own);
        }
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        if answer != [READY] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.health.drain();
        self.commands.broadcast_and_wait(links.into_iter().map(Command::HandOver));
        if let Some(status) = &self.status {
            status.close();
        }
        // It reads already, should it not hear that.
        let _ = stream.write_all(&[YOURS]);
        eprintln!("edge-server: handed over");
        self.commands.broadcast_and_wait(std::iter::repeat_with(|| Command::Drain));
        Ok(())
    }
}

/// Returns why a handover failed, in the operator's words.
fn reason(error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | UnexpectedEof => "the new server gave up".into(),
        _ => error.to_string(),
    }
}

/// Whether processes could meet at a path, as far as can be told without.
///
/// # Errors
///
/// One line that names it.
pub fn check(path: &Path) -> anyhow::Result<()> {
    check_free(path).and_then(|()| preflight::file(path)).with_context(|| unusable(path))
}

/// Nothing is there, or a socket.
fn check_free(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(there) if !there.file_type().is_socket() => Err(io::ErrorKind::AlreadyExists.into()),
        _ => Ok(()),
    }
}

fn unusable(path: &Path) -> String {
    format!("cannot use --takeover {}; name a socket in a writable folder", path.display())
}

fn receive(mut stream: &UnixStream) -> anyhow::Result<(Vec<OwnedFd>, Vec<Link>)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut greeting, mut workers) = ([0; GREETING.len()], [0; 2]);
    stream.read_exact(&mut greeting)?;
    if greeting != GREETING {
        bail!("another version listens there; stop it first");
    }
    stream.read_exact(&mut workers)?;
    let (mut sockets, mut links) = (Vec::new(), Vec::new());
    for _ in 0..u16::from_be_bytes(workers) {
        let descriptors = receive_descriptors(stream)?;
        let [socket, link] = descriptors
            .try_into()
            .ok()
            .context("file descriptors are missing; raise their limit")?;
        sockets.push(socket);
        links.push(Link::new(link));
    }
    if sockets.is_empty() {
        bail!("it has no sockets; stop the server that listens there");
    }
    Ok((sockets, links))
}

fn send_descriptors(stream: &UnixStream, descriptors: [&OwnedFd; DESCRIPTORS]) -> io::Result<()> {
    let descriptors = descriptors.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    buffer.push(SendAncillaryMessage::ScmRights(&descriptors));
    net::sendmsg(stream, &[IoSlice::new(&[WORKER])], &mut buffer, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive_descriptors(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    let received = net::recvmsg(stream, &mut slices, &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let messages = buffer.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(messages.flatten().collect())
}
