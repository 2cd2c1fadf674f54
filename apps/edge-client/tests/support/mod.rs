//! Minimal HTTP/3 server in a thread of the test, which can also misbehave.
//!
//! The path selects the response:
//!
//! | path         | response                                                   |
//! |--------------|------------------------------------------------------------|
//! | `/bytes/N`   | 200 and the first N bytes of [`pattern`]                   |
//! | `/short/N`   | as above, but announced as N + 1 bytes                     |
//! | `/reset/N`   | the first half of N bytes, then the stream is reset        |
//! | `/close/N`   | the first half of N bytes, then the connection is closed   |
//! | `/silent/N`  | the first half of N bytes, then nothing for ever           |
//! | `/vanish/N`  | the first half of N bytes, then the server is gone         |
//! | `/moved`     | 301, to `/bytes/1`                                         |
//! | else         | 404                                                        |

use std::collections::HashMap;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use quiche::h3;
use quiche::h3::NameValue;
use quiche::ConnectionId;

quiche::stand_ins!();

/// How long the server sleeps when nothing arrives; bounds a test's end.
const NAP: Duration = Duration::from_millis(10);

const PACKET_MAX: usize = 65_535;

/// Name and address that the certificate is for.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Returns the body of a response, in which a lost or moved part shows.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A server that lives as long as this value.
pub struct Server {
    pub addr: SocketAddr,

    /// Its self-signed certificate.
    pub certificate: PathBuf,

    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<ClientStats>>,
    _dir: tempfile::TempDir,
}

/// Statistics of the server's clients.
#[derive(Clone, Debug, Default)]
pub struct ClientStats {
    /// Source address of every connection.
    pub clients: Vec<SocketAddr>,

    /// Connections that resumed a TLS session.
    pub resumed: usize,

    /// Flow-control windows of every connection, and of its request stream.
    pub windows: Vec<(u64, u64)>,

    /// Bytes of the connection ID in every packet to a client.
    pub id_bytes: Vec<usize>,

    /// Connections that the client closed.
    pub closed: usize,

    /// `:authority` of every request.
    pub authorities: Vec<String>,

    /// The most requests in one packet.
    pub max_requests_per_packet: usize,
}

impl Server {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificate = dir.path().join("cert.pem");
        let config = config(&certificate, &dir.path().join("key.pem"));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(NAP)).unwrap();
        let addr = socket.local_addr().unwrap();

        let stop = Arc::new(AtomicBool::new(false));
        let worker = ServerLoop {
            socket,
            addr,
            config,
            clients: HashMap::new(),
            next_id: 0,
            seen: ClientStats::default(),
            stop: Arc::clone(&stop),
        };
        Self {
            addr,
            certificate,
            stop,
            thread: Some(std::thread::spawn(|| worker.run())),
            _dir: dir,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.addr.port())
    }

    /// Stops the server.
    pub fn stop(mut self) -> ClientStats {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn config(certificate: &Path, key: &Path) -> quiche::Config {
    let names = NAMES.map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(certificate, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();

    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.load_cert_chain_from_pem_file(certificate.to_str().unwrap()).unwrap();
    config.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
    config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 16);
    config.set_initial_max_stream_data_uni(1 << 16);
    config.set_initial_max_streams_bidi(4);
    config.set_initial_max_streams_uni(4);
    config.set_max_send_udp_payload_size(1350);
    config
}

/// End of a response, after the queued part of its body was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Finish,
    Reset,
    Close,
    Silent,
    Vanish,
}

struct PendingResponse {
    stream: u64,
    body: Vec<u8>,
    sent: usize,
    ending: Ending,
}

struct ClientConnection {
    peer: SocketAddr,
    conn: quiche::Connection,
    http: Option<h3::Connection>,
    responses: VecDeque<PendingResponse>,
    established: bool,
}

struct ServerLoop {
    socket: UdpSocket,
    addr: SocketAddr,
    config: quiche::Config,
    clients: HashMap<Vec<u8>, ClientConnection>,
    next_id: u64,
    seen: ClientStats,
    stop: Arc<AtomicBool>,
}

impl ServerLoop {
    fn run(mut self) -> ClientStats {
        let mut packet = vec![0; PACKET_MAX];
        loop {
            match self.socket.recv_from(&mut packet) {
                Ok((len, from)) => self.receive(&mut packet[..len], from),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    // Everything that clients sent has been received.
                    if self.stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Err(e) => panic!("the test server cannot receive: {e}"),
            }
            if self.serve(&mut packet) {
                break;
            }
        }
        self.seen
    }

    fn receive(&mut self, packet: &mut [u8], from: SocketAddr) {
        const ID_LEN: usize = 8;
        let Ok(header) = quiche::Header::from_slice(packet, ID_LEN) else {
            return;
        };
        // The client first uses a random ID.
        let known = self.clients.iter().find_map(|(id, client)| {
            (id[..] == header.dcid[..] || client.peer == from).then(|| id.clone())
        });
        let id = match known {
            Some(id) => id,
            None if header.ty != quiche::Type::Initial => return,
            None => {
                self.next_id += 1;
                let id = self.next_id.to_be_bytes().to_vec();
                let conn = quiche::accept(
                    &ConnectionId::from_ref(&id),
                    None,
                    self.addr,
                    from,
                    &mut self.config,
                )
                .unwrap();
                self.seen.clients.push(from);
                self.clients.insert(
                    id.clone(),
                    ClientConnection {
                        peer: from,
                        conn,
                        http: None,
                        responses: VecDeque::new(),
                        established: false,
                    },
                );
                id
            }
        };
        let info = quiche::RecvInfo { from, to: self.addr };
        let client = self.clients.get_mut(&id).unwrap();
        let _ = client.conn.recv(packet, info);
    }

