//! Process of the emulator, between real sockets. A packet that must not arrive is known to
//! be lost when the next one arrives: the link keeps the order.

mod common;
mod ecn;

use common::bind;
use common::client;
use common::exchange;
use common::now;
use common::output;
use common::receive;
use common::receive_texts;
use common::Emulator;
use common::TIMEOUT;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;
use udp_batch::Destination;
use udp_batch::EcnCodepoint;
use udp_batch::Socket;

/// Sends with what std's sockets do not have: segmentation and ECN.
fn transmit(
    socket: &UdpSocket,
    to: SocketAddr,
    contents: &[u8],
    segment: usize,
    ecn: Option<EcnCodepoint>,
) {
    let batched = Socket::new(socket.try_clone().unwrap()).unwrap();
    batched.send(Destination { to, from: None }, ecn, contents, segment).unwrap();
    socket.set_nonblocking(false).unwrap();
}

/// Returns an address without a server, which no other test's socket takes by chance.
fn nobody_there() -> SocketAddr {
    bind("127.77.0.1:0").local_addr().unwrap()
}

#[test]
fn round_trip_takes_at_least_the_rtt() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--rtt 60");
    let client = client("127.0.0.1:0", &emulator);
    for _ in 0..3 {
        let started = now();
        exchange(&client, &server);
        assert!(now() - started >= Duration::from_millis(60));
    }
}

#[test]
fn direction_has_half_of_the_rtt() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--rtt 80");
    let client = client("127.0.0.1:0", &emulator);
    for _ in 0..3 {
        let started = now();
        client.send(b"ping").unwrap();
        let (_, from) = receive(&server);
        let there = now();
        assert!(there - started >= Duration::from_millis(40));
        server.send_to(b"pong", from).unwrap();
        receive(&client);
        assert!(now() - there >= Duration::from_millis(40));
    }
}

#[test]
fn burst_takes_at_least_its_bits_over_the_rate() {
    // 50 IP packets of 1,000 bytes at 4 Mbit/s: 100 ms until the last is in.
    let server = bind("127.0.0.1:0");
    let settings = "--rate 4 --rtt 0 --buffer 1000000";
    let emulator = Emulator::start(server.local_addr().unwrap(), settings);
    let client = client("127.0.0.1:0", &emulator);
    let started = now();
    for _ in 0..50 {
        client.send(&[0; 972]).unwrap();
    }
    for _ in 0..50 {
        receive(&server);
    }
    assert!(now() - started >= Duration::from_millis(100));
}

#[test]
fn packets_beyond_the_buffer_are_dropped() {
    let server = bind("127.0.0.1:0");
    // One packet is on the wire for 0.8 s, three wait.
    let settings = "--rate 0.01 --rtt 0 --buffer 3000 --rate-up 1000";
    let emulator = Emulator::start(server.local_addr().unwrap(), settings);
    let client = client("127.0.0.1:0", &emulator);
    client.send(b"ping").unwrap();
    let (_, from) = receive(&server);
    transmit(&server, from, &[0; 972 * 10], 972, None);
    receive(&client);
    let down = &emulator.stop(Signal::TERM).summary["down"];
    assert_eq!(down["accepted_packets"], 4);
    assert_eq!(down["dropped_buffer_packets"], 6);
}

#[test]
fn fair_queue_lets_another_client_pass_a_long_queue() {
    let server = bind("127.0.0.1:0");
    // 1,000 bytes take 20 ms: the queue of the first client lasts for 400 ms.
    let settings = "--rate 0.4 --rtt 0 --buffer 100000 --rate-up 1000";
    let order = |queue: &str| {
        let settings = format!("{settings} --queue {queue}");
        let emulator = Emulator::start(server.local_addr().unwrap(), &settings);
        let clients = [(); 2].map(|()| client("127.0.0.1:0", &emulator));
        let [long, short] = [0, 1].map(|index: usize| {
            clients[index].send(b"ping").unwrap();
            receive(&server).1
        });
        transmit(&server, long, &[0; 972 * 20], 972, None);
        receive(&clients[0]);
        server.send_to(b"pong", short).unwrap();
        receive(&clients[1]);
        clients[0].set_nonblocking(true).unwrap();
        let before = std::iter::from_fn(|| clients[0].recv(&mut [0; 2_000]).ok()).count();
        let summary = emulator.stop(Signal::TERM).summary;
        assert_eq!(summary["down"]["failed_packets"], 0);
        before
    };
    assert_eq!(order("drop-tail"), 19);
    let before = order("fq-codel");
    assert!(before < 10, "{before} of 19 packets came first");
}

