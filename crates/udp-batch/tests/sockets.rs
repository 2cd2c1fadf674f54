//! Batched sockets between two ends on loopback.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;

use udp_batch::bind_group;
use udp_batch::datagrams;
use udp_batch::drops;
use udp_batch::Destination;
use udp_batch::EcnCodepoint;
use udp_batch::Received;
use udp_batch::Receiver;
use udp_batch::Socket;
use udp_batch::GROUPS_MAX;

const BATCH: usize = 4;

fn bind(address: &str) -> Socket {
    Socket::new(UdpSocket::bind(address).unwrap()).unwrap()
}

fn to(socket: &Socket) -> Destination {
    Destination { to: socket.local_addr(), from: None }
}

/// Everything that has arrived: its addresses, its mark, and the datagrams.
type Arrived = (SocketAddr, SocketAddr, Option<EcnCodepoint>, Vec<Vec<u8>>);

fn receive_groups(socket: &Socket) -> Vec<Arrived> {
    let mut receiver = Receiver::new(BATCH);
    let mut groups = Vec::new();
    loop {
        let received = receiver.receive(socket, |group| {
            let (from, to, ecn) = (group.from, group.to, group.ecn);
            let datagrams = group.into_datagrams().map(|datagram| datagram.to_vec());
            groups.push((from, to, ecn, datagrams.collect()));
        });
        if received.unwrap() == Received::Drained {
            return groups;
        }
    }
}

fn receive_all(socket: &Socket) -> Vec<Vec<u8>> {
    receive_groups(socket).into_iter().flat_map(|(.., datagrams)| datagrams).collect()
}

#[test]
fn datagrams_keep_order_and_edges_across_batches() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let sent: Vec<_> = (0..3 * BATCH + 1).map(|i| vec![i as u8; 100 + i]).collect();
    for datagram in &sent {
        sender.send(to(&receiver), None, datagram, datagram.len()).unwrap();
    }
    assert_eq!(receive_all(&receiver), sent);
}

#[test]
fn one_send_of_ten_datagrams_arrives_as_ten() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    if sender.datagrams_per_send_max() < 10 {
        return;
    }
    let sent: Vec<u8> = (0..10).flat_map(|i| [i; 1200]).collect();
    sender.send(to(&receiver), None, &sent[..11_000], 1200).unwrap();

    let received = receive_all(&receiver);
    let sizes: Vec<_> = received.iter().map(Vec::len).collect();
    assert_eq!(sizes, [[1200; 9].as_slice(), &[200]].concat());
    assert_eq!(received.concat(), sent[..11_000]);
}

/// One datagram to port 0 must not turn off segmentation and ECN marks for all others.
#[test]
fn bad_destination_leaves_segmentation_on() {
    let (sender, receiver) = (bind("0.0.0.0:0"), bind("127.0.0.1:0"));
    let segments_max = sender.datagrams_per_send_max();
    let destination = |to: &str, from: &str| Destination {
        to: to.parse().unwrap(),
        from: Some(from.parse().unwrap()),
    };
    for bad in [
        destination("127.0.0.1:0", "127.0.0.1"),
        destination("127.0.0.1:9", "127.255.255.255"),
        destination("127.0.0.1:9", "224.0.0.1"),
        destination("127.0.0.1:9", "192.0.2.1"),
    ] {
        for contents in [&[0; 5000][..], &[0; 1200]] {
            sender.send(bad, None, contents, 1200).unwrap_err();
        }
    }
    assert_eq!(sender.datagrams_per_send_max(), segments_max);

    let ecn = Some(EcnCodepoint::Ect0);
    sender.send(to(&receiver), ecn, b"x", 1200).unwrap();
    assert_eq!(receive_groups(&receiver)[0].2, ecn);
}

