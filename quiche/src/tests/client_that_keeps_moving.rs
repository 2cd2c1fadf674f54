//! A client whose address changes, again and again (RFC 9000, 9.3).

use super::*;
use crate::test_utils::Pipe;

pub(super) fn pipe() -> Pipe {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe
}

/// Sends a packet from the client, from another port.
fn come_from(port: u16, pipe: &mut Pipe) -> SocketAddr {
    let from = SocketAddr::new(Pipe::client_addr().ip(), port);
    pipe.client.stream_send(4, &[0; 100], false).unwrap();
    let mut packet = [0; 1500];
    let (len, _) = pipe.client.send(&mut packet).unwrap();
    let to = Pipe::server_addr();
    let _ = pipe.server.recv(&mut packet[..len], RecvInfo { from, to });
    from
}

#[test]
fn client_that_keeps_moving_is_heard_at_once() {
    let mut pipe = pipe();
    for (port, pause_ms) in (5000..5020).zip([0, 0, 0, 100].iter().cycle()) {
        std::thread::sleep(Duration::from_millis(*pause_ms));
        pipe.server.on_timeout();
        let from = come_from(port, &mut pipe);
        while pipe.server.path_event_next().is_some() {}
        let mut packet = [0; 1500];
        let sent = || pipe.server.send(&mut packet).ok();
        let is_answered =
            std::iter::from_fn(sent).any(|(_, info)| info.to == from);
        assert!(is_answered, "from port {port}");
    }
}

#[test]
fn data_of_an_abandoned_path_is_sent_again() {
    let mut pipe = pipe();
    come_from(5000, &mut pipe);
    pipe.server.stream_send(4, b"answer", true).unwrap();
    let mut packet = [0; 1500];
    while pipe.server.send(&mut packet).is_ok() {}
    // What went to the first port is lost; the rest arrives.
    for port in 5001..5004 {
        while pipe.server.path_event_next().is_some() {}
        come_from(port, &mut pipe);
        while let Ok((len, _)) = pipe.server.send(&mut packet) {
            let (from, to) = (Pipe::server_addr(), Pipe::client_addr());
            let _ = pipe.client.recv(&mut packet[..len], RecvInfo { from, to });
        }
    }
    assert_eq!(pipe.client.stream_recv(4, &mut packet), Ok((6, true)));
}

#[test]
fn events_that_nobody_takes_stay_few() {
    let mut pipe = pipe();
    for port in 5000..5050 {
        come_from(port, &mut pipe);
    }
    let next = || pipe.server.path_event_next();
    assert_eq!(std::iter::from_fn(next).count(), 2);
}
