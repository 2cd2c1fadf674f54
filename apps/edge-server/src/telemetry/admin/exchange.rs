//! HTTP exchanges of the admin listeners. Each client has a thread and little time, and when there
//! are many, one gives way to a new one: of the subnet that has most, and there of the client that
//! has most, the oldest, before others one that has not sent its request. So no slow clients keep an
//! orchestrator from the health page.

use std::borrow::Cow;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Once;
use std::sync::PoisonError;
use std::sync::Weak;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;
use ipnet::IpNet;
use log::debug;
use log::warn;
use percent_encoding::percent_decode_str;
use quiche::clock;
use quiche::path_state::PrefixLengths;

use crate::admission::connection_limits::subnet_of;

/// Time for a request, and for its response.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of clients of a listener at a time.
pub const CLIENTS_MAX: usize = 32;

/// Pause after an error of accept, such as no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// Number of requests that lack their responses, all listeners together.
static UNANSWERED: Mutex<usize> = Mutex::new(0);
static ANSWERED: Condvar = Condvar::new();

/// AdminRequest without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminRequest {
    pub method: String,

    /// Path without the query.
    pub path: String,
    pub query: String,
    pub accept: String,
}

/// Response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: String,
}

/// Source of responses.
pub trait Pages: Clone + Send + 'static {
    /// Returns the response to a request.
    fn page(&self, request: &AdminRequest) -> Page;
}

/// Stream whose operations can be given a time.
pub trait ClientStream: Read + Write + Send + 'static {
    /// Sets how long reads and writes may take.
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;

    /// Makes reads and writes wait no longer.
    fn set_nonblocking(&self) -> io::Result<()>;

    /// Returns the client, if it may have to give way.
    fn remote(&self) -> Option<RemoteClient>;
}

/// Stream of a client that may have to give way.
pub struct RemoteStream {
    stream: Arc<TcpStream>,
    client: SocketAddr,
}

/// Client that may have to give way.
pub struct RemoteClient {
    subnet: IpNet,
    unit: ClientUnit,
    stream: Weak<TcpStream>,
}

/// Clients of a listener, in the order in which they came.
#[derive(Default)]
struct CurrentClients(Vec<CurrentClient>);

struct CurrentClient {
    thread: JoinHandle<()>,

    /// Absent if the client does not give way.
    remote: Option<RemoteClient>,
    has_request: Arc<AtomicBool>,
}

/// Connection of a client, for the length of an exchange. Reads and writes fail after its end.
struct HurriedStream<S> {
    stream: S,
    until: Instant,
}

/// Request that lacks its response until it is dropped.
struct Unanswered;

impl Page {
    /// Returns a line of text, with its line break.
    pub fn text(status: &'static str, line: impl Into<String>) -> Self {
        Self { status, content_type: PLAIN_TEXT, body: line.into() + "\n" }
    }

    pub fn ok(line: impl Into<String>) -> Self {
        Self::text(OK, line)
    }

    pub fn unavailable(line: impl Into<String>) -> Self {
        Self::text(UNAVAILABLE, line)
    }

    pub fn bad_request(line: impl Into<String>) -> Self {
        Self::text("400 Bad Request", line)
    }

    pub fn unprocessable(line: impl Into<String>) -> Self {
        Self::text("422 Unprocessable Content", line)
    }

    pub fn forbidden(line: impl Into<String>) -> Self {
        Self::text("403 Forbidden", line)
    }

    pub fn not_found(line: impl Into<String>) -> Self {
        Self::text("404 Not Found", line)
    }

    fn request_timeout(line: impl Into<String>) -> Self {
        Self::text("408 Request Timeout", line)
    }

    pub fn method_not_allowed(line: impl Into<String>) -> Self {
        Self::text("405 Method Not Allowed", line)
    }

    /// Returns a JSON document.
    pub fn json(document: &serde_json::Value) -> Self {
        Self { status: OK, content_type: JSON, body: format!("{document:#}\n") }
    }

    fn write(&self, stream: &mut impl Write, with_body: bool) -> io::Result<()> {
        let Self { status, content_type, body } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        if with_body {
            stream.write_all(body.as_bytes())?;
        }
        Ok(())
    }
}