    /// Serves every client. Returns true if the server vanishes.
    fn serve(&mut self, packet: &mut [u8]) -> bool {
        for client in self.clients.values_mut() {
            if client.conn.timeout() == Some(Duration::ZERO) {
                client.conn.on_timeout();
            }
            client.receive_requests(&mut self.seen);
            loop {
                client.write();
                let mut idle = true;
                while let Ok((len, _)) = client.conn.send(packet) {
                    let _ = self.socket.send_to(&packet[..len], client.peer);
                    idle = false;
                }
                if idle {
                    break;
                }
            }
            if let Some(ending) = client.due_ending() {
                if ending == Ending::Vanish {
                    return true;
                }
                client.end_response();
            }
        }
        let seen = &mut self.seen;
        self.clients.retain(|_, client| {
            let gone = client.conn.is_draining() || client.conn.is_closed();
            seen.closed += usize::from(gone && client.conn.peer_error().is_some());
            !gone
        });
        false
    }
}

impl ClientConnection {
    fn receive_requests(&mut self, seen: &mut ClientStats) {
        if !self.conn.is_established() {
            return;
        }
        if !self.established {
            self.established = true;
            seen.resumed += usize::from(self.conn.is_resumed());
            seen.id_bytes.push(self.conn.destination_id().len());
            let params = self.conn.peer_transport_params().unwrap();
            seen.windows.push((params.initial_max_data, params.initial_max_stream_data_bidi_local));
        }
        let http = self.http.get_or_insert_with(|| {
            let config = h3::Config::new().unwrap();
            h3::Connection::with_transport(&mut self.conn, &config).unwrap()
        });
        let before = seen.authorities.len();
        while let Ok((stream, event)) = http.poll(&mut self.conn) {
            if let h3::Event::Headers { list, .. } = event {
                seen.authorities.push(value(&list, ":authority"));
                let path = value(&list, ":path");
                let (headers, body, ending) = response(&path);
                http.send_response(&mut self.conn, stream, &headers, false).unwrap();
                self.responses.push_back(PendingResponse { stream, body, sent: 0, ending });
            }
        }
        seen.max_requests_per_packet =
            seen.max_requests_per_packet.max(seen.authorities.len() - before);
    }

    fn write(&mut self) {
        let Some(http) = &mut self.http else { return };
        while let Some(response) = self.responses.front_mut() {
            let fin = response.ending == Ending::Finish;
            let rest = &response.body[response.sent..];
            match http.send_body(&mut self.conn, response.stream, rest, fin) {
                Ok(count) => response.sent += count,
                Err(h3::Error::Done | h3::Error::StreamBlocked) => return,
                Err(_) => {
                    self.responses.pop_front();
                    continue;
                }
            }
            if !fin || response.sent < response.body.len() {
                return;
            }
            self.responses.pop_front();
        }
    }

    /// Returns how the response ends, once the client has all its bytes.
    fn due_ending(&self) -> Option<Ending> {
        let response = self.responses.front()?;
        let sent = response.sent == response.body.len();
        let received = self.conn.stream_unacknowledged(response.stream) == 0;
        (sent && received && response.ending != Ending::Finish).then_some(response.ending)
    }

    fn end_response(&mut self) {
        let Some(response) = self.responses.pop_front() else { return };
        match response.ending {
            Ending::Reset => {
                let code = h3::WireErrorCode::InternalError as u64;
                let _ = self.conn.stream_shutdown(response.stream, quiche::Shutdown::Write, code);
            }
            Ending::Close => {
                let _ =
                    self.conn.close(true, h3::WireErrorCode::InternalError as u64, b"out of order");
            }
            Ending::Finish | Ending::Silent | Ending::Vanish => (),
        }
    }
}

fn value(list: &[h3::Header], name: &str) -> String {
    let header = list.iter().find(|h| h.name() == name.as_bytes()).unwrap();
    String::from_utf8(header.value().to_vec()).unwrap()
}

fn response(path: &str) -> (Vec<h3::Header>, Vec<u8>, Ending) {
    let mut words = path.trim_start_matches('/').split('/');
    let kind = words.next().unwrap_or_default();
    let size = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let (status, length, part, ending) = match kind {
        "bytes" => (200, size, size, Ending::Finish),
        "short" => (200, size + 1, size, Ending::Finish),
        "reset" => (200, size, size / 2, Ending::Reset),
        "close" => (200, size, size / 2, Ending::Close),
        "silent" => (200, size, size / 2, Ending::Silent),
        "vanish" => (200, size, size / 2, Ending::Vanish),
        "moved" => (301, 0, 0, Ending::Finish),
        _ => (404, 9, 9, Ending::Finish),
    };
    let header = |n: &str, v: String| h3::Header::new(n.as_bytes(), v.as_bytes());
    let mut headers =
        vec![header(":status", format!("{status}")), header("content-length", format!("{length}"))];
    if status == 301 {
        headers.push(header("location", "/bytes/1".to_owned()));
    }
    (headers, pattern(part), ending)
}
