//! ECN codepoints between real sockets.

use crate::common::bind;
use crate::common::client;
use crate::common::receive;
use crate::common::Emulator;
use crate::transmit;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::net::UdpSocket;
use udp_batch::EcnCodepoint;
use udp_batch::Receiver;
use udp_batch::Socket;

const NOT_ECT: Option<EcnCodepoint> = None;
const ECT1: Option<EcnCodepoint> = Some(EcnCodepoint::Ect1);
const ECT0: Option<EcnCodepoint> = Some(EcnCodepoint::Ect0);
const CE: Option<EcnCodepoint> = Some(EcnCodepoint::Ce);

/// A datagram as text, and its codepoint.
type Coded = (String, Option<EcnCodepoint>);

/// Returns the next `count` datagrams.
fn receive_coded(socket: &UdpSocket, count: usize) -> Vec<Coded> {
    let batched = Socket::new(socket.try_clone().unwrap()).unwrap();
    // It waits for what has not come yet.
    socket.set_nonblocking(false).unwrap();
    let mut receiver = Receiver::new(1);
    let mut coded = Vec::new();
    while coded.len() < count {
        let before = coded.len();
        let received = receiver.receive(&batched, |group| {
            let ecn = group.ecn;
            let text = |datagram: &mut [u8]| String::from_utf8(datagram.to_vec()).unwrap();
            coded.extend(group.into_datagrams().map(|datagram| (text(datagram), ecn)));
        });
        received.unwrap();
        assert!(coded.len() > before, "a datagram must come");
    }
    coded
}

fn coded(expected: &[(&str, Option<EcnCodepoint>)]) -> Vec<Coded> {
    expected.iter().map(|(text, ecn)| ((*text).to_owned(), *ecn)).collect()
}

/// Sends one datagram with each codepoint, and a last one.
fn send_each(socket: &UdpSocket, to: SocketAddr) {
    for (text, ecn) in [(b"1", NOT_ECT), (b"2", ECT1), (b"3", ECT0), (b"4", CE), (b"5", NOT_ECT)] {
        transmit(socket, to, text, 1, ecn);
    }
}

/// Some share a send, and all but the last have one size: the emulator may not put different
/// codepoints into one send.
#[test]
fn datagrams_keep_their_codepoints() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = bind(address);
        let listen = format!("--listen {address}");
        let emulator = Emulator::start(server.local_addr().unwrap(), &listen);
        let client = client(address, &emulator);
        client.send(b"ping").unwrap();
        let (_, from) = receive(&server);
        let sends = [
            ("aabb", ECT0),
            ("cc", CE),
            ("ddeeff", ECT1),
            ("gg", ECT0),
            ("hhii", NOT_ECT),
            ("j", CE),
        ];
        let expected = coded(&[
            ("aa", ECT0),
            ("bb", ECT0),
            ("cc", CE),
            ("dd", ECT1),
            ("ee", ECT1),
            ("ff", ECT1),
            ("gg", ECT0),
            ("hh", NOT_ECT),
            ("ii", NOT_ECT),
            ("j", CE),
        ]);
        for (sender, to, receiver) in
            [(&client, emulator.address, &server), (&server, from, &client)]
        {
            for (contents, ecn) in sends {
                transmit(sender, to, contents.as_bytes(), 2, ecn);
            }
            assert_eq!(receive_coded(receiver, expected.len()), expected);
        }
        let summary = emulator.stop(Signal::TERM).summary;
        for direction in ["up", "down"] {
            assert_eq!(summary[direction]["marked_packets"], 0);
            assert_eq!(summary[direction]["remarked_packets"], 0);
        }
    }
}

#[test]
fn faulty_path_changes_codepoints_in_its_direction() {
    let unchanged = coded(&[("1", NOT_ECT), ("2", ECT1), ("3", ECT0), ("4", CE), ("5", NOT_ECT)]);
    let all = |ecn| coded(&[("1", ecn), ("2", ecn), ("3", ecn), ("4", ecn), ("5", ecn)]);
    let ect1 = coded(&[("1", NOT_ECT), ("2", ECT1), ("3", ECT1), ("4", CE), ("5", NOT_ECT)]);
    for (handling, expected, remarked, dropped) in [
        ("clear", all(NOT_ECT), 3, 0),
        ("ect1", ect1, 1, 0),
        // The ping becomes CE, too.
        // The ping is changed, too.
        ("ce", all(CE), 5, 0),
        ("drop", coded(&[("1", NOT_ECT), ("5", NOT_ECT)]), 0, 3),
    ] {
        let server = bind("127.0.0.1:0");
        let setting = format!("--ecn up:{handling}");
        let emulator = Emulator::start(server.local_addr().unwrap(), &setting);
        let client = client("127.0.0.1:0", &emulator);
        client.send(b"ping").unwrap();
        let (_, from) = receive(&server);
        send_each(&client, emulator.address);
        assert_eq!(receive_coded(&server, expected.len()), expected, "{handling}");
        send_each(&server, from);
        assert_eq!(receive_coded(&client, 5), unchanged, "{handling}");
        let summary = emulator.stop(Signal::TERM).summary;
        assert_eq!(summary["up"]["remarked_packets"], remarked, "{handling}");
        assert_eq!(summary["up"]["dropped_ecn_packets"], dropped, "{handling}");
        assert_eq!(summary["down"]["remarked_packets"], 0, "{handling}");
    }
}

/// The datagrams of a send come together and leave within a microsecond: the batch is split where
/// the marks begin.
#[test]
fn step_marks_what_waits_behind_the_first_of_a_batch() {
    let server = bind("127.0.0.1:0");
    let emulator = Emulator::start(server.local_addr().unwrap(), "--queue step:0");
    let client = client("127.0.0.1:0", &emulator);
    transmit(&client, emulator.address, b"aabbcc", 2, ECT0);
    let expected = coded(&[("aa", ECT0), ("bb", CE), ("cc", CE)]);
    assert_eq!(receive_coded(&server, 3), expected);
    transmit(&client, emulator.address, b"ddee", 2, NOT_ECT);
    assert_eq!(receive_coded(&server, 2), coded(&[("dd", NOT_ECT), ("ee", NOT_ECT)]));
    let up = &emulator.stop(Signal::TERM).summary["up"];
    assert_eq!((&up["marked_packets"], &up["accepted_packets"]), (&2.into(), &5.into()));
}

/// 1,000 bytes take 2 ms at 4 Mbit/s: a queue of 360 ms, which CoDel does not let stand.
#[test]
fn codel_marks_capable_packets_and_drops_others() {
    for (ecn, counted, not_counted) in [
        (ECT0, "marked_packets", "dropped_codel_packets"),
        (NOT_ECT, "dropped_codel_packets", "marked_packets"),
    ] {
        let server = bind("127.0.0.1:0");
        let settings = "--queue codel --rate 4";
        let emulator = Emulator::start(server.local_addr().unwrap(), settings);
        let client = client("127.0.0.1:0", &emulator);
        for _ in 0..3 {
            transmit(&client, emulator.address, &[b'x'; 972 * 60], 972, ecn);
        }
        let mut marked = 0;
        if ecn == ECT0 {
            let received = receive_coded(&server, 180);
            marked = received.iter().filter(|(_, ecn)| *ecn == CE).count();
            assert!(marked > 0);
        } else {
            receive_coded(&server, 100);
        }
        let up = &emulator.stop(Signal::TERM).summary["up"];
        assert!(up[counted].as_u64() > Some(0), "{up}");
        assert_eq!(up[not_counted], 0, "{up}");
        assert_eq!(up["marked_packets"], marked, "{up}");
    }
}