impl AdminRequest {
    /// Parses the head of a request. What is no request has no method.
    fn parse(head: &[u8]) -> Self {
        Self::try_parse(head).unwrap_or_default()
    }

    fn try_parse(head: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let (method, rest) = lines.next()?.split_once(' ')?;
        let target = rest.split(' ').next()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut fields = lines.filter_map(|line| line.split_once(':'));
        let accept = fields.find(|(name, _)| name.eq_ignore_ascii_case("accept"));
        Some(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            accept: accept.map(|(_, value)| value.trim().to_owned()).unwrap_or_default(),
        })
    }

    /// Returns whether the method is GET or HEAD.
    pub fn is_read(&self) -> bool {
        ["GET", "HEAD"].contains(&self.method.as_str())
    }

    /// Returns the decoded value of a parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(own, _)| *own == name)?;
        Some(percent_decode_str(value).decode_utf8_lossy())
    }
}

/// Serves the clients of a listener until it is `closed`.
pub fn serve_clients<S: ClientStream>(
    closed: &AtomicBool,
    accept: impl Fn() -> io::Result<S>,
    pages: &impl Pages,
) {
    let mut clients = CurrentClients::default();
    loop {
        match accept() {
            Ok(stream) if !clients.make_room() => turn_away_surplus(stream),
            Ok(stream) => {
                let pages = pages.clone();
                let remote = stream.remote();
                let has_request = Arc::new(AtomicBool::new(false));
                let requested = Arc::clone(&has_request);
                let respond = move || {
                    if let Err(e) = exchange(stream, &pages, &requested) {
                        debug!("admin listener: {e}");
                    }
                };
                match thread::Builder::new().name("admin-client".into()).spawn(respond) {
                    Ok(thread) => clients.0.push(CurrentClient { thread, remote, has_request }),
                    Err(e) => warn!("admin listener: {e}"),
                }
            }
            Err(_) if closed.load(Ordering::Relaxed) => return,
            Err(e) => {
                warn!("admin listener: {e}");
                thread::sleep(ACCEPT_RETRY_DELAY);
            }
        }
    }
}

impl CurrentClients {
    /// Returns whether there is room for another client. If there are many, one gives way.
    fn make_room(&mut self) -> bool {
        self.0.retain(|client| !client.thread.is_finished());
        if self.0.len() < CLIENTS_MAX {
            return true;
        }
        let ranks: Vec<_> = self.0.iter().map(|client| self.rank(client)).collect();
        // `None` is less than any.
        let most = ranks.iter().max().copied().flatten();
        let Some(oldest) = ranks.iter().position(|rank| *rank == most).filter(|_| most.is_some())
        else {
            return false;
        };
        let CurrentClient { thread, remote, .. } = self.0.remove(oldest);
        if let Some(RemoteClient { subnet, stream, .. }) = remote {
            warn_of_many();
            debug!("admin listener: a client of {subnet} gives way");
            let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        }
        // It waits for the client no longer.
        let _ = thread.join();
        true
    }

    /// Returns how soon a client gives way: how many there are of its subnet, how many of itself,
    /// and whether it has not sent its request.
    fn rank(&self, client: &CurrentClient) -> Option<(usize, usize, bool)> {
        let RemoteClient { subnet, unit, .. } = client.remote.as_ref()?;
        let others = || self.0.iter().filter_map(|other| other.remote.as_ref());
        let of_subnet = others().filter(|other| other.subnet == *subnet).count();
        let of_client = others().filter(|other| other.unit == *unit).count();
        Some((of_subnet, of_client, !client.has_request.load(Ordering::Relaxed)))
    }
}

fn warn_of_many() {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| {
        warn!(
            "admin listener: more than {CLIENTS_MAX} clients at a time; the oldest of the subnet \
             that has most give way"
        );
    });
}

/// Tells a client that there are too many.
fn turn_away_surplus(stream: impl ClientStream) {
    let page = Page::unavailable(format!("more than {CLIENTS_MAX} clients; try again later"));
    turn_away(stream, &page);
}

