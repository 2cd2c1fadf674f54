//! Catalogue of scenarios: the named ones, and random ones by seed.

use crate::determinism::Generator;
use crate::scenario::Action;
use crate::scenario::End;
use crate::scenario::Endpoint::Client;
use crate::scenario::Endpoint::Server;
use crate::scenario::Handshake;
use crate::scenario::Load;
use crate::scenario::Priorities;
use crate::scenario::Requests;
use crate::scenario::Scenario;

/// Prefix of the names of random scenarios, before their seed.
const RANDOM: &str = "random-";

/// Name of the release's BBR2.
const BBR2: &str = "bbr2_gcongestion";

/// Returns a change of the scenario `name`.
fn of(name: &str, change: impl FnOnce(&mut Scenario)) -> Scenario {
    let mut scenario = Scenario::new(name);
    change(&mut scenario);
    scenario
}

fn download(bytes: u64) -> Load {
    Load::Streams(Requests::new(1, 100, bytes))
}

fn upload(bytes: u64) -> Load {
    Load::Streams(Requests::new(1, bytes, 100))
}

/// Returns a scenario by its name.
pub fn find(name: &str) -> Option<Scenario> {
    match name.strip_prefix(RANDOM) {
        Some(seed) => Some(random(seed.parse().ok()?)),
        None => named().into_iter().find(|s| s.name == name),
    }
}

/// Returns the named scenarios.
pub fn named() -> Vec<Scenario> {
    let mut all = handshakes();
    all.extend(transfers());
    all.extend(damaged_paths());
    all.extend(controllers());
    all.extend(moves());
    all.extend(streams());
    all.extend(ends());
    all.extend(http3());
    all
}

fn handshakes() -> Vec<Scenario> {
    vec![
        Scenario::new("handshake"),
        of("handshake-large-certificate", |s| s.transport.large_certificate = true),
        of("handshake-large-certificate-loss", |s| {
            s.transport.large_certificate = true;
            s.path.lost = vec![1, 3];
        }),
        of("handshake-loss", |s| s.path.lost = vec![0, 2]),
        of("handshake-blackhole", |s| s.actions = vec![(10, Action::Blackhole(true))]),
        of("version-negotiation", |s| s.handshake = Handshake::VersionNegotiation),
        of("retry", |s| {
            s.handshake = Handshake::Retry;
            s.load = download(50_000);
        }),
        of("resumption", |s| {
            s.handshake = Handshake::Resumed;
            s.load = download(50_000);
        }),
        of("early-data", |s| {
            s.handshake = Handshake::EarlyData;
            s.load = Load::Streams(Requests::new(3, 2_000, 20_000));
        }),
        of("early-data-loss", |s| {
            s.handshake = Handshake::EarlyData;
            s.load = Load::Streams(Requests::new(3, 2_000, 20_000));
            s.path.loss_permille = 100;
        }),
        of("early-data-http3", |s| {
            s.handshake = Handshake::EarlyData;
            s.load = Load::Http3(Requests::new(3, 0, 20_000));
        }),
    ]
}

fn transfers() -> Vec<Scenario> {
    vec![
        of("download", |s| s.load = download(3_000_000)),
        of("upload", |s| s.load = upload(3_000_000)),
        of("download-without-queue", |s| {
            s.load = download(3_000_000);
            s.path.queue_bytes = 10_000;
        }),
        of("download-large-queue", |s| {
            s.load = download(3_000_000);
            s.path.queue_bytes = 2_000_000;
        }),
        of("download-long-path", |s| {
            s.load = download(3_000_000);
            s.path.delay_ms = 300;
            s.path.kbit_per_s = 50_000;
            s.path.queue_bytes = 1_000_000;
        }),
        of("download-unlimited-rate", |s| {
            s.load = download(3_000_000);
            s.path.kbit_per_s = 0;
        }),
        of("download-batched-reads", |s| {
            s.load = download(1_000_000);
            s.path.read_interval_us = 5_000;
        }),
        of("download-and-upload", |s| s.load = Load::Streams(Requests::new(1, 500_000, 500_000))),
        of("requests-over-time", |s| {
            s.load = Load::Streams(Requests { interval_ms: 400, ..Requests::new(6, 300, 100_000) });
        }),
        of("datagrams", |s| {
            s.transport.datagrams = true;
            s.load = Load::Datagrams { count: 300, bytes: 900 };
        }),
        of("datagrams-small", |s| {
            s.transport.datagrams = true;
            s.load = Load::Datagrams { count: 300, bytes: 40 };
        }),
        of("pmtud", |s| {
            s.transport.pmtud = true;
            s.transport.max_udp_payload = 1472;
            s.load = download(1_000_000);
        }),
        of("pmtud-small-mtu", |s| {
            s.transport.pmtud = true;
            s.transport.max_udp_payload = 1472;
            s.path.mtu = 1400;
            s.load = download(1_000_000);
        }),
    ]
}

