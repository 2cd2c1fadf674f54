//! Memory that packets of a download and heads of responses take.

mod ends;

use ends::config;
use ends::connect;
use ends::exchange;
use ends::request;
use ends::with_http;
use quiche_compat::h3;
use quiche_compat::Config;
use quiche_compat::Connection;
use quiche_compat::ConnectionId;

quiche_compat::stand_ins!();

const PACKETS: usize = 2000;

#[test]
fn packets_of_a_download_are_made_without_allocations() {
    let [mut client, mut server] = connect(|| config(b"proto", 2 * PACKETS));

    client.stream_send(0, b"GET", true).unwrap();
    exchange(&mut client, &mut server);
    let body = vec![0; PACKETS * 1500];
    server.stream_send(0, &body, true).unwrap();

    let mut packet = [0; 1500];
    let measured = allocation_counter::measure(|| {
        for _ in 0..PACKETS {
            server.send(&mut packet).unwrap();
        }
    });

    // What is kept of the packets in flight grows a few times.
    let allocations = measured.count_total;
    assert!(allocations < PACKETS as u64 / 50, "{allocations} allocations for {PACKETS} packets");
}

#[test]
fn the_name_of_a_connection_takes_no_allocation_a_byte() {
    let mut config = config(b"proto", 10);
    let [local, peer] = ["127.0.0.1:443", "127.0.0.1:1234"].map(|at| at.parse().unwrap());
    let mut allocations = |id: &[u8]| {
        let id = ConnectionId::from_ref(id);
        let accept = || drop(quiche_compat::accept(&id, None, local, peer, &mut config).unwrap());
        allocation_counter::measure(accept).count_total
    };
    // The first makes what all have in common.
    allocations(&[7; 4]);
    let (short, long) = (allocations(&[7; 4]), allocations(&[7; 20]));
    assert!(long < short + 8, "{short} and {long} allocations");
}

/// How often memory is asked for when a request is taken in, and when `answer` answers
/// it. Frames without a use go before the first response, and the second's fields are
/// remembered.
fn third_exchange(mut answer: impl FnMut(&mut h3::Connection, &mut Connection, u64)) -> [u64; 2] {
    let [mut client, mut server] = connect(|| config(b"h3", 10));
    let [mut asking, mut answering] = with_http(&mut client, &mut server);
    let mut allocations = [0; 2];
    for _ in 0..3 {
        let stream = asking.send_request(&mut client, &request(), true).unwrap();
        exchange(&mut client, &mut server);
        let asked = allocation_counter::measure(|| while answering.poll(&mut server).is_ok() {});
        let answered = allocation_counter::measure(|| answer(&mut answering, &mut server, stream));
        allocations = [asked.count_total, answered.count_total];
        exchange(&mut client, &mut server);
    }
    allocations
}

fn head() -> [h3::Header; 2] {
    [h3::Header::new(b":status", b"200"), h3::Header::new(b"server", b"quiche")]
}

#[test]
fn the_head_of_a_response_is_one_write() {
    let head = head();
    let [_, answered] = third_exchange(|http, quic, stream| {
        http.send_response(quic, stream, &head, false).unwrap();
    });
    println!("{answered} allocations");
    assert!(answered < 5, "{answered} allocations");
}

#[test]
fn a_small_response_is_one_write() {
    let (head, priority, body) = (head(), h3::Priority::default(), [7; 1000]);
    let [_, answered] = third_exchange(|http, quic, stream| {
        http.send_response_with_body(quic, stream, &head, &priority, &body).unwrap();
    });
    let [_, apart] = third_exchange(|http, quic, stream| {
        http.send_response(quic, stream, &head, false).unwrap();
        http.send_body(quic, stream, &body, true).unwrap();
    });
    println!("{answered} allocations instead of {apart}");
    assert!(answered < apart && answered < 5, "{answered} allocations, {apart} apart");
}

#[test]
fn a_request_is_one_read() {
    let [asked, _] = third_exchange(|http, quic, stream| {
        http.send_response(quic, stream, &head(), true).unwrap();
    });
    println!("{asked} allocations");
    // The header block, the list, and the values of :authority and :path.
    assert!(asked < 6, "{asked} allocations");
}

/// Memory of a server's connection after its handshake, in bytes: its own, and what it has
/// allocated. What BoringSSL allocates does not count.
fn memory(change: impl Fn(&mut Config)) -> u64 {
    let [_client, server] = connect(|| {
        let mut config = config(b"proto", 10);
        change(&mut config);
        config
    });
    let freed = allocation_counter::measure(|| drop(server)).bytes_current;
    size_of::<Connection>() as u64 + freed.unsigned_abs()
}

#[test]
fn a_connection_takes_less_memory_than_on_the_release() {
    const ON_RELEASE: u64 = 17_466;
    let off = memory(|_| ());
    let on = memory(|config| _ = config.set_careful_resume(Default::default()));
    let own = size_of::<Connection>() as u64;
    println!("{own} + {} bytes, {} more with Careful Resume", off - own, on - off);
    assert!(on < ON_RELEASE, "{off} bytes, with Careful Resume {on}");
}
