//! Malformed and hostile input at every level, to the server as a process: each is
//! answered as its RFC says, and a client that behaves is then still served.
//!
//! Rules are grouped into a table a module. Where the server answers otherwise than
//! the RFC would have it, the rule is in [`deviations`], with the reason.

use std::collections::BTreeSet;

mod case;
mod credentials;
mod deviations;
mod floods;
mod heard;
mod http3_frames;
mod http_messages;
mod packet;
mod peer;
mod qpack;
mod quic_frames;
mod quic_packets;
mod quic_streams;
mod slow_clients;
mod tls_messages;
mod tokens;
mod transport_parameters;
mod wire;

#[expect(dead_code, reason = "the other tests of processes use the rest")]
mod support;

use case::try_all;
use case::Kind;

const KINDS_MIN: usize = 80;
const INPUTS_MIN: usize = 300;

#[test]
fn quic_packets() {
    try_all(&quic_packets::kinds(), &[]);
}

#[test]
fn tokens() {
    try_all(&tokens::kinds(), &["--retry-above", "0"]);
}

#[test]
fn quic_frames() {
    try_all(&quic_frames::kinds(), &[]);
}

#[test]
fn quic_streams() {
    try_all(&quic_streams::kinds(), &[]);
}

#[test]
fn transport_parameters() {
    try_all(&transport_parameters::kinds(), &[]);
}

#[test]
fn tls_messages() {
    try_all(&tls_messages::kinds(), &[]);
}

#[test]
fn http3_frames() {
    try_all(&http3_frames::kinds(), &[]);
}

#[test]
fn qpack() {
    try_all(&qpack::kinds(), &[]);
}

#[test]
fn http_messages() {
    try_all(&http_messages::kinds(), &[]);
}

#[test]
fn floods() {
    try_all(&floods::kinds(), &[]);
}

#[test]
fn slow_clients() {
    try_all(&slow_clients::kinds(), &slow_clients::ARGUMENTS);
}

#[test]
fn known_deviations() {
    try_all(&deviations::kinds(), &[]);
}

#[test]
fn there_are_enough() {
    let tables: [Vec<Kind>; 12] = [
        quic_packets::kinds(),
        tokens::kinds(),
        quic_frames::kinds(),
        quic_streams::kinds(),
        transport_parameters::kinds(),
        tls_messages::kinds(),
        http3_frames::kinds(),
        qpack::kinds(),
        http_messages::kinds(),
        floods::kinds(),
        slow_clients::kinds(),
        deviations::kinds(),
    ];
    let kinds: Vec<&Kind> = tables.iter().flatten().collect();
    let rules: BTreeSet<_> = kinds.iter().map(|kind| (kind.section, kind.rule)).collect();
    assert_eq!(rules.len(), kinds.len(), "a rule is there twice");
    let inputs: usize = kinds.iter().map(|kind| kind.inputs.len()).sum();
    println!("{inputs} inputs of {} kinds", kinds.len());
    assert!(kinds.len() >= KINDS_MIN && inputs >= INPUTS_MIN);
}