fn damaged_paths() -> Vec<Scenario> {
    vec![
        of("loss", |s| {
            s.load = download(1_000_000);
            s.path.loss_permille = 20;
        }),
        of("loss-upload", |s| {
            s.load = upload(1_000_000);
            s.path.loss_permille = 20;
        }),
        of("loss-heavy", |s| {
            s.load = download(200_000);
            s.path.loss_permille = 150;
        }),
        of("reordering", |s| {
            s.load = download(1_000_000);
            s.path.late_permille = 50;
        }),
        of("duplicates", |s| {
            s.load = download(1_000_000);
            s.path.twice_permille = 100;
        }),
        of("loss-reordering-duplicates", |s| {
            s.load = Load::Streams(Requests::new(5, 50_000, 200_000));
            s.path.loss_permille = 20;
            s.path.late_permille = 50;
            s.path.twice_permille = 50;
        }),
        of("small-writes-loss", |s| {
            s.load = Load::SmallWrites { count: 6_000, bytes: 10 };
            s.path.lost = (0..30).map(|n| 300 + 150 * n).collect();
            s.path.kbit_per_s = 100_000;
        }),
        of("blackhole", |s| {
            s.load = download(1_000_000);
            s.actions = vec![(200, Action::Blackhole(true)), (900, Action::Blackhole(false))];
        }),
    ]
}

fn controllers() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, controller, pacing) in [
        ("reno", "reno", false),
        ("reno-paced", "reno", true),
        ("cubic", "cubic", false),
        ("cubic-paced", "cubic", true),
        ("bbr2_gcongestion", BBR2, false),
        ("bbr2_gcongestion-paced", BBR2, true),
    ] {
        all.push(of(name, |s| {
            s.transport.controller = controller;
            s.transport.pacing = pacing;
            s.load = download(1_500_000);
            s.path.loss_permille = 5;
        }));
    }
    all.push(of("bbr2_gcongestion-long-path", |s| {
        s.transport.controller = BBR2;
        s.load = download(1_500_000);
        s.path.delay_ms = 300;
    }));
    all.push(of("without-hystart", |s| {
        s.transport.hystart = false;
        s.load = download(1_500_000);
    }));
    all.push(of("initial-window-of-32", |s| {
        s.transport.initial_window_packets = Some(32);
        s.load = download(1_500_000);
    }));
    all
}

fn moves() -> Vec<Scenario> {
    vec![
        of("migration", |s| {
            s.load = download(1_500_000);
            s.actions = vec![(200, Action::Migrate)];
        }),
        of("migration-at-once", |s| {
            s.load = upload(1_500_000);
            s.actions = vec![(200, Action::MigrateAtOnce)];
        }),
        of("migration-twice", |s| {
            s.load = download(1_500_000);
            s.actions = vec![(150, Action::Migrate), (350, Action::Migrate)];
        }),
        of("nat-rebinding-download", |s| {
            s.load = download(1_500_000);
            s.actions = vec![(200, Action::Rebind)];
        }),
        of("nat-rebinding-upload", |s| {
            s.load = upload(1_500_000);
            s.actions = vec![(200, Action::Rebind)];
        }),
        of("bbr2_gcongestion-nat-rebinding", |s| {
            s.transport.controller = BBR2;
            s.load = download(1_500_000);
            s.actions = vec![(200, Action::Rebind)];
        }),
        of("nat-rebinding-five-times", |s| {
            s.load = download(3_000_000);
            s.actions = (1..6).map(|n| (n * 150, Action::Rebind)).collect();
        }),
        of("connection-id-retired", |s| {
            s.load = download(500_000);
            s.actions = vec![
                (150, Action::RetireConnectionId(Client)),
                (200, Action::RetireConnectionId(Server)),
            ];
        }),
        of("eight-connection-ids", |s| {
            s.transport.connection_ids = 8;
            s.load = download(1_500_000);
            s.actions = vec![
                (100, Action::RetireConnectionId(Client)),
                (150, Action::Migrate),
                (300, Action::Migrate),
                (450, Action::MigrateAtOnce),
                (600, Action::Migrate),
            ];
        }),
        of("two-connection-ids", |s| {
            s.transport.connection_ids = 2;
            s.load = download(500_000);
            s.actions = vec![(100, Action::RetireConnectionId(Client)), (150, Action::Migrate)];
        }),
        of("migration-disabled", |s| {
            s.transport.disable_migration = true;
            s.load = download(500_000);
            s.actions = vec![(100, Action::Migrate), (150, Action::MigrateAtOnce)];
        }),
        of("key-update", |s| {
            s.load = download(1_000_000);
            s.actions = vec![(200, Action::UpdateKey)];
        }),
        of("key-updates-loss", |s| {
            s.load = Load::Streams(Requests::new(4, 200_000, 200_000));
            s.path.loss_permille = 20;
            s.actions = vec![(150, Action::UpdateKey), (1500, Action::UpdateKey)];
        }),
    ]
}

