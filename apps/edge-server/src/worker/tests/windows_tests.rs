//! Tests of the sliding windows, apart from them: a bench takes those in.

use super::windows::median;
use super::windows::Packet;
use super::windows::Windows;

/// One packet of 1000 bytes at each of these times.
fn windows(times_ns: &[u64], length_ns: u64) -> anyhow::Result<Windows> {
    let packet = |time_ns: &u64| Packet { time_ns: *time_ns, bytes: 1000 };
    let packets: Vec<_> = times_ns.iter().map(packet).collect();
    Windows::new(&packets, length_ns, 2000)
}

#[test]
fn even_packets_fill_every_window_to_a_packet() {
    let times_ns: Vec<u64> = (0..50).map(|i| 100 * i).collect();
    assert_eq!(windows(&times_ns, 200).unwrap().shares(), [1.0, 1.0, 1.0]);
    let [min, _, max] = windows(&times_ns, 250).unwrap().shares();
    assert_eq!((min, max), (1.0, 1.5));
}

#[test]
fn a_burst_and_a_gap_show() {
    let [min, _, max] = windows(&[0, 100, 200, 201, 202, 600, 700], 200).unwrap().shares();
    assert_eq!((min, max), (0.0, 2.0));
}

#[test]
fn what_does_not_fill_a_window_says_nothing() {
    assert!(windows(&[5, 6, 7], 200).is_err());
    assert!(windows(&[5], 200).is_err());
}

#[test]
fn the_median_is_the_middle_one() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
}
