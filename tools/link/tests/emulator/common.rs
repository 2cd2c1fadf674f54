//! Process of link-emulator, and the sockets at its two ends.

use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::process::Child;
use std::process::ChildStderr;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

/// The longest wait for a packet.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A fast link, so that a test says only what it is about.
const SETTINGS: &str = "--rate 1000 --rtt 2 --buffer 1000000";

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
pub fn now() -> Instant {
    Instant::now()
}

pub fn command(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_link-emulator"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// Runs an emulator that is not expected to come up.
pub fn output(args: &str) -> Output {
    command(args).output().unwrap()
}

pub struct Emulator {
    child: Child,
    stderr: Option<BufReader<ChildStderr>>,
    pub address: SocketAddr,
}

/// Output of an emulator that was stopped.
pub struct Stopped {
    pub summary: serde_json::Value,
    /// Its output after the line that says that it is ready.
    pub stderr: String,
}

impl Emulator {
    /// Starts an emulator towards `server`; later settings win.
    pub fn start(server: SocketAddr, extra: &str) -> Self {
        let with = |flag: &str| extra.split_whitespace().any(|word| word == flag);
        let defaults: Vec<&str> = SETTINGS.split_whitespace().collect();
        let kept = defaults.chunks(2).filter(|pair| !with(pair[0])).flatten();
        let settings: Vec<&str> = kept.copied().collect();
        let listen = if with("--listen") { "" } else { "--listen 127.0.0.1:0" };
        let args = format!("{listen} --to {server} {} {extra}", settings.join(" "));
        let mut child =
            command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("link-emulator: listening on ");
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { child, stderr: Some(stderr), address }
    }

    /// Reads no more of what it says.
    pub fn close_stderr(&mut self) {
        self.stderr = None;
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn stop(mut self, signal: Signal) -> Stopped {
        self.signal(signal);
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        if let Some(pipe) = &mut self.stderr {
            pipe.read_to_string(&mut stderr).unwrap();
        }
        assert!(self.child.wait().unwrap().success());
        assert_eq!(stdout.lines().count(), 1, "{stdout}");
        Stopped { summary: serde_json::from_str(&stdout).unwrap(), stderr }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // After a failed assertion; a stopped one is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn bind(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

pub fn client(address: &str, emulator: &Emulator) -> UdpSocket {
    let socket = bind(address);
    socket.connect(emulator.address).unwrap();
    socket
}

/// Returns the next datagram, which must come, and its sender.
pub fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 1 << 16];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram must come");
    buffer.truncate(len);
    (buffer, from)
}

/// Returns the next `count` datagrams, as text.
pub fn receive_texts(socket: &UdpSocket, count: usize) -> Vec<String> {
    (0..count).map(|_| String::from_utf8(receive(socket).0).unwrap()).collect()
}

/// Has the server answer the client's next datagram. Returns its source address.
pub fn exchange(client: &UdpSocket, server: &UdpSocket) -> SocketAddr {
    client.send(b"ping").unwrap();
    let (ping, from) = receive(server);
    assert_eq!(ping, b"ping");
    server.send_to(b"pong", from).unwrap();
    assert_eq!(receive(client).0, b"pong");
    from
}
