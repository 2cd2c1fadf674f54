//! NAT that changes a client's address during a connection, and relays that choose a server for each packet.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::thread;

/// Relays one client to `server`: the first `packets_before` packets from an
/// address of 127.5.5.0/24, all later ones from one of 127.6.6.0/24. Returns where
/// the client sends to.
pub fn start_nat(server: SocketAddr, packets_before: usize) -> SocketAddr {
    start_relay(["127.5.5.1", "127.6.6.1"], move |count, _| {
        (usize::from(count >= packets_before), server)
    })
}

/// Relays one client's packets, from one of these addresses each, to servers: `choose` returns the place of the
/// address and the server, for a packet's number and content. Returns where the client sends to.
pub fn start_relay<const N: usize>(
    outside: [&str; N],
    mut choose: impl FnMut(usize, &[u8]) -> (usize, SocketAddr) + Send + 'static,
) -> SocketAddr {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    let outside = outside.map(|address| UdpSocket::bind((address, 0)).unwrap());
    thread::spawn(move || {
        let mut packet = [0; 2000];
        for count in 0.. {
            let (length, client) = inside.recv_from(&mut packet).unwrap();
            if count == 0 {
                for socket in &outside {
                    start_return(socket, &inside, client);
                }
            }
            let (from, server) = choose(count, &packet[..length]);
            let _ = outside[from].send_to(&packet[..length], server);
        }
    });
    address
}

fn start_return(outside: &UdpSocket, inside: &UdpSocket, client: SocketAddr) {
    let (outside, inside) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
    thread::spawn(move || {
        let mut packet = [0; 2000];
        while let Ok(length) = outside.recv(&mut packet) {
            let _ = inside.send_to(&packet[..length], client);
        }
    });
}
