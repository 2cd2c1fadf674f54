//! Side of a comparison: connections of one crate, which is `quiche` in the module above.
//!
//! Everything but the crate is the same for both sides. The trace has a line for each
//! datagram, and lines that begin with `#` for what the applications notice.

mod addresses;
mod connection;
mod host;
mod load;
mod quiche;

use crate::scenario::End;
use crate::scenario::Endpoint;
use crate::scenario::Handshake;
use crate::scenario::Load;
use crate::scenario::Requests;
use crate::scenario::Scenario;
use anyhow::Result;
use std::io::Write;

/// Folder with upstream's certificates for tests.
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples");

/// A version that no server supports, so that it negotiates (RFC 9000, 15).
const RESERVED_VERSION: u32 = 0xbaba_baba;

/// Runs a scenario and writes its trace.
pub fn run(scenario: &Scenario, trace: &mut dyn Write) -> Result<()> {
    let mut configs =
        [Endpoint::Client, Endpoint::Server].map(|e| config(scenario, e).expect("valid settings"));
    let session = match scenario.handshake {
        Handshake::Resumed | Handshake::EarlyData => {
            let first = Scenario {
                handshake: Handshake::Full,
                load: Load::Streams(Requests::new(1, 100, 1000)),
                actions: Vec::new(),
                end: End::Close(Endpoint::Client),
                ..scenario.clone()
            };
            connection::Simulation::new(&first, &mut configs, None, trace)?.run()?
        }
        _ => None,
    };
    connection::Simulation::new(scenario, &mut configs, session.as_deref(), trace)?.run()?;
    Ok(())
}

fn config(scenario: &Scenario, endpoint: Endpoint) -> quiche::Result<quiche::Config> {
    let transport = &scenario.transport;
    let version = match (scenario.handshake, endpoint) {
        (Handshake::VersionNegotiation, Endpoint::Client) => RESERVED_VERSION,
        _ => quiche::PROTOCOL_VERSION,
    };
    let mut config = quiche::Config::new(version)?;
    if endpoint == Endpoint::Server {
        let certificate = if transport.large_certificate { "cert-big" } else { "cert" };
        config.load_cert_chain_from_pem_file(&format!("{CERTIFICATES}/{certificate}.crt"))?;
        config.load_priv_key_from_pem_file(&format!("{CERTIFICATES}/cert.key"))?;
    }
    config.verify_peer(false);
    config.grease(false);
    config.set_application_protos(&[b"h3"])?;
    if scenario.handshake == Handshake::EarlyData {
        config.enable_early_data();
    }
    config.set_cc_algorithm_name(transport.controller)?;
    config.enable_pacing(transport.pacing);
    config.enable_hystart(transport.hystart);
    if let Some(packets) = transport.initial_window_packets {
        config.set_initial_congestion_window_packets(packets);
    }
    if let Some(factor) = transport.amplification_factor {
        config.set_max_amplification_factor(factor);
    }
    config.discover_pmtu(transport.pmtud);
    config.set_max_send_udp_payload_size(transport.max_udp_payload);
    config.set_max_recv_udp_payload_size(transport.max_udp_payload);
    config.set_initial_max_data(transport.connection_window);
    config.set_initial_max_stream_data_bidi_local(transport.stream_window);
    config.set_initial_max_stream_data_bidi_remote(transport.stream_window);
    config.set_initial_max_stream_data_uni(transport.stream_window);
    config.set_initial_max_streams_bidi(transport.streams);
    config.set_initial_max_streams_uni(transport.streams);
    config.set_max_idle_timeout(transport.idle_ms);
    config.set_max_ack_delay(transport.ack_delay_ms);
    config.set_active_connection_id_limit(transport.connection_ids);
    config.set_disable_active_migration(transport.disable_migration);
    config.enable_dgram(transport.datagrams, 1000, 1000);
    Ok(config)
}
