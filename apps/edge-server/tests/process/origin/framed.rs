//! Origin of HTTP/2 without TLS whose frames a test writes (RFC 9113).

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Error codes (RFC 9113, 7).
pub const NO_ERROR: u32 = 0;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;

/// Settings by which an origin allows no streams, or one (RFC 9113, 6.5.2).
pub const NO_STREAMS: &[u8] = &[0, 3, 0, 0, 0, 0];
const ONE_STREAM: &[u8] = &[0, 3, 0, 0, 0, 1];

/// Time without frames after which an origin of one stream goes on.
const SILENCE: Duration = Duration::from_millis(100);

/// What an origin does once it has the header section of a request.
#[derive(Clone, Debug)]
pub enum FrameAct {
    /// Sends a status and fields of few letters.
    Head(u16, Vec<(&'static str, &'static str)>),
    Data(&'static str),
    End,
    Trailers,
    Reset(u32),

    /// Says that it has handled no request.
    GoAway,

    /// Sends an unfinished header section without an end.
    Continue,

    /// Sends bytes that are no frames.
    Garbage,

    /// Reads and sends nothing any longer.
    Freeze,
    Close,
}

/// A running origin. Its threads end with the test.
#[derive(Clone)]
pub struct FramedOrigin {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl FramedOrigin {
    /// Starts an origin that does what `script` says to the request of this number.
    pub fn start(script: impl Fn(usize) -> Vec<FrameAct> + Send + Sync + 'static) -> Self {
        Self::start_with(b"", script)
    }

    /// Starts one with these settings.
    pub fn start_with(
        settings: &'static [u8],
        script: impl Fn(usize) -> Vec<FrameAct> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (started, script) = (origin.clone(), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                started.connections.fetch_add(1, Ordering::Relaxed);
                let (origin, script) = (started.clone(), Arc::clone(&script));
                thread::spawn(move || origin.serve(stream, settings, &*script));
            }
        });
        origin
    }

    /// Starts one that says late that it allows one stream, and refuses others.
    pub fn start_narrow() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let started = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let origin = started.clone();
                thread::spawn(move || origin.serve_one_by_one(stream));
            }
        });
        origin
    }

    fn serve_one_by_one(&self, mut stream: TcpStream) -> Option<()> {
        stream.read_exact(&mut [0; PREFACE_BYTES]).ok()?;
        stream.set_read_timeout(Some(SILENCE)).ok()?;
        let mut settings = Some(ONE_STREAM);
        let mut open = None;
        loop {
            if let Ok(length) = stream.peek(&mut [0]) {
                let (kind, flags, id, _) = read_frame(&mut stream).filter(|_| length > 0)?;
                match (kind, flags & ACK) {
                    (SETTINGS, 0) => write_frame(&mut stream, (SETTINGS, ACK, 0), b"")?,
                    (HEADERS, _) if open.is_none() => open = Some(id),
                    (HEADERS, _) => {
                        self.act(&FrameAct::Reset(REFUSED_STREAM), id, &mut stream)?;
                    }
                    _ => (),
                }
                continue;
            }
            if let Some(settings) = settings.take() {
                write_frame(&mut stream, (SETTINGS, 0, 0), settings)?;
            }
            if let Some(id) = open.take() {
                for act in [FrameAct::Head(200, vec![]), FrameAct::Data("hello"), FrameAct::End] {
                    self.act(&act, id, &mut stream)?;
                }
            }
        }
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn serve(
        &self,
        mut stream: TcpStream,
        settings: &[u8],
        script: &dyn Fn(usize) -> Vec<FrameAct>,
    ) -> Option<()> {
        stream.read_exact(&mut [0; PREFACE_BYTES]).ok()?;
        write_frame(&mut stream, (SETTINGS, 0, 0), settings)?;
        loop {
            let (kind, flags, id, payload) = read_frame(&mut stream)?;
            match (kind, flags & ACK) {
                (SETTINGS, 0) => write_frame(&mut stream, (SETTINGS, ACK, 0), b"")?,
                (PING, 0) => write_frame(&mut stream, (PING, ACK, 0), &payload)?,
                (HEADERS, _) => {
                    for act in script(self.requests.fetch_add(1, Ordering::Relaxed)) {
                        self.act(&act, id, &mut stream)?;
                    }
                }
                _ => (),
            }
        }
    }

    /// Returns nothing if the connection ends.
    fn act(&self, act: &FrameAct, id: u32, stream: &mut TcpStream) -> Option<()> {
        match act {
            FrameAct::Head(status, fields) => {
                let status = status.to_string();
                let mut section = vec![8, 3];
                section.extend(status.as_bytes());
                section.extend(fields.iter().flat_map(|(name, value)| literal(name, value)));
                write_frame(stream, (HEADERS, END_HEADERS, id), &section)
            }
            FrameAct::Data(text) => write_frame(stream, (DATA, 0, id), text.as_bytes()),
            FrameAct::End => write_frame(stream, (DATA, END_STREAM, id), b""),
            FrameAct::Trailers => {
                let section = literal("x-trailer", "1");
                write_frame(stream, (HEADERS, END_HEADERS | END_STREAM, id), &section)
            }
            FrameAct::Reset(code) => write_frame(stream, (RST_STREAM, 0, id), &code.to_be_bytes()),
            FrameAct::GoAway => {
                let payload = [0u32.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
                write_frame(stream, (GOAWAY, 0, 0), &payload)
            }
            FrameAct::Continue => {
                write_frame(stream, (HEADERS, 0, id), &[0x88])?;
                loop {
                    write_frame(stream, (CONTINUATION, 0, id), &literal("a", "b"))?;
                }
            }
            FrameAct::Garbage => stream.write_all(&[0xff; 64]).ok(),
            FrameAct::Freeze => loop {
                thread::park();
            },
            // With frames unread, the system would take back what was sent.
            FrameAct::Close => {
                stream.shutdown(Shutdown::Write).ok()?;
                io::copy(stream, &mut io::sink()).ok()?;
                None
            }
        }
    }
}

/// Returns a field that is not indexed, without Huffman coding (RFC 7541, 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Returns the type, the flags, the stream and the payload of a frame.
fn read_frame(stream: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

fn write_frame(
    stream: &mut TcpStream,
    (kind, flags, id): (u8, u8, u32),
    payload: &[u8],
) -> Option<()> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
    stream.write_all(&[&head, payload].concat()).ok()
}
