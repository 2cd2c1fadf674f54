//! A client and a server in one thread.

use std::net::SocketAddr;

use quiche_compat::h3;
use quiche_compat::Config;
use quiche_compat::Connection;
use quiche_compat::ConnectionId;
use quiche_compat::RecvInfo;

const WINDOW: u64 = 1 << 24;

/// Settings that limit nothing, for an initial window of so many packets.
pub fn config(application: &[u8], window_packets: usize) -> Config {
    let mut config = Config::new(quiche_compat::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[application]).unwrap();
    config.verify_peer(false);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_bidi(10_000);
    config.set_initial_max_streams_uni(100);
    config.set_initial_congestion_window_packets(window_packets);
    config
}

/// Both ends of a connection, the client first.
pub fn connect(mut config: impl FnMut() -> Config) -> [Connection; 2] {
    let client_addr: SocketAddr = "127.0.0.1:1234".parse().unwrap();
    let server_addr: SocketAddr = "127.0.0.1:4321".parse().unwrap();
    let id = |byte| ConnectionId::from_vec(vec![byte; 16]);

    let mut client =
        quiche_compat::connect(None, &id(1), client_addr, server_addr, &mut config()).unwrap();
    let mut serving = config();
    serving.load_cert_chain_from_pem_file("../../quiche/examples/cert.crt").unwrap();
    serving.load_priv_key_from_pem_file("../../quiche/examples/cert.key").unwrap();
    let mut server =
        quiche_compat::accept(&id(2), None, server_addr, client_addr, &mut serving).unwrap();
    exchange(&mut client, &mut server);
    assert!(server.is_established());
    [client, server]
}

/// HTTP/3 at both ends, the client first.
pub fn with_http(client: &mut Connection, server: &mut Connection) -> [h3::Connection; 2] {
    let settings = h3::Config::new().unwrap();
    [client, server].map(|end| h3::Connection::with_transport(end, &settings).unwrap())
}

/// What a client asks.
pub fn request() -> [h3::Header; 4] {
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/")];
    fields.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
}

/// Carries packets both ways until there are no more.
pub fn exchange(client: &mut Connection, server: &mut Connection) {
    while carry(client, server) | carry(server, client) {}
}

/// Whether `from` had anything to send.
fn carry(from: &mut Connection, to: &mut Connection) -> bool {
    let mut packet = [0; 1500];
    let mut any = false;
    while let Ok((length, info)) = from.send(&mut packet) {
        let info = RecvInfo { from: info.from, to: info.to };
        to.recv(&mut packet[..length], info).unwrap();
        any = true;
    }
    any
}