#[test]
fn fair_queue_drops_from_the_longest_and_tells_all_fates() {
    let server = bind("127.0.0.1:0");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let settings = format!(
        "--rate 0.4 --rtt 0 --buffer 3000 --rate-up 1000 --queue fq-codel --trace {}",
        trace.display()
    );
    let emulator = Emulator::start(server.local_addr().unwrap(), &settings);
    let client = client("127.0.0.1:0", &emulator);
    client.send(b"ping").unwrap();
    let (_, from) = receive(&server);
    transmit(&server, from, &[0; 972 * 10], 972, None);
    for _ in 0..4 {
        receive(&client);
    }
    let down = &emulator.stop(Signal::TERM).summary["down"];
    assert_eq!(
        (&down["accepted_packets"], &down["dropped_buffer_packets"]),
        (&4.into(), &6.into())
    );
    assert_eq!(down["in_flight_packets"], 0);
    let text = std::fs::read_to_string(trace).unwrap();
    let fates = |fate: &str| text.matches(&format!(",{fate},")).count();
    assert_eq!((fates("delivered"), fates("dropped_buffer")), (5, 6), "{text}");
}

#[test]
fn named_packets_alone_are_lost() {
    let server = bind("127.0.0.1:0");
    let settings = "--drop up:2,4 --drop down:1-2 --drop down:5";
    let emulator = Emulator::start(server.local_addr().unwrap(), settings);
    // The count starts again for each client.
    for _ in 0..2 {
        let client = client("127.0.0.1:0", &emulator);
        for text in ["1", "2", "3", "4", "5"] {
            client.send(text.as_bytes()).unwrap();
        }
        assert_eq!(receive_texts(&server, 2), ["1", "3"]);
        let (_, from) = receive(&server);
        for text in ["1", "2", "3", "4", "5", "6"] {
            server.send_to(text.as_bytes(), from).unwrap();
        }
        assert_eq!(receive_texts(&client, 3), ["3", "4", "6"]);
    }
    let summary = emulator.stop(Signal::TERM).summary;
    assert_eq!(summary["up"]["dropped_named_packets"], 4);
    assert_eq!(summary["down"]["dropped_named_packets"], 6);
}

#[test]
fn change_comes_at_its_time() {
    let server = bind("127.0.0.1:0");
    let started = now();
    let settings = "--loss 1 --at 200ms:loss=0";
    let emulator = Emulator::start(server.local_addr().unwrap(), settings);
    let client = client("127.0.0.1:0", &emulator);
    server.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    while server.recv(&mut [0; 9]).is_err() {
        assert!(now() - started < TIMEOUT, "the loss never ends");
        client.send(b"ping").unwrap();
    }
    assert!(now() - started >= Duration::from_millis(200));
    let up = &emulator.stop(Signal::TERM).summary["up"];
    assert!(up["dropped_random_packets"].as_u64() > Some(0), "{up}");
}

/// A trace of 6 ms, which has begun again by the time of the first packet.
#[test]
fn path_trace_applies_from_the_start_on() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.csv");
    std::fs::write(&trace, "time_ms,rate_mbps,rtt_ms\n0,900,80\n3,1000,90\n6,,\n").unwrap();
    let server = bind("127.0.0.1:0");
    let settings = format!("--path-trace {}", trace.display());
    let emulator = Emulator::start(server.local_addr().unwrap(), &settings);
    let client = client("127.0.0.1:0", &emulator);
    let started = now();
    client.send(b"ping").unwrap();
    receive(&server);
    assert!(now() - started >= Duration::from_millis(40));
}

