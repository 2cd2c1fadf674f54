//! NAT that changes a client's address during a connection, and relays that choose a server for each packet.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::thread;

/// Relays one client to `server`: the first `packets_before` packets from an
/// address of 127.5.5.0/24, all later ones from one of 127.6.6.0/24. Returns where
/// the client sends to.
pub fn start_nat(server: SocketAddr, packets_before: usize) -> SocketAddr {
    start_relay([("127.5.5.1", server), ("127.6.6.1", server)], move |count, _| {
        usize::from(count >= packets_before)
    })
}

/// Relays one client's packets, each from the address to the server at the place that `choose` returns for
/// its number and content. Returns where the client sends to.
pub fn start_relay<const N: usize>(
    routes: [(&str, SocketAddr); N],
    mut choose: impl FnMut(usize, &[u8]) -> usize + Send + 'static,
) -> SocketAddr {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    let outside = routes.map(|(from, server)| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(server).unwrap();
        socket
    });
    thread::spawn(move || {
        let mut packet = [0; 2000];
        for count in 0.. {
            let (length, client) = inside.recv_from(&mut packet).unwrap();
            if count == 0 {
                for socket in &outside {
                    start_return(socket, &inside, client);
                }
            }
            let _ = outside[choose(count, &packet[..length])].send(&packet[..length]);
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