#[test]
fn refused_segments_are_sent_singly() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let segments_max = sender.datagrams_per_send_max();
    set_checksums(&sender, false);
    for _ in 0..2 {
        sender.send(to(&receiver), None, &[1; 2500], 1200).unwrap();
        let sizes: Vec<_> = receive_all(&receiver).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1200, 1200, 100]);
        assert_eq!(sender.datagrams_per_send_max(), 1);
    }

    set_checksums(&sender, true);
    while sender.datagrams_per_send_max() < segments_max {
        sender.send(to(&receiver), None, b"x", 1200).unwrap();
        receive_all(&receiver);
    }
}

/// Makes the kernel refuse to segment, on any device, or segment again.
fn set_checksums(socket: &Socket, on: bool) {
    let off = libc::c_int::from(!on);
    // SAFETY: the descriptor is open, and the value is an int of the size that is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            std::ptr::from_ref(&off).cast(),
            std::mem::size_of_val(&off) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

#[test]
fn an_empty_datagram_arrives_as_one() {
    let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    for datagram in [&b""[..], b"x"] {
        sender.send(to(&receiver), None, datagram, 1200).unwrap();
    }
    assert_eq!(receive_all(&receiver), [&b""[..], b"x"]);
}

#[test]
fn contents_are_cut_at_the_datagram_size() {
    let sizes = |contents, size| datagrams(contents, size).map(<[u8]>::len).collect::<Vec<_>>();
    assert_eq!(sizes(&[0; 10], 4), [4, 4, 2]);
    assert_eq!(sizes(&[0; 10], 10), [10]);
    assert_eq!(sizes(&[], 0), [0]);
}

#[test]
fn addresses_and_ecn_mark_arrive() {
    let (sender, receiver) = (bind("127.0.0.2:0"), bind("127.0.0.1:0"));
    sender.send(to(&receiver), Some(EcnCodepoint::Ect0), b"x", 1).unwrap();
    let expected =
        (sender.local_addr(), receiver.local_addr(), Some(EcnCodepoint::Ect0), vec![b"x".to_vec()]);
    assert_eq!(receive_groups(&receiver), [expected]);
}

/// Returns the codepoints of the groups that a socket receives, with the number of datagrams.
fn receive_codepoints(socket: &Socket) -> Vec<(Option<EcnCodepoint>, usize)> {
    let groups = receive_groups(socket).into_iter();
    groups.map(|(_, _, ecn, datagrams)| (ecn, datagrams.len())).collect()
}

#[test]
fn coalesced_datagrams_have_the_codepoint_of_their_send() {
    for (from, bound) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:0", "0.0.0.0:0"),
        ("127.0.0.1:0", "[::]:0"),
        ("[::1]:0", "[::1]:0"),
        ("[::1]:0", "[::]:0"),
    ] {
        let (sender, receiver) = (bind(from), bind(bound));
        let to = SocketAddr::new(sender.local_addr().ip(), receiver.local_addr().port());
        let destination = Destination { to, from: None };
        // The receiver sets its options again after an error.
        let nowhere = Destination { to: SocketAddr::new(to.ip(), 0), from: None };
        receiver.send(nowhere, None, &[0; 5000], 1200).unwrap_err();
        let codepoints = [
            Some(EcnCodepoint::Ect0),
            None,
            Some(EcnCodepoint::Ce),
            Some(EcnCodepoint::Ect1),
            Some(EcnCodepoint::Ect0),
        ];
        for ecn in codepoints {
            sender.send(destination, ecn, &[1; 3600], 1200).unwrap();
        }
        let received = receive_codepoints(&receiver);
        let datagrams: usize = received.iter().map(|(_, count)| count).sum();
        assert_eq!(datagrams, 3 * codepoints.len(), "{bound}");
        let mut codepoints_received: Vec<_> = received.iter().map(|(ecn, _)| *ecn).collect();
        codepoints_received.dedup();
        assert_eq!(codepoints_received, codepoints, "{bound}");
    }
}

