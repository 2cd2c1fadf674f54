//! Transport parameters (RFC 9000, 7.3, 7.4 and 18): invalid, repeated and missing ones.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::peer::counted;
use crate::peer::parameters;
use crate::peer::HostilePeer;
use crate::wire::varint;
use crate::wire::varint_in;
use crate::wire::with_bytes;
use crate::wire::TRANSPORT_PARAMETER_ERROR;
use crate::wire::VARINT_MAX;

const SOURCE: &[u8] = b"a client";

/// Returns an encoded parameter.
fn parameter(id: u64, value: &[u8]) -> Vec<u8> {
    with_bytes(&[id], &counted(value))
}

fn number(id: u64, value: u64) -> Vec<u8> {
    parameter(id, &varint(value))
}

/// Sends a ClientHello with these parameters.
fn send_crypto(peer: &mut HostilePeer, parameters: &[u8]) {
    peer.set_source_id(SOURCE, parameters);
    peer.send_client_hello();
}

pub fn rules() -> Vec<Rule> {
    let failures = |rule, section, more: Vec<(&'static str, Vec<u8>)>| {
        let all = more.into_iter().map(|(name, more)| (name, parameters(SOURCE, &more)));
        whole(rule, section, all.collect())
    };
    let without_source = &parameters(SOURCE, &[])[2 + SOURCE.len()..];
    let source = |value: &[u8]| [&parameter(0x0f, value), without_source].concat();
    vec![
        failures(
            "a repeated parameter",
            "RFC 9000, 7.4",
            vec![
                ("its own ID", parameter(0x0f, SOURCE)),
                ("a window", number(0x04, 1 << 20)),
                ("an unknown one", number(0x3fff, 1).repeat(2)),
            ],
        ),
        failures(
            "a parameter that only servers send",
            "RFC 9000, 18.2",
            vec![
                ("original_destination_connection_id", parameter(0x00, b"8 bytes!")),
                ("stateless_reset_token", parameter(0x02, &[7; 16])),
                ("preferred_address", parameter(0x0d, &[7; 49])),
                ("retry_source_connection_id", parameter(0x10, b"8 bytes!")),
            ],
        ),
        failures(
            "max_udp_payload_size below 1200",
            "RFC 9000, 18.2",
            vec![("0", number(0x03, 0)), ("1199", number(0x03, 1199))],
        ),
        failures(
            "initial_max_streams above 2^60",
            "RFC 9000, 4.6",
            vec![
                ("bidi", number(0x08, (1 << 60) + 1)),
                ("bidi, the largest", number(0x08, VARINT_MAX)),
            ],
        ),
        failures(
            "ack_delay_exponent above 20",
            "RFC 9000, 18.2",
            vec![("21", number(0x0a, 21)), ("the largest", number(0x0a, VARINT_MAX))],
        ),
        failures(
            "max_ack_delay of 2^14 or more",
            "RFC 9000, 18.2",
            vec![("2^14", number(0x0b, 1 << 14)), ("the largest", number(0x0b, VARINT_MAX))],
        ),
        failures(
            "active_connection_id_limit below 2",
            "RFC 9000, 18.2",
            vec![("0", number(0x0e, 0)), ("1", number(0x0e, 1))],
        ),
        failures(
            "a truncated parameter",
            "RFC 9000, 7.4",
            vec![
                ("a type", vec![0x40]),
                ("a length", vec![0x03]),
                ("a value", vec![0x03, 8, 0]),
                ("a long length", with_bytes(&[0x3fff, VARINT_MAX], b"x")),
            ],
        ),
        failures(
            "a truncated value",
            "RFC 9000, 18",
            vec![
                ("max_udp_payload_size, empty", parameter(0x03, &[])),
                ("max_udp_payload_size, of 4", parameter(0x03, &varint_in(1500, 4)[..3])),
                ("ack_delay_exponent, empty", parameter(0x0a, &[])),
                ("active_connection_id_limit, empty", parameter(0x0e, &[])),
                ("max_datagram_frame_size, empty", parameter(0x20, &[])),
            ],
        ),
        failures(
            "a value with trailing bytes",
            "RFC 9000, 18",
            vec![
                ("max_udp_payload_size", parameter(0x03, &[&varint(1500)[..], b"x"].concat())),
                ("ack_delay_exponent", parameter(0x0a, &[3, 3])),
                ("active_connection_id_limit", parameter(0x0e, &[4, 0])),
                ("disable_active_migration", parameter(0x0c, &[1])),
            ],
        ),
        whole(
            "no initial_source_connection_id",
            "RFC 9000, 7.3",
            vec![("others", without_source.to_vec())],
        )
        .case("nothing at all", Progress::Fresh, |peer| {
            peer.set_source_id(SOURCE, &[]);
            peer.await_server_handshake();
            peer.finish();
        }),
        whole(
            "a wrong initial_source_connection_id",
            "RFC 9000, 7.3",
            vec![
                ("empty", source(&[])),
                ("of the same length", source(b"somebody")),
                ("longer than allowed", source(&[1; 21])),
            ],
        ),
        rule("unknown parameters", "RFC 9000, 7.4.2", Served).cases(
            Progress::Fresh,
            [
                ("reserved", parameters(SOURCE, &number(31 * 7 + 27, 5))),
                ("empty", parameters(SOURCE, &parameter(0x3fff, &[]))),
                ("large", parameters(SOURCE, &parameter(0x3fff, &[7; 700]))),
                ("many", parameters(SOURCE, &many())),
            ],
            |peer, parameters| send_crypto(peer, parameters),
        ),
        rule("the largest values", "RFC 9000, 18.2", Served).cases(
            Progress::Fresh,
            [
                ("max_udp_payload_size", parameters(SOURCE, &number(0x03, VARINT_MAX))),
                ("active_connection_id_limit", parameters(SOURCE, &number(0x0e, VARINT_MAX))),
                ("ack_delay_exponent and max_ack_delay", parameters(SOURCE, &largest_delays())),
            ],
            |peer, parameters| send_crypto(peer, parameters),
        ),
    ]
}

fn whole(
    name: &'static str,
    section: &'static str,
    parameters: Vec<(&'static str, Vec<u8>)>,
) -> Rule {
    rule(name, section, Transport(TRANSPORT_PARAMETER_ERROR)).cases(
        Progress::Fresh,
        parameters,
        |peer, parameters| send_crypto(peer, parameters),
    )
}

fn many() -> Vec<u8> {
    (0..100).flat_map(|n| number(0x3000 + n, 1)).collect()
}

fn largest_delays() -> Vec<u8> {
    [number(0x0a, 20), number(0x0b, (1 << 14) - 1)].concat()
}