#[test]
fn acks_are_thinned_but_for_the_last_of_a_burst() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--ack-thinning 3 --drop up:6");
    let client = client("127.0.0.1:0", &emulator);
    // They come at one time, however busy the machine is.
    transmit(&client, emulator.address, b"aabbccddeeffgghh", 2, Some(EcnCodepoint::Ect0));
    assert_eq!(receive_texts(&server, 2), ["cc", "hh"]);
    // One byte more is no acknowledgement.
    transmit(&client, emulator.address, &[b'x'; 61 * 4], 61, Some(EcnCodepoint::Ect0));
    receive_texts(&server, 4);
    let summary = emulator.stop(Signal::TERM).summary;
    assert_eq!(
        (&summary["thinned_packets"], &summary["up"]["offered_packets"]),
        (&5.into(), &7.into())
    );
    assert_eq!(summary["up"]["dropped_named_packets"], 1);
}

#[test]
fn segments_of_one_send_are_packets_of_their_own() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--drop down:2,5");
    let client = client("127.0.0.1:0", &emulator);
    client.send(b"ping").unwrap();
    let (_, from) = receive(&server);
    transmit(&server, from, b"aabbccddeef", 2, None);
    assert_eq!(receive_texts(&client, 4), ["aa", "cc", "dd", "f"]);
    let down = &emulator.stop(Signal::TERM).summary["down"];
    assert_eq!(down["offered_packets"], 6);
    assert_eq!(down["offered_bytes"], 11 + 6 * 28);
}

#[test]
fn same_seed_loses_the_same_packets() {
    let survivors = |settings: &str| {
        let server = bind("127.0.0.1:0");
        let emulator = Emulator::start(server.local_addr().unwrap(), settings);
        let client = client("127.0.0.1:0", &emulator);
        for n in 0..100 {
            client.send(format!("{n}").as_bytes()).unwrap();
        }
        // Until one of the ends comes through.
        let mut texts: Vec<String> = Vec::new();
        while texts.last().is_none_or(|text| text != "end") {
            client.send(b"end").unwrap();
            texts.extend(receive_texts(&server, 1));
        }
        texts
    };
    let first = survivors("--loss 0.3 --seed 5");
    assert_eq!(first, survivors("--loss 0.3 --seed 5"));
    assert_ne!(first, survivors("--loss 0.3 --seed 6"));
    assert!(first.len() < 95, "{}", first.len());
}

#[test]
fn packet_larger_than_the_mtu_is_dropped() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "");
    let client = client("127.0.0.1:0", &emulator);
    client.send(&[1; 1_473]).unwrap();
    client.send(&[2; 1_472]).unwrap();
    let (passed, from) = receive(&server);
    assert_eq!(passed, [2; 1_472]);
    server.send_to(&[3; 1_473], from).unwrap();
    server.send_to(&[4; 1_472], from).unwrap();
    assert_eq!(receive(&client).0, [4; 1_472]);
    let summary = emulator.stop(Signal::TERM).summary;
    assert_eq!(summary["up"]["dropped_mtu_packets"], 1);
    assert_eq!(summary["down"]["dropped_mtu_packets"], 1);
}

#[test]
fn server_sees_each_client_at_its_own_address() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "");
    let mut seen = Vec::new();
    for address in ["127.1.2.3", "127.9.8.7", "127.9.8.7"] {
        let client = client(&format!("{address}:0"), &emulator);
        let from = exchange(&client, &server);
        assert_eq!(from.ip().to_string(), address);
        assert_eq!(from, exchange(&client, &server), "one client, one address and port");
        seen.push(from);
    }
    assert_ne!(seen[1], seen[2], "two clients of one address have two ports");
    assert_eq!(emulator.stop(Signal::TERM).summary["clients"], 3);
}

