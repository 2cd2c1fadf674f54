//! Origin whose responses a test writes byte by byte.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// What an origin does once it has a request.
#[derive(Clone, Debug)]
pub enum Act {
    Send(Vec<u8>),

    /// Sends so many responses with the status 103.
    Inform(usize),

    /// Receives the content of the request, and responds with it.
    Echo,

    /// Sends content without an end, until the connection ends.
    Flood,

    /// Takes content, and waits until the server ends the connection.
    Wait,

    /// Sends bytes and the end of the connection at once.
    SendLast(Vec<u8>),

    /// Ends the connection, or resets it.
    Close,
    Reset,
}

/// A running origin. Its threads end with the test.
#[derive(Clone)]
pub struct ScriptedOrigin {
    pub address: SocketAddr,
    state: Arc<OriginState>,
}

#[derive(Default)]
struct OriginState {
    /// Header sections of requests.
    requests: Mutex<Vec<String>>,

    /// Bytes of floods that the kernel has taken.
    flooded_bytes: AtomicU64,

    /// Floods and waits that the server has ended.
    ended: AtomicU64,
}

impl ScriptedOrigin {
    /// Starts an origin that does to each request what `script` says of its target.
    pub fn start(script: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::start_by_head(move |head| script(target_of(head)))
    }

    /// Starts an origin that does to each request what `script` says of its header section.
    pub fn start_by_head(script: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(OriginState::default()),
        };
        let (state, script) = (Arc::clone(&origin.state), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, script) = (Arc::clone(&state), Arc::clone(&script));
                thread::spawn(move || state.serve(stream, &*script));
            }
        });
        origin
    }

    /// Returns the header sections of requests for a target.
    pub fn requests(&self, target: &str) -> Vec<String> {
        let requests = self.state.requests.lock().unwrap();
        requests.iter().filter(|head| target_of(head) == target).cloned().collect()
    }

    pub fn flooded_bytes(&self) -> u64 {
        self.state.flooded_bytes.load(Ordering::Relaxed)
    }

    /// Returns how many floods and waits the server has ended.
    pub fn ended(&self) -> u64 {
        self.state.ended.load(Ordering::Relaxed)
    }
}

/// Returns the target of a request with this header section.
pub fn target_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

impl OriginState {
    /// Serves the requests of a connection, one after the other.
    fn serve(&self, mut stream: TcpStream, script: &dyn Fn(&str) -> Vec<Act>) {
        while let Some(head) = read_head(&mut stream) {
            let acts = script(&head);
            self.requests.lock().unwrap().push(head.clone());
            for act in acts {
                if !self.act(act, &head, &mut stream) {
                    return;
                }
            }
        }
    }

    /// Returns whether the connection goes on.
    fn act(&self, act: Act, head: &str, stream: &mut TcpStream) -> bool {
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).is_ok(),
            Act::SendLast(bytes) => {
                rustix::net::sockopt::set_tcp_cork(&*stream, true).unwrap();
                // What follows would fail anyway.
                let _ = stream.write_all(&bytes);
                false
            }
            Act::Inform(count) => {
                let head = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(count);
                stream.write_all(&head).is_ok()
            }
            Act::Echo => {
                let Some(content) = read_content(head, stream) else { return false };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", content.len());
                stream.write_all(&[head.as_bytes(), &content].concat()).is_ok()
            }
            Act::Flood => {
                while let Ok(count) = stream.write(&[b'x'; 1 << 14]) {
                    self.flooded_bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                self.ended.fetch_add(1, Ordering::Relaxed);
                false
            }
            Act::Wait => {
                let mut content = [0; 1 << 14];
                while stream.read(&mut content).is_ok_and(|count| count > 0) {}
                self.ended.fetch_add(1, Ordering::Relaxed);
                false
            }
            Act::Close => false,
            Act::Reset => {
                // What the server has not read would be lost.
                thread::sleep(Duration::from_millis(200));
                let at_once = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(&*stream, at_once).unwrap();
                false
            }
        }
    }
}

/// Reads a header section, byte by byte.
fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Reads the content of a request, which has a length or comes in chunks.
fn read_content(head: &str, stream: &mut TcpStream) -> Option<Vec<u8>> {
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    if value("transfer-encoding: ").is_none() {
        let length = value("content-length: ").map_or(0, |length| length.parse().unwrap());
        return read_exact(stream, length);
    }
    let mut content = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(read_exact(stream, 1)?);
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        content.extend(read_exact(stream, size)?);
        read_exact(stream, 2)?;
        if size == 0 {
            return Some(content);
        }
    }
}

fn read_exact(stream: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}
