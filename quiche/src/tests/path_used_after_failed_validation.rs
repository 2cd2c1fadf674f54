//! A client that uses a path again whose validation has failed (RFC 9000, 9.3).

use super::*;
use crate::test_utils::Pipe;

/// Sends a packet from the client, whose address a NAT changes to `from`.
fn come_from(from: SocketAddr, pipe: &mut Pipe) -> Result<usize> {
    pipe.client.stream_send(4, &[0; 900], false).unwrap();
    let mut packet = [0; 1500];
    let mut received = Ok(0);
    while let Ok((len, _)) = pipe.client.send(&mut packet) {
        let to = Pipe::server_addr();
        received = pipe.server.recv(&mut packet[..len], RecvInfo { from, to });
    }
    received
}

/// Delivers what the server sends to the client, unless it is lost.
fn answer(is_lost: bool, pipe: &mut Pipe) {
    let mut packet = [0; 1500];
    while let Ok((len, _)) = pipe.server.send(&mut packet) {
        let (from, to) = (Pipe::server_addr(), Pipe::client_addr());
        if !is_lost {
            let info = RecvInfo { from, to };
            pipe.client.recv(&mut packet[..len], info).unwrap();
        }
    }
}

#[test]
fn client_is_heard_again_and_its_path_validated() {
    let mut pipe = client_that_keeps_moving::pipe();
    let (new, server) = ("127.0.0.1:5000".parse().unwrap(), Pipe::server_addr());
    let has = |pipe: &mut Pipe, event: PathEvent| {
        let next = || pipe.server.path_event_next();
        std::iter::from_fn(next).any(|found| found == event)
    };
    come_from(new, &mut pipe).unwrap();
    let failed = PathEvent::FailedValidation(server, new);
    let is_failed = (0..20).any(|_| {
        answer(true, &mut pipe);
        std::thread::sleep(pipe.server.timeout().unwrap_or_default());
        pipe.server.on_timeout();
        has(&mut pipe, failed.clone())
    });
    assert!(is_failed);

    // The second packet comes before the server has asked again.
    for _ in 0..2 {
        come_from(new, &mut pipe).unwrap();
        come_from(new, &mut pipe).unwrap();
        answer(false, &mut pipe);
    }
    assert!(has(&mut pipe, PathEvent::PeerMigrated(server, new)));
    assert!(!pipe.server.is_closed() && pipe.server.local_error().is_none());
}
