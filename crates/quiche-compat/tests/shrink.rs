//! Memory release of idle connections.

mod ends;

use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use ends::config;
use ends::connect;
use ends::exchange;
use ends::request;
use ends::with_http;
use quiche_compat::h3;
use quiche_compat::Connection;

quiche_compat::stand_ins!();

/// Streams that stay open, as many as fill a table, and those that come and go.
const OPEN: u64 = 112;
const PASSING: u64 = 1000;

/// What an open stream may take, at one end: less than one that keeps a place for what
/// is read or sent next.
const STREAM_BYTES_MAX: i64 = 600;

const BODY: [u8; 10_000] = [7; 10_000];

/// Reads all that has come.
fn read(quic: &mut Connection) {
    let mut body = [0; 1 << 14];
    for stream in quic.readable() {
        while quic.stream_recv(stream, &mut body).is_ok() {}
    }
}

/// Many downloads at a time whose first packets are lost, and streams that stay.
fn download(client: &mut Connection, server: &mut Connection) {
    let streams = || (0..OPEN + PASSING).map(|n| 4 * n);
    for stream in streams() {
        client.stream_send(stream, b"GET", stream >= 4 * OPEN).unwrap();
    }
    exchange(client, server);
    read(server);
    for stream in streams() {
        let lasts = stream >= 4 * OPEN;
        let body = if lasts { &BODY[..] } else { b"stays" };
        server.stream_send(stream, body, lasts).unwrap();
    }
    for _ in 0..500 {
        server.send(&mut [0; 1500]).unwrap();
    }
    exchange(client, server);
    read(client);
    // What was lost is remembered for a round trip.
    thread::sleep(Duration::from_millis(20));
    server.stream_send(0, b"still", false).unwrap();
    exchange(client, server);
    read(client);
}

#[test]
fn no_more_is_kept_than_open_streams_need() {
    let packets = (PASSING as usize * BODY.len()) / 1000;
    let [mut client, mut server] = connect(|| config(b"proto", packets));
    let shrink = |ends: [&mut Connection; 2]| ends.map(Connection::shrink_to_fit);
    shrink([&mut client, &mut server]);

    let kept = measure(|| {
        download(&mut client, &mut server);
        shrink([&mut client, &mut server]);
    });
    let stream_bytes = kept.bytes_current / OPEN as i64 / 2;
    assert!(stream_bytes <= STREAM_BYTES_MAX, "{stream_bytes} bytes a stream");

    server.stream_send(0, b"goes on", false).unwrap();
    exchange(&mut client, &mut server);
    let mut body = [0; 10];
    assert_eq!(client.stream_recv(0, &mut body), Ok((7, false)));
}

#[test]
fn http_keeps_no_room_for_requests_that_are_over() {
    let [mut client, mut server] = connect(|| config(b"h3", 2000));
    let [mut asker, mut http] = with_http(&mut client, &mut server);
    for _ in 0..PASSING {
        asker.send_request(&mut client, &request(), true).unwrap();
    }
    exchange(&mut client, &mut server);
    while http.poll(&mut server).is_ok() {}
    let answer = [h3::Header::new(b":status", b"204")];
    for stream in (0..PASSING).map(|n| 4 * n) {
        http.send_response(&mut server, stream, &answer, true).unwrap();
    }
    exchange(&mut client, &mut server);

    let freed = -measure(|| http.shrink_to_fit()).bytes_current;
    assert!(freed > 100 * PASSING as i64, "{freed} bytes");
}
