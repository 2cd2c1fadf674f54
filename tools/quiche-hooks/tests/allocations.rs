//! What packets of a download and heads of responses take of memory.

use std::net::SocketAddr;

use quiche_hooks::h3;
use quiche_hooks::Config;
use quiche_hooks::Connection;
use quiche_hooks::ConnectionId;
use quiche_hooks::RecvInfo;

const WINDOW: u64 = 1 << 24;
const PACKETS: usize = 2000;

fn config() -> Config {
    let mut config = Config::new(quiche_hooks::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[b"h3"]).unwrap();
    config.verify_peer(false);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_streams_bidi(2);
    config.set_initial_max_streams_uni(9);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_congestion_window_packets(2 * PACKETS);
    config
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

/// A server and its client, after the handshake.
fn established() -> (Connection, Connection) {
    let client_addr: SocketAddr = "127.0.0.1:1234".parse().unwrap();
    let server_addr: SocketAddr = "127.0.0.1:4321".parse().unwrap();
    let id = |byte| ConnectionId::from_vec(vec![byte; 16]);

    let mut client =
        quiche_hooks::connect(None, &id(1), client_addr, server_addr, &mut config()).unwrap();
    let mut serving = config();
    serving.load_cert_chain_from_pem_file("../../quiche/examples/cert.crt").unwrap();
    serving.load_priv_key_from_pem_file("../../quiche/examples/cert.key").unwrap();
    let mut server =
        quiche_hooks::accept(&id(2), None, server_addr, client_addr, &mut serving).unwrap();
    exchange(&mut client, &mut server);
    assert!(server.is_established());
    (server, client)
}

fn exchange(client: &mut Connection, server: &mut Connection) {
    while carry(client, server) | carry(server, client) {}
}

#[test]
fn packets_of_a_download_are_made_without_allocations() {
    let (mut server, mut client) = established();
    client.stream_send(0, b"GET", true).unwrap();
    exchange(&mut client, &mut server);
    let body = vec![0; PACKETS * 1500];
    server.stream_send(0, &body, true).unwrap();

    let mut packet = [0; 1500];
    let measured = allocation_counter::measure(|| {
        for _ in 0..PACKETS {
            server.send(&mut packet).unwrap();
        }
    });

    // What is kept of the packets in flight grows a few times.
    let allocations = measured.count_total;
    assert!(allocations < PACKETS as u64 / 50, "{allocations} allocations for {PACKETS} packets");
}

#[test]
fn the_head_of_a_response_is_one_write() {
    let (mut server, mut client) = established();
    let http = h3::Config::new().unwrap();
    let mut asking = h3::Connection::with_transport(&mut client, &http).unwrap();
    let mut answering = h3::Connection::with_transport(&mut server, &http).unwrap();
    let request = [
        h3::Header::new(b":method", b"GET"),
        h3::Header::new(b":scheme", b"https"),
        h3::Header::new(b":authority", b"quic.tech"),
        h3::Header::new(b":path", b"/"),
    ];
    let head = [h3::Header::new(b":status", b"200"), h3::Header::new(b"server", b"quiche")];

    // Frames without a use go before the first response.
    let mut allocations = 0;
    for _ in 0..2 {
        let stream = asking.send_request(&mut client, &request, true).unwrap();
        exchange(&mut client, &mut server);
        while answering.poll(&mut server).is_ok() {}
        let measured = allocation_counter::measure(|| {
            answering.send_response(&mut server, stream, &head, false).unwrap();
        });
        allocations = measured.count_total;
        exchange(&mut client, &mut server);
    }

    assert!(allocations < 5, "{allocations} allocations");
}