/// Sends a page to a client without reading its request, if that takes no time.
pub fn turn_away(mut stream: impl ClientStream, page: &Page) {
    let told = stream.set_nonblocking().and_then(|()| {
        // What is unread at the end would discard the response.
        let _ = stream.read(&mut [0; 1024]);
        page.write(&mut stream, true)
    });
    if let Err(e) = told {
        debug!("admin listener: {e}");
    }
}

fn exchange(
    stream: impl ClientStream,
    pages: &impl Pages,
    has_request: &AtomicBool,
) -> io::Result<()> {
    let mut stream = HurriedStream::new(stream);
    let head = match read_head(&mut stream) {
        Err(e) if [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&e.kind()) => {
            stream.restart();
            return Page::request_timeout("no request in time").write(&mut stream, true);
        }
        head => head?,
    };
    let request = AdminRequest::parse(&head);
    has_request.store(true, Ordering::Relaxed);
    let _unanswered = Unanswered::new();
    let page = pages.page(&request);
    // A command may have taken its time.
    stream.restart();
    page.write(&mut stream, request.method != "HEAD")
}

/// Waits until every request has its response, for at most `timeout`: the command that ends the
/// process has one, too.
pub fn wait_for_responses(timeout: Duration) {
    let waited = ANSWERED.wait_timeout_while(unanswered(), timeout, |count| *count > 0);
    drop(waited);
}

fn unanswered() -> MutexGuard<'static, usize> {
    UNANSWERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unanswered {
    fn new() -> Self {
        *unanswered() += 1;
        Self
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        *unanswered() -= 1;
        ANSWERED.notify_all();
    }
}

/// Reads the head of a request, up to the size limit.
fn read_head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut chunk)? {
            0 => break,
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(head)
}

impl<S: ClientStream> HurriedStream<S> {
    fn new(stream: S) -> Self {
        Self { stream, until: clock::now() + EXCHANGE_TIMEOUT }
    }

    fn restart(&mut self) {
        self.until = clock::now() + EXCHANGE_TIMEOUT;
    }

    /// Returns the stream, whose next operation ends in time.
    fn in_time(&mut self) -> io::Result<&mut S> {
        let left = self.until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_timeout(left)?;
        Ok(&mut self.stream)
    }
}

impl<S: ClientStream> Read for HurriedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time()?.read(buffer)
    }
}

impl<S: ClientStream> Write for HurriedStream<S> {
    fn write(&mut self, contents: &[u8]) -> io::Result<usize> {
        self.in_time()?.write(contents)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.in_time()?.flush()
    }
}

impl RemoteStream {
    /// Returns the stream of a client at this address.
    pub fn new(stream: TcpStream, client: SocketAddr) -> Self {
        Self { stream: Arc::new(stream), client }
    }
}

impl Read for RemoteStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.stream).read(buffer)
    }
}

impl Write for RemoteStream {
    fn write(&mut self, contents: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(contents)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.stream).flush()
    }
}

impl ClientStream for RemoteStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    fn remote(&self) -> Option<RemoteClient> {
        let address = self.client.ip();
        Some(RemoteClient {
            subnet: subnet_of(address, PrefixLengths::default()),
            unit: ClientUnit::of(address),
            stream: Arc::downgrade(&self.stream),
        })
    }
}

impl ClientStream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        Self::set_nonblocking(self, true)
    }

    fn remote(&self) -> Option<RemoteClient> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_method_path_parameters_and_accept() {
        let head = b"POST /log?x=1&filter=a=b,c&own=a%3Db%2c%26%20%C3%A9 HTTP/1.1\r\nHost: x\r\nACCEPT: text/plain\r\n\r\n";
        let request = AdminRequest::parse(head);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/log"));
        assert_eq!(request.parameter("filter").as_deref(), Some("a=b,c"));
        assert_eq!(request.parameter("own").as_deref(), Some("a=b,& é"));
        assert_eq!((request.parameter("y"), request.accept.as_str()), (None, "text/plain"));
        for junk in [&b"\r\n"[..], b"GET\r\n\r\n", b"\xff /\r\n\r\n", b""] {
            assert_eq!(AdminRequest::parse(junk), AdminRequest::default());
        }
    }
}
