//! NEW_CONNECTION_ID frames that are lost while connection IDs are replaced (RFC
//! 9000, 5.1.2 and 19.15).

use super::*;
use crate::test_utils::create_cid_and_reset_token;
use crate::test_utils::Pipe;

/// Returns a client that allows for three connection IDs, and its server.
fn pipe() -> Pipe {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.set_active_connection_id_limit(3);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe
}

fn issue(pipe: &mut Pipe, retire_if_needed: bool) {
    let (id, token) = create_cid_and_reset_token(16);
    pipe.server.new_scid(&id, token, retire_if_needed).unwrap();
}

/// Has the frame for a connection ID sent again, as its loss does.
fn lose(pipe: &mut Pipe, seq: u64) {
    pipe.server.ids.mark_advertise_new_scid_seq(seq, true);
}

#[test]
fn frame_of_an_id_to_be_retired_is_valid_when_sent_again() {
    let mut pipe = pipe();
    for retire_if_needed in [false, false, true, true] {
        issue(&mut pipe, retire_if_needed);
    }
    pipe.advance().unwrap();
    lose(&mut pipe, 1);
    pipe.advance().unwrap();
    assert_eq!(pipe.client.local_error(), None);
    assert_eq!(pipe.server.active_scids(), 3);
}

#[test]
fn frame_of_a_retired_id_is_not_sent_again() {
    for is_lost_before in [false, true] {
        let mut pipe = pipe();
        issue(&mut pipe, false);
        pipe.advance().unwrap();
        if is_lost_before {
            lose(&mut pipe, 1);
        }
        let frames = [frame::Frame::RetireConnectionId { seq_num: 1 }];
        let mut buf = [0; 1500];
        pipe.send_pkt_to_server(Type::Short, &frames, &mut buf)
            .unwrap();
        if !is_lost_before {
            lose(&mut pipe, 1);
        }
        pipe.advance().unwrap();
        assert_eq!(pipe.server.local_error(), None);
    }
}