#[test]
fn replies_come_from_the_address_sent_to() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--listen 0.0.0.0:0");
    for address in ["127.0.0.1", "127.4.4.4"] {
        // A connected socket hears its peer only.
        let client = bind("127.0.0.1:0");
        client.connect((address, emulator.address.port())).unwrap();
        exchange(&client, &server);
    }
}

#[test]
fn ipv6_is_carried_and_has_larger_headers() {
    let server = bind("[::1]:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--listen [::1]:0");
    let client = client("[::1]:0", &emulator);
    client.send(&[0; 1_453]).unwrap();
    exchange(&client, &server);
    let up = &emulator.stop(Signal::TERM).summary["up"];
    assert_eq!(up["dropped_mtu_packets"], 1);
    assert_eq!(up["accepted_bytes"], 4 + 48);
}

#[test]
fn empty_packets_pass() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "");
    let client = client("127.0.0.1:0", &emulator);
    client.send(&[]).unwrap();
    assert!(receive(&server).0.is_empty());
    exchange(&client, &server);
}

#[test]
fn vanished_client_is_forgotten() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--idle 0.2");
    let client = client("127.0.0.1:0", &emulator);
    exchange(&client, &server);
    std::thread::sleep(Duration::from_secs(1));
    exchange(&client, &server);
    assert_eq!(emulator.stop(Signal::TERM).summary["clients"], 2);
}

#[test]
fn missing_server_is_warned_about_once() {
    let address = nobody_there();
    let emulator = Emulator::start(address, "");
    let client = client("127.0.0.1:0", &emulator);
    for _ in 0..20 {
        client.send(b"lost").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let server = bind(&address.to_string());
    client.send(b"ping").unwrap();
    while receive(&server).0 != b"ping" {}
    let stderr = emulator.stop(Signal::TERM).stderr;
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(&address.to_string()), "{stderr}");
}

#[test]
fn relay_survives_a_parent_that_stops_reading() {
    let address = nobody_there();
    let mut emulator = Emulator::start(address, "");
    emulator.close_stderr();
    let client = client("127.0.0.1:0", &emulator);
    for _ in 0..20 {
        client.send(b"lost").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(emulator.stop(Signal::TERM).summary["up"]["offered_packets"], 20);
}

#[test]
fn overruns_are_counted_and_reported() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "");
    let client = client("127.0.0.1:0", &emulator);
    // More than a socket holds, while the emulator cannot read.
    emulator.signal(Signal::STOP);
    let sent_packets = 40_000;
    for _ in 0..sent_packets {
        client.send(&[0; 1_000]).unwrap();
    }
    emulator.signal(Signal::CONT);
    receive(&server);
    let stopped = emulator.stop(Signal::TERM);
    let up = &stopped.summary["up"];
    let overrun = up["overrun_packets"].as_u64().unwrap();
    assert!(overrun > 0);
    assert_eq!(up["offered_packets"].as_u64().unwrap() + overrun, sent_packets);
    let told =
        stopped.stderr.lines().filter(|line| line.contains(&format!("lost {overrun} packets")));
    assert_eq!(told.count(), 1, "{}", stopped.stderr);
}

/// Packets that wait in a socket for a tenth of a second are late, however fast the emulator then is.
#[test]
fn late_packets_are_reported_meanwhile_and_at_the_end() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--rtt 40");
    let client = client("127.0.0.1:0", &emulator);
    // Longer than a second in all, after which the emulator looks again.
    for _ in 0..24 {
        emulator.signal(Signal::STOP);
        (0..100).for_each(|_| assert_eq!(client.send(&[0; 100]).unwrap(), 100));
        std::thread::sleep(Duration::from_millis(100));
        emulator.signal(Signal::CONT);
        (0..100).for_each(|_| assert_eq!(receive(&server).0.len(), 100));
    }
    let stopped = emulator.stop(Signal::TERM);
    let up = &stopped.summary["up"];
    assert_eq!(up["late_us_limit"], 2_000.0);
    assert!(up["late_us_p99"].as_f64() > Some(70_000.0), "{up}");
    assert_eq!(stopped.summary["down"]["late_us_p99"], 0.0);
    let lines: Vec<&str> = stopped.stderr.lines().collect();
    let [meanwhile, at_the_end] = lines[..] else { panic!("{lines:?}") };
    let limit = "left more than 2.0 ms late; lower --rate";
    assert!(meanwhile.contains("cannot keep up") && meanwhile.contains(limit), "{meanwhile}");
    let told = "this machine, not the link, delayed packets: 1 % left more than ";
    assert!(at_the_end.contains(told) && at_the_end.contains("lower --rate"), "{at_the_end}");
}

