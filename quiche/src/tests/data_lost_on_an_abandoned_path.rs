//! Data in flight to a client's old address, which is lost and sent again.

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::Pipe;

const OBJECT: usize = 300_000;
const TIMEOUTS_MAX: usize = 6;

/// A download by a client that does not know that its address changes.
struct MigratingDownload {
    pipe: Pipe,
    client_addr: SocketAddr,
    unwritten: usize,
    received: usize,
}

impl MigratingDownload {
    fn new(cc: &str) -> Self {
        let mut config = Pipe::default_config(cc).unwrap();
        config.set_initial_max_data(1 << 30);
        config.set_initial_max_stream_data_bidi_local(1 << 30);
        config.set_initial_max_stream_data_bidi_remote(1 << 30);
        let mut pipe = Pipe::with_config(&mut config).unwrap();
        pipe.handshake().unwrap();
        pipe.client.stream_send(0, b"get", true).unwrap();

        MigratingDownload {
            pipe,
            client_addr: Pipe::client_addr(),
            unwritten: OBJECT,
            received: 0,
        }
    }

    /// Delivers what the client sends, and what the server sends in answer
    /// unless that is lost. Returns whether either sent anything.
    fn exchange(&mut self, is_lost: bool) -> bool {
        let Pipe { client, server } = &mut self.pipe;
        let up = emit_flight(client).unwrap_or_default();
        let is_idle = up.is_empty();
        for (mut datagram, info) in up {
            let (from, to) = (self.client_addr, info.to);
            server.recv(&mut datagram, RecvInfo { from, to }).unwrap();
        }

        let room = server.stream_capacity(0).unwrap_or(0);
        let len = room.min(self.unwritten);
        if len > 0 {
            self.unwritten -= len;
            let fin = self.unwritten == 0;
            server.stream_send(0, &vec![7; len], fin).unwrap();
        }

        let down = emit_flight(server).unwrap_or_default();
        let is_idle = is_idle && down.is_empty();
        for (mut datagram, info) in down {
            if is_lost || info.to != self.client_addr {
                continue;
            }
            let (from, to) = (info.from, Pipe::client_addr());
            client.recv(&mut datagram, RecvInfo { from, to }).unwrap();
        }
        while let Ok((len, _)) = client.stream_recv(0, &mut [0; 65_536]) {
            self.received += len;
        }
        !is_idle
    }

    /// Waits for the next timer.
    fn await_timer(&mut self) {
        let Pipe { client, server } = &mut self.pipe;
        let timers = [client.timeout(), server.timeout()];
        std::thread::sleep(timers.into_iter().flatten().min().unwrap());
        client.on_timeout();
        server.on_timeout();
    }
}

#[rstest]
fn window_lost_on_the_old_path_is_sent_again(
    #[values("reno", "cubic")] cc: &str, #[values(0, 2)] rounds: usize,
) {
    assert_sent_again(cc, rounds);
}

/// Loses a window on the path that the client leaves after some rounds, and
/// asserts that it arrives on the next one.
pub(super) fn assert_sent_again(cc: &str, rounds: usize) {
    let mut download = MigratingDownload::new(cc);
    for _ in 0..rounds {
        download.exchange(false);
    }
    // A window is in flight to the old address.
    download.exchange(true);
    assert!(download.received < OBJECT);
    download.client_addr = "127.0.0.1:9999".parse().unwrap();
    // A packet shows the server where the client is.
    download.pipe.client.send_ack_eliciting().unwrap();

    for _ in 0..TIMEOUTS_MAX {
        while download.exchange(false) {}
        if download.received == OBJECT {
            return;
        }
        download.await_timer();
    }
    panic!("{} of {OBJECT} bytes", download.received);
}