#[test]
fn time_of_arrival_is_known_on_a_socket_with_one_address() {
    for (bound, known) in [("127.0.0.1:0", true), ("[::1]:0", true), ("0.0.0.0:0", false)] {
        let socket = bind(bound);
        let ip = match socket.local_addr().ip() {
            ip if ip.is_unspecified() => "127.0.0.1".parse().unwrap(),
            ip => ip,
        };
        let to = SocketAddr::new(ip, socket.local_addr().port());
        socket.send(Destination { to, from: None }, None, b"x", 1).unwrap();
        let mut timestamps = Vec::new();
        Receiver::new(1).receive(&socket, |group| timestamps.push(group.timestamp)).unwrap();
        assert_eq!(timestamps.iter().map(Option::is_some).collect::<Vec<_>>(), [known]);
    }
}

#[test]
fn a_wildcard_socket_answers_from_the_address_asked() {
    let (client, server) = (bind("127.0.0.1:0"), bind("0.0.0.0:0"));
    let asked: IpAddr = "127.0.0.7".parse().unwrap();
    let asked = SocketAddr::new(asked, server.local_addr().port());
    client.send(Destination { to: asked, from: None }, None, b"ping", 4).unwrap();

    let groups = receive_groups(&server);
    let [(from, arrived_at, ..)] = groups[..] else { panic!("{groups:?}") };
    assert_eq!((from, arrived_at), (client.local_addr(), asked));
    let answer = Destination { to: from, from: Some(arrived_at.ip()) };
    server.send(answer, None, b"pong", 4).unwrap();
    assert_eq!(receive_groups(&client)[0].0, asked);
}

#[test]
fn a_batch_has_from_one_to_the_most_groups() {
    for (asked, groups) in [(0, 1), (3, 3), (usize::MAX, GROUPS_MAX)] {
        let (sender, receiver) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
        for size in 1..=GROUPS_MAX {
            // Of different sizes, which the kernel does not join.
            sender.send(to(&receiver), None, &vec![0; size], size).unwrap();
        }
        let mut count = 0;
        let received = Receiver::new(asked).receive(&receiver, |_| count += 1).unwrap();
        assert_eq!((count, received), (groups, Received::Full), "{asked}");
    }
}

#[test]
fn every_datagram_reaches_one_socket_of_a_group() {
    let group = bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
    let addresses: BTreeSet<_> = group.iter().map(Socket::local_addr).collect();
    assert_eq!((group.len(), addresses.len()), (3, 1));
    for i in 0..50 {
        let sender = bind("127.0.0.1:0");
        sender.send(to(&group[0]), None, &[i], 1).unwrap();
    }
    let mut received = group.iter().flat_map(receive_all).flatten().collect::<Vec<_>>();
    received.sort_unstable();
    assert_eq!(received, (0..50).collect::<Vec<u8>>());
}

#[test]
fn a_group_shares_no_address_with_another_process() {
    for count in [1, 3] {
        let taken = bind_group("127.0.0.1:0".parse().unwrap(), count).unwrap();
        for count in [1, 3] {
            let refused = bind_group(taken[0].local_addr(), count).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
        }
    }
}

#[test]
fn an_adopted_descriptor_receives() {
    let (sender, first) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let second = Socket::new(first.as_fd().try_clone_to_owned().unwrap()).unwrap();
    drop(first);
    sender.send(to(&second), None, b"x", 1).unwrap();
    assert_eq!(receive_all(&second), [b"x"]);
}

#[test]
fn datagrams_that_find_a_full_socket_are_counted() {
    let (sender, receiver) = (bind("[::1]:0"), bind("[::1]:0"));
    receiver.enlarge_receive_buffer(1).unwrap();
    let inode = drops::inode(&receiver).unwrap();
    assert_eq!(drops::by_inode().get(&inode), Some(&0));
    for _ in 0..50 {
        sender.send(to(&receiver), None, &[0; 1000], 1000).unwrap();
    }
    let dropped = drops::by_inode()[&inode];
    assert_eq!(receive_all(&receiver).len() as u64 + dropped, 50);
    assert!(dropped > 0);
}

#[test]
fn a_receive_buffer_grows_to_what_is_granted() {
    let socket = bind("127.0.0.1:0");
    let granted = socket.enlarge_receive_buffer(100_000).unwrap();
    assert_eq!(granted, 100_000);
    socket.enlarge_send_buffer(100_000).unwrap();
}