#[test]
fn signal_ends_relay_with_a_summary() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = bind("127.0.0.1:0");
        let emulator = Emulator::start(server.local_addr().unwrap(), "");
        let client = client("127.0.0.1:0", &emulator);
        exchange(&client, &server);
        let stopped = emulator.stop(signal);
        assert_eq!(stopped.stderr, "");
        for direction in ["up", "down"] {
            let totals = &stopped.summary[direction];
            assert_eq!(totals["offered_packets"], 1, "{totals}");
            assert_eq!(totals["sent_packets"], 1, "{totals}");
            assert_eq!(totals["offered_bytes"], 4 + 28, "{totals}");
        }
    }
}

#[test]
fn bad_usage_and_busy_port_are_one_line() {
    let holder = bind("127.0.0.1:0");
    let taken = holder.local_addr().unwrap();
    let busy = format!("--listen {taken} --to 127.0.0.1:9 --rate 1 --rtt 1 --buffer 1");
    let no_route = "--listen [::1]:0 --to 255.255.255.255:9 --rate 1 --rtt 1 --buffer 1";
    let trace = "--listen 127.0.0.1:0 --to 127.0.0.1:9 --rate 1 --rtt 1 --buffer 1 --trace /missing/trace.csv";
    let cases = [
        (busy.as_str(), 1, taken.to_string()),
        (trace, 1, "/missing/trace.csv".into()),
        (no_route, 1, "255.255.255.255:9".into()),
        ("--listen nowhere --to 127.0.0.1:9 --rate 1 --rtt 1 --buffer 1", 2, "nowhere".into()),
        ("--frobnicate", 2, "--frobnicate".into()),
    ];
    for (args, code, names) in cases {
        let output = output(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(&names), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn trace_has_the_fate_of_every_packet() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.csv");
    let server = bind("127.0.0.1:0");
    let settings = format!("--drop down:2 --mtu 1000 --ecn up:ce --trace {}", file.display());
    let emulator = Emulator::start(server.local_addr().unwrap(), &settings);
    let client = client("127.0.0.1:0", &emulator);
    let from = exchange(&client, &server);
    for payload in [&[0; 10][..], &[0; 973], &[0; 972]] {
        server.send_to(payload, from).unwrap();
    }
    assert_eq!(receive(&client).0.len(), 972);
    transmit(&client, emulator.address, b"x", 1, Some(EcnCodepoint::Ect1));
    receive(&server);
    emulator.stop(Signal::TERM);

    let trace = std::fs::read_to_string(file).unwrap();
    let address = client.local_addr().unwrap();
    let mut times_ns: Vec<u64> = Vec::new();
    let mut lines = Vec::new();
    for line in trace.lines().skip(1) {
        let (time_ns, rest) = line.split_once(',').unwrap();
        times_ns.push(time_ns.parse().unwrap());
        lines.push(rest.replace(&address.to_string(), "client"));
    }
    let expected = [
        "up,client,1,32,delivered,not_ect,ce",
        "down,client,1,32,delivered,not_ect,not_ect",
        "down,client,2,38,dropped_named,not_ect,",
        "down,client,3,1001,dropped_mtu,not_ect,",
        "down,client,4,1000,delivered,not_ect,not_ect",
        "up,client,2,29,delivered,ect1,ce",
    ];
    assert_eq!(lines, expected);
    assert!(times_ns.is_sorted() && times_ns[0] > 0, "{times_ns:?}");
}
