//! A packet of a download under way is made without memory of its own.

mod ends;

use ends::config;
use ends::connect;
use ends::exchange;

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
