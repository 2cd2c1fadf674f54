//! Hostile input of every protocol layer, sent to a server process: the server must react as the
//! RFC requires and still serve a regular client.
//!
//! Each module has a table of rules. Where the server deviates from an RFC, the rule is in
//! [`deviations`], with the reason.

use std::collections::BTreeSet;
use std::thread;

mod budgets;
mod case;
mod credentials;
mod deviations;
mod floods;
mod fragments;
mod goodput;
mod http3_frames;
mod http_messages;
mod packet;
mod peer;
mod qpack;
mod quic_frames;
mod quic_packets;
mod quic_streams;
mod received;
mod slow_clients;
mod tls_messages;
mod tokens;
mod transport_parameters;
mod wire;
mod without_acks;
mod worst_case;

#[expect(dead_code, reason = "the process tests use the rest")]
mod support;

use case::run_rules;
use case::single_cases;
use case::Rule;

const RULES_MIN: usize = 80;
const CASES_MIN: usize = 300;

#[test]
fn quic_packets() {
    run_rules(&quic_packets::rules(), &[]);
}

#[test]
fn tokens() {
    run_rules(&tokens::rules(), &["--retry-above", "0"]);
}

#[test]
fn quic_frames() {
    run_rules(&quic_frames::rules(), &[]);
}

#[test]
fn quic_streams() {
    run_rules(&quic_streams::rules(), &[]);
}

#[test]
fn transport_parameters() {
    run_rules(&transport_parameters::rules(), &[]);
}

#[test]
fn tls_messages() {
    run_rules(&tls_messages::rules(), &[]);
}

#[test]
fn http3_frames() {
    run_rules(&http3_frames::rules(), &[]);
}

#[test]
fn qpack() {
    run_rules(&qpack::rules(), &[]);
}

#[test]
fn http_messages() {
    run_rules(&http_messages::rules(), &[]);
}

#[test]
fn floods() {
    run_rules(&floods::rules(), &[]);
}

#[test]
fn slow_clients() {
    // Each case waits for a timeout: all of them at the same time, each on its own server.
    let rules = || single_cases(slow_clients::rules());
    thread::scope(|scope| {
        for number in 0..rules().len() {
            let run = move || run_rules(&rules()[number..=number], &slow_clients::ARGUMENTS);
            scope.spawn(run);
        }
    });
}

#[test]
fn budgets() {
    run_rules(&budgets::within(), &budgets::ARGUMENTS);
    run_rules(&budgets::rules(), &budgets::ARGUMENTS);
}

#[test]
fn known_deviations() {
    run_rules(&deviations::rules(), &[]);
}

#[test]
fn rules_are_unique_and_numerous() {
    let tables: [Vec<Rule>; 14] = [
        quic_packets::rules(),
        tokens::rules(),
        quic_frames::rules(),
        quic_streams::rules(),
        transport_parameters::rules(),
        tls_messages::rules(),
        http3_frames::rules(),
        qpack::rules(),
        http_messages::rules(),
        floods::rules(),
        slow_clients::rules(),
        budgets::rules(),
        budgets::within(),
        deviations::rules(),
    ];
    let rules: Vec<&Rule> = tables.iter().flatten().collect();
    let distinct: BTreeSet<_> = rules.iter().map(|rule| (rule.section, rule.name)).collect();
    assert_eq!(distinct.len(), rules.len(), "a rule occurs twice");
    let cases: usize = rules.iter().map(|rule| rule.cases.len()).sum();
    println!("{cases} cases of {} rules", rules.len());
    assert!(rules.len() >= RULES_MIN && cases >= CASES_MIN);
}
