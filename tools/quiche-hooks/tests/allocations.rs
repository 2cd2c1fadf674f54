//! A packet of a download under way is made without memory of its own.

use std::net::SocketAddr;

use quiche_hooks::Config;
use quiche_hooks::Connection;
use quiche_hooks::ConnectionId;
use quiche_hooks::RecvInfo;

const WINDOW: u64 = 1 << 24;
const PACKETS: usize = 2000;

fn config() -> Config {
    let mut config = Config::new(quiche_hooks::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(&[b"proto"]).unwrap();
    config.verify_peer(false);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_streams_bidi(1);
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

#[test]
fn packets_of_a_download_are_made_without_allocations() {
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
    while carry(&mut client, &mut server) | carry(&mut server, &mut client) {}
    assert!(server.is_established());

    client.stream_send(0, b"GET", true).unwrap();
    while carry(&mut client, &mut server) | carry(&mut server, &mut client) {}
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
