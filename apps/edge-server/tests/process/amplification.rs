//! Towards an address that nobody has proven, the server sends at most three times what
//! came from there (RFC 9000, 8.1), whatever that was.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use crate::admission::serve_measured;
use crate::support::client::Client;
use crate::support::flood::client_config;
use crate::support::flood::first_packet;
use crate::support::process::Running;

/// From the server's first packet to those that repeat it, and again, more than so many
/// naps pass by.
const NAP: Duration = Duration::from_millis(10);
const NAPS: usize = 300;

const TIMES_MAX: usize = 3;

/// Sends datagrams one by one, and acknowledges nothing. Returns how many bytes went out
/// and how many came, at worst.
fn exchange(server: SocketAddr, datagrams: impl Fn(SocketAddr) -> Vec<Vec<u8>>) -> (usize, usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(NAP)).unwrap();
    let (mut sent, mut came) = (0, 0);
    let mut receive = |naps: usize, sent: usize| {
        let mut datagram = [0; 65_535];
        for _ in 0..naps {
            came += socket.recv(&mut datagram).unwrap_or(0);
            assert!(came <= TIMES_MAX * sent, "{came} bytes for {sent}");
        }
        came
    };
    for datagram in datagrams(socket.local_addr().unwrap()) {
        socket.send_to(&datagram, server).unwrap();
        sent += datagram.len();
        receive(2, sent);
    }
    (sent, receive(NAPS, sent))
}

/// A packet of another version, and so long.
fn other_version(bytes: usize) -> Vec<u8> {
    let mut packet = [&[0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 8][..], b"somebody", &[0]].concat();
    packet.resize(bytes, 0);
    packet
}

/// Packets of connections that are not there, whose IDs name every secret there might be.
fn of_no_connection(bytes: usize) -> Vec<Vec<u8>> {
    let packet = |n: u8| [&[0x40][..], &vec![n; bytes - 1]].concat();
    (0..=u8::MAX).map(packet).collect()
}

/// The first packet of a client, and as much of it.
fn initial(local: SocketAddr, server: SocketAddr) -> Vec<u8> {
    first_packet(local, server, &mut client_config())
}

fn cut(local: SocketAddr, server: SocketAddr, bytes: usize) -> Vec<u8> {
    initial(local, server)[..bytes].to_vec()
}

/// What is sent, from where and to where, and whether anything comes of it.
type Case = (&'static str, bool, fn(SocketAddr, SocketAddr) -> Vec<Vec<u8>>);

#[test]
fn nobody_gets_more_than_three_times_what_was_sent() {
    let default: &[Case] = &[
        ("one Initial", true, |l, s| vec![initial(l, s)]),
        ("the same again", true, |l, s| vec![initial(l, s); 5]),
        ("many clients", true, |l, s| (0..5).map(|_| initial(l, s)).collect()),
        ("small Initials", false, |l, s| vec![cut(l, s, 1199); 20]),
        ("very small ones", false, |l, s| vec![cut(l, s, 60); 100]),
        ("an Initial, then small ones", true, |l, s| {
            [vec![initial(l, s)], vec![cut(l, s, 100); 50]].concat()
        }),
        ("another version", true, |_, _| vec![other_version(1200)]),
        ("another version, small", false, |_, _| vec![other_version(100); 20]),
        ("of no connection", true, |_, _| of_no_connection(50)),
        ("of no connection, small", false, |_, _| of_no_connection(21)),
    ];
    let servers: [(&[&str], &[Case]); 3] = [
        (&[], default),
        (&["--retry-above", "0"], &[("Retry", true, |l, s| vec![initial(l, s); 5])]),
        (&["--connections-max", "1"], &[("refused", true, |l, s| vec![initial(l, s); 5])]),
    ];
    for (args, cases) in servers {
        let dir = tempfile::tempdir().unwrap();
        let (_server, address, _) = serve_measured(dir.path(), args);
        let mut regular = Client::connect(address);
        assert_eq!(regular.get("/").body, b"home");
        thread::scope(|scope| {
            for (case, is_answered, datagrams) in cases {
                scope.spawn(move || {
                    let (sent, came) = exchange(address, |local| datagrams(local, address));
                    println!("{case}: {came} bytes for {sent}");
                    assert_eq!(came > 0, *is_answered, "{case}");
                });
            }
        });
        assert_eq!(regular.get("/").body, b"home", "{args:?}");
    }
}

// The limit is each client's own, however many there are and whether Retry comes and goes.
#[test]
fn retry_that_comes_and_goes_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--retry-above", "1", "--workers", "1", "--handshake-timeout", "3"];
    let (mut server, address, _): (Running, _, _) = serve_measured(dir.path(), &args);
    for round in 0..2 {
        let late = server.count("Handshake takes too long");
        for _ in 0..3 {
            exchange(address, |local| vec![first_packet(local, address, &mut client_config())]);
        }
        server.wait_for_another("Handshake takes too long", late);
        assert_eq!(Client::connect(address).get("/").body, b"home", "{round}");
    }
}
