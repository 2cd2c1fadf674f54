//! RETIRE_CONNECTION_ID for a connection ID that was retired before (RFC 9000,
//! 19.16).

use super::*;
use crate::test_utils::create_cid_and_reset_token;
use crate::test_utils::Pipe;

/// Returns a client, and a server that has issued another connection ID.
fn pipe_with_another_id() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    let (id, token) = create_cid_and_reset_token(16);
    pipe.server.new_scid(&id, token, false).unwrap();
    pipe.advance().unwrap();
    pipe
}

/// Sends the frame to the server, which takes the connection ID of number 0 for
/// the packet's.
fn retire(pipe: &mut Pipe, seq_num: u64) -> Result<usize> {
    let frames = [frame::Frame::RetireConnectionId { seq_num }];
    pipe.send_pkt_to_server(Type::Short, &frames, &mut [0; 1500])
}

#[test]
fn connection_id_may_be_retired_twice() {
    let mut pipe = pipe_with_another_id();
    for _ in 0..2 {
        assert!(retire(&mut pipe, 1).is_ok());
        assert_eq!(pipe.server.local_error(), None);
    }
    assert_eq!(pipe.server.retired_scids(), 1);
}

#[test]
fn connection_id_in_use_or_never_issued_is_not_retired() {
    for seq_num in [0, 2] {
        let mut pipe = pipe_with_another_id();
        assert_eq!(retire(&mut pipe, seq_num), Err(Error::InvalidState));
    }
}