fn streams() -> Vec<Scenario> {
    let priorities =
        |priorities| Load::Streams(Requests { priorities, ..Requests::new(16, 100, 50_000) });
    vec![
        of("many-streams", |s| s.load = Load::Streams(Requests::new(90, 200, 5_000))),
        of("many-streams-loss", |s| {
            s.load = Load::Streams(Requests::new(90, 2_000, 5_000));
            s.path.loss_permille = 20;
        }),
        of("stream-limit", |s| {
            s.transport.streams = 5;
            s.load = Load::Streams(Requests::new(40, 200, 5_000));
        }),
        of("unidirectional", |s| s.load = Load::Unidirectional(Requests::new(20, 20_000, 20_000))),
        of("priorities-urgency", |s| s.load = priorities(Priorities::ByUrgency)),
        of("priorities-incremental", |s| s.load = priorities(Priorities::Incremental)),
        of("small-windows", |s| {
            s.transport.connection_window = 20_000;
            s.transport.stream_window = 5_000;
            s.load = Load::Streams(Requests::new(6, 40_000, 40_000));
        }),
        of("tiny-windows", |s| {
            s.transport.connection_window = 100;
            s.transport.stream_window = 30;
            s.load = Load::Streams(Requests::new(4, 500, 500));
        }),
        of("paused-reader", |s| {
            s.transport.connection_window = 300_000;
            s.transport.stream_window = 200_000;
            s.load = Load::Streams(Requests::new(4, 100, 300_000));
            s.actions = vec![
                (120, Action::PauseReading(Client, true)),
                (900, Action::PauseReading(Client, false)),
            ];
        }),
        of("reset-by-server", |s| {
            s.load = Load::Streams(Requests::new(3, 100, 500_000));
            s.actions = vec![(200, Action::Reset(Server, 4))];
        }),
        of("reset-by-client", |s| {
            s.load = Load::Streams(Requests::new(3, 300_000, 1_000));
            s.actions = vec![(150, Action::Reset(Client, 0))];
        }),
        of("stop-sending", |s| {
            s.load = Load::Streams(Requests::new(3, 100, 500_000));
            s.actions = vec![(200, Action::StopSending(Client, 8))];
        }),
    ]
}

fn ends() -> Vec<Scenario> {
    vec![
        of("close-by-server", |s| {
            s.load = download(100_000);
            s.end = End::Close(Server);
        }),
        of("close-by-client-during-download", |s| {
            s.load = download(3_000_000);
            s.actions = vec![(300, Action::Close(Client))];
        }),
        of("close-by-server-during-download", |s| {
            s.load = download(3_000_000);
            s.actions = vec![(300, Action::Close(Server))];
        }),
        of("close-in-handshake", |s| s.actions = vec![(30, Action::Close(Client))]),
        of("idle-timeout", |s| {
            s.load = download(100_000);
            s.end = End::IdleTimeout;
            s.transport.idle_ms = 2_000;
        }),
        of("keep-alive", |s| {
            s.load = download(100_000);
            s.end = End::IdleTimeout;
            s.transport.idle_ms = 2_000;
            s.actions = vec![(1_500, Action::Ping(Client)), (2_500, Action::Ping(Server))];
        }),
    ]
}

fn http3() -> Vec<Scenario> {
    vec![
        of("http3-get", |s| s.load = Load::Http3(Requests::new(1, 0, 1_000_000))),
        of("http3-post", |s| s.load = Load::Http3(Requests::new(1, 1_000_000, 500))),
        of("http3-many-requests", |s| s.load = Load::Http3(Requests::new(80, 0, 5_000))),
        of("http3-requests-over-time", |s| {
            s.load = Load::Http3(Requests { interval_ms: 150, ..Requests::new(20, 0, 5_000) });
        }),
        of("http3-empty-responses", |s| s.load = Load::Http3(Requests::new(20, 0, 0))),
        of("http3-loss", |s| {
            s.load = Load::Http3(Requests::new(20, 3_000, 50_000));
            s.path.loss_permille = 20;
        }),
        of("http3-priorities", |s| {
            s.load = Load::Http3(Requests {
                priorities: Priorities::ByUrgency,
                ..Requests::new(16, 0, 50_000)
            });
        }),
        of("http3-small-windows", |s| {
            s.transport.connection_window = 20_000;
            s.transport.stream_window = 5_000;
            s.load = Load::Http3(Requests::new(6, 10_000, 40_000));
        }),
    ]
}

