//! Connection IDs of QUIC-LB, and what a reload changes in them.

use std::time::Duration;

use super::harness::Lab;
use super::harness::Server;
use super::harness::CLIENT;
use crate::quic::connection_id;
use crate::quic::quic_lb;

/// Configuration in the clear.
fn plain(config_id: u8) -> String {
    format!("[[quic-lb]]\nconfig-id = {config_id}\nserver-id = '0a'\nnonce-length = 15\n")
}

/// Writes the configuration file. Returns the arguments that name it.
fn configure(lab: &Lab, toml: &str) -> [&'static str; 3] {
    lab.write("edge.toml", lab.fill(toml));
    ["--config", "DIR/edge.toml", "--speedtest"]
}

fn start(toml: &str) -> Server {
    let lab = Lab::new();
    let args = configure(&lab, toml);
    lab.serve(&args)
}

/// Returns an ID of a configuration, which names another server.
fn foreign_id(config_id: u8) -> Vec<u8> {
    let mut id = vec![0x5e; connection_id::LEN];
    id[0] = quic_lb::first_octet(config_id, connection_id::LEN);
    id
}

#[test]
fn packet_of_an_unknown_configuration_is_counted() {
    const DROPPED: &str = "edge_server_node_datagrams_dropped_total{reason=\"unknown_config\"}";
    let short = |id: &[u8]| [&[0x40], id, &[0x57; 60]].concat();
    // Its length is not that of the server's IDs, so that nothing is known of it.
    let undescribed = [&[0x35], &foreign_id(1)[1..]].concat();
    let long = [&[0xc0, 0, 0, 0, 1, 20], &foreign_id(1)[..], &[0; 1200]].concat();
    for (tables, datagram, counted) in [
        (plain(0), short(&foreign_id(1)), 1),
        (String::new(), short(&foreign_id(1)), 1),
        (plain(0), short(&foreign_id(0)), 0),
        (plain(0), short(&foreign_id(quic_lb::UNROUTABLE)), 0),
        (plain(0), short(&undescribed), 0),
        (plain(0), short(&foreign_id(1)[..10])[..12].to_vec(), 0),
        (plain(0), long, 0),
        (plain(0) + &plain(1).replace("0a", "0b"), short(&foreign_id(1)), 0),
    ] {
        let server = start(&tables);
        server.lab().peer(CLIENT).send(&server, datagram.clone());
        server.lab().advance(Duration::from_secs(1));
        assert_eq!(server.metric(DROPPED), counted, "{tables} {datagram:02x?}");
    }
}
