//! QUIC-LB: connection IDs that balancers read, over migrations and takeovers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use boring::symm::Cipher;
use boring::symm::Crypter;
use boring::symm::Mode;

use crate::support::client::UdpClient;
use crate::support::client::H3_NO_ERROR;
use crate::support::metrics;
use crate::support::nat::start_relay;
use crate::support::process::server_command;
use crate::support::process::Running;
use crate::takeover::get;
use crate::takeover::patient_client;
use crate::takeover::Line;
use crate::workers::download;

const KEY: &str = "8f95f09245765f80256934e50c66207f";
const KEY_BYTES: [u8; 16] = 0x8f95_f092_4576_5f80_2569_34e5_0c66_207f_u128.to_be_bytes();

/// Length of server IDs here, and of the blocks of one pass, in bytes.
const SERVER_ID_BYTES: usize = 2;
const BLOCK_BYTES: usize = 16;

/// First octet of IDs of 20 bytes of a configuration.
fn first_octet(config_id: u8) -> u8 {
    config_id << 5 | 19
}

/// Table of a configuration with a key, whose blocks have one pass.
pub fn encrypted(config_id: u8, server_id: &str) -> String {
    let nonce_bytes = BLOCK_BYTES - SERVER_ID_BYTES;
    format!(
        "[[quic-lb]]\nconfig-id = {config_id}\nserver-id = '{server_id}'\n\
         nonce-length = {nonce_bytes}\nkey = 'DIR/key'\n"
    )
}

/// Writes a configuration file and its key. Returns the file's path.
pub fn configure(dir: &Path, toml: &str) -> String {
    let (file, key) = (dir.join("edge.toml"), dir.join("key"));
    fs::write(&key, KEY).unwrap();
    fs::write(&file, toml.replace("DIR", dir.to_str().unwrap())).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Returns the server ID in a packet of a client, as a balancer with the key reads it.
fn server_id_in(packet: &[u8], config_id: u8) -> Option<[u8; SERVER_ID_BYTES]> {
    let at = if packet[0] & 0x80 == 0 { 1 } else { 6 };
    let (first, rest) = packet.get(at..)?.split_first()?;
    if *first != first_octet(config_id) {
        return None;
    }
    let mut block = [0; 2 * BLOCK_BYTES];
    let mut cipher = Crypter::new(Cipher::aes_128_ecb(), Mode::Decrypt, &KEY_BYTES, None).unwrap();
    cipher.pad(false);
    cipher.update(rest.get(..BLOCK_BYTES)?, &mut block).unwrap();
    block.first_chunk().copied()
}

// Each client's address changes; the connection IDs tell its worker, and to who has the key its server.
#[test]
fn moving_clients_stay_and_balancers_read_their_server() {
    const CLIENTS: usize = 6;
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), &encrypted(2, "0a02"));
    let args = ["--listen", "127.0.0.1:0", "--root", ".", "--speedtest", "--workers=3"];
    let more = ["--metrics", "127.0.0.1:0", "--config", &config];
    let mut server = Running::start(&mut server_command(&[&args[..], &more].concat()));
    let (address, metrics) = (server.address(), server.metrics_address());
    for _ in 0..CLIENTS {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let of_relay = Arc::clone(&seen);
        let relay = start_relay(["127.5.5.1", "127.6.6.1"], move |count, packet| {
            if packet[0] & 0x80 == 0 {
                of_relay.lock().unwrap().push((packet[2..=20].to_vec(), server_id_in(packet, 2)));
            }
            (usize::from(count >= 60), address)
        });
        download(relay, 4_000_000, 1);
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 60, "{}", seen.len());
        assert!(seen.iter().all(|(_, server_id)| *server_id == Some([0x0a, 2])));
        let shows = |id: &[u8]| id.windows(2).any(|octets| octets == [0x0a, 2]);
        let ids: BTreeSet<_> = seen.iter().map(|(id, _)| id).collect();
        // By chance in one ID of a few thousand.
        assert!(ids.iter().filter(|id| shows(id)).count() <= 1, "{ids:02x?}");
    }
    assert_eq!(metrics::read(metrics, "edge_server_connections_total"), CLIENTS as u64);
    assert_eq!(server.count("does not steer"), 0);
}

// Each server has another configuration, and none knows those of the others.
#[test]
fn takeover_to_another_configuration_leaves_connections() {
    let plain = "[[quic-lb]]\nconfig-id = 0\nserver-id = 'c0'\nnonce-length = 8\n";
    let tables = ["", &encrypted(1, "0a02"), plain, &encrypted(1, "0b03"), ""];
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), tables[0]);
    let (line, first) = Line::begin_with(&["--config", &config]);
    let mut servers = vec![first];
    let mut clients = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            configure(dir.path(), table);
            servers.push(line.succeed());
        }
        // On both workers, but for one time in many.
        for _ in 0..6 {
            let mut client = patient_client(line.address);
            let stream = client.open_request("/bytes/100000");
            client.receive(stream, 100_000);
            clients.push((client, stream));
        }
    }
    for (client, stream) in &mut clients[..24] {
        client.end_with_trailers(*stream);
        assert_eq!(client.closed(), H3_NO_ERROR);
    }
    let mut newest = servers.pop().unwrap();
    for mut server in servers {
        assert!(server.end().0.success());
    }
    assert_eq!(get(line.address, 5), 5);
    assert!(newest.stop().success());
}

// By IDs of a configuration that is no longer the first.
#[test]
fn client_of_a_dead_server_is_reset_after_a_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), &encrypted(1, "0a02"));
    let (line, mut old) = Line::begin_with(&["--config", &config]);
    let mut client = UdpClient::connect(line.address);
    let download = client.request("GET", "/bytes/30000000");
    client.receive(download, 1);
    configure(dir.path(), &[encrypted(2, "0a02"), encrypted(1, "0a02")].concat());
    let _new = line.succeed();
    old.kill();
    assert!(client.is_reset());
}