/// Returns the random scenario of a seed.
///
/// Path MTU discovery, changes of the client's address, the limit against amplification, and BBR2
/// over long paths are left to the named scenarios, since fixes change them.
pub fn random(seed: u64) -> Scenario {
    let mut random = Generator(seed.wrapping_mul(0x9e37_79b9).wrapping_add(seed));
    let mut s = Scenario::new(&format!("{RANDOM}{seed}"));
    s.seed = random.next() >> 1;
    s.path.delay_ms = random.pick(&[1, 5, 20, 50, 150, 300]);
    s.path.kbit_per_s = random.pick(&[0, 1_000, 5_000, 20_000, 100_000]);
    s.path.queue_bytes = random.pick(&[5_000, 30_000, 100_000, 1_000_000]);
    s.path.loss_permille = random.pick(&[0, 0, 0, 5, 20, 50]);
    s.path.late_permille = random.pick(&[0, 0, 0, 10, 50]);
    s.path.twice_permille = random.pick(&[0, 0, 0, 10, 50]);
    s.path.read_interval_us = random.pick(&[0, 0, 1_000, 10_000]);
    s.transport.controller = random.pick(&["reno", "cubic", "cubic", BBR2]);
    if s.transport.controller == BBR2 {
        s.path.delay_ms = s.path.delay_ms.min(50);
    }
    s.transport.pacing = random.happens(500);
    s.transport.hystart = random.happens(700);
    s.transport.max_udp_payload = random.pick(&[1200, 1350, 1350, 1472]);
    s.transport.connection_window = random.pick(&[5_000, 50_000, 500_000, 10_000_000]);
    s.transport.stream_window = random.pick(&[2_000, 50_000, 1_000_000]);
    s.transport.streams = random.pick(&[3, 10, 100]);
    s.transport.ack_delay_ms = random.pick(&[5, 25, 100]);
    s.transport.large_certificate = random.happens(200);
    s.transport.amplification_factor = Some(100);
    s.handshake = random.pick(&[
        Handshake::Full,
        Handshake::Full,
        Handshake::VersionNegotiation,
        Handshake::Retry,
        Handshake::Resumed,
        Handshake::EarlyData,
    ]);
    s.load = random_load(&mut random);
    s.transport.datagrams = matches!(s.load, Load::Datagrams { .. });
    s.actions = random_actions(&mut random);
    s.end = random.pick(&[End::Close(Client), End::Close(Server), End::IdleTimeout]);
    s
}

fn random_load(random: &mut Generator) -> Load {
    let requests = Requests {
        count: random.pick(&[1, 2, 5, 20, 60]),
        up: random.pick(&[0, 100, 2_000, 50_000]),
        down: random.pick(&[0, 100, 5_000, 100_000]),
        interval_ms: random.pick(&[0, 0, 3, 50]),
        priorities: random.pick(&[
            Priorities::Default,
            Priorities::Incremental,
            Priorities::ByUrgency,
        ]),
    };
    match random.below(10) {
        0 => Load::Datagrams {
            count: 10 + random.below(300),
            bytes: 1 + random.below(1_000) as usize,
        },
        1 => Load::Unidirectional(requests),
        2..=4 => Load::Http3(requests),
        5 => download(random.below(2_000_000)),
        6 => upload(random.below(2_000_000)),
        _ => Load::Streams(requests),
    }
}

fn random_actions(random: &mut Generator) -> Vec<(u64, Action)> {
    let mut at = 0;
    let mut actions = Vec::new();
    for _ in 0..random.pick(&[0, 0, 1, 3]) {
        at += 20 + random.below(300);
        let endpoint = random.pick(&[Client, Server]);
        let stream = 4 * random.below(4);
        match random.below(8) {
            0 => actions.push((at, Action::UpdateKey)),
            1 => actions.push((at, Action::Reset(endpoint, stream))),
            2 => actions.push((at, Action::StopSending(endpoint, stream))),
            3 => {
                actions.push((at, Action::PauseReading(endpoint, true)));
                at += 20 + random.below(500);
                actions.push((at, Action::PauseReading(endpoint, false)));
            }
            4 => {
                actions.push((at, Action::Blackhole(true)));
                at += 20 + random.below(500);
                actions.push((at, Action::Blackhole(false)));
            }
            5 => actions.push((at, Action::RetireConnectionId(endpoint))),
            6 if random.happens(300) => actions.push((at, Action::Close(endpoint))),
            _ => actions.push((at, Action::Ping(endpoint))),
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    // make patch-cost looks there for a name before it builds anything.
    #[test]
    fn each_name_is_in_the_source_behind_a_parenthesis() {
        for Scenario { name, .. } in named() {
            assert!(include_str!("catalogue.rs").contains(&format!("(\"{name}\"")), "{name}");
        }
    }
}
