//! Evaluation of a server's access log against what is known of its clients: in simulated time,
//! each client can be served both ways.
//!
//! Every client has a LEO path of its own and saved parameters that fit it. The known gain is the
//! quotient of two quantiles: when all of the same clients jump, and when none does.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use ab_test::Arm;
use ab_test::Gain;
use ab_test::Interval;
use ab_test::LogLine;
use ab_test::Response;
use ab_test::Samples;
use ab_test::Settings;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use super::harness::Lab;
use super::harness::Saved;
use super::path::Path;

/// Several round trips of slow start, and all of one size class.
const OBJECT_BYTES: u64 = 1_200_000;

const SETTINGS: Settings = Settings { share: Some(0.5), seed: 1 };

/// A client and its path.
struct Visitor {
    address: IpAddr,
    path: Path,
    saved: Saved,
}

/// Returns clients with paths of 50 to 150 Mbit/s and 40 to 80 ms.
fn visitors(count: u32) -> Vec<Visitor> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut between = |low: u64, high: u64| low + random.next_u64() % (high - low + 1);
    let visitor = |i: u32| {
        let (rate_mbit, rtt_ms) = (between(50, 150), between(40, 80));
        let bdp_bytes = rate_mbit * rtt_ms * 125;
        Visitor {
            // A subnet each.
            address: Ipv4Addr::from_bits(0x0a00_0001 + (i << 8)).into(),
            path: Path::new(rate_mbit as f64, rtt_ms, bdp_bytes),
            saved: Saved::new(bdp_bytes, rtt_ms),
        }
    };
    (0..count).map(visitor).collect()
}

/// Returns the responses in the logs of servers whose clients each download once.
fn responses(visitors: &[Visitor], share: &str, format: &str) -> Vec<Response> {
    // A simulation remembers every packet.
    visitors.chunks(100).flat_map(|some| responses_of_server(some, share, format)).collect()
}

fn responses_of_server(visitors: &[Visitor], share: &str, format: &str) -> Vec<Response> {
    let lab = Lab::new();
    let args = ["--speedtest", "--access-log", "-", "--access-log-format", format];
    let server = lab.serve(&[&args[..], &["--resume-share", share]].concat());
    for Visitor { address, path, saved } in visitors {
        lab.plant_for(*address, *saved);
        let mut client = server.client().from(*address).over(path).connect();
        client.get(&format!("/bytes/{OBJECT_BYTES}"));
        client.close();
    }
    // The last acknowledgement is on its way.
    lab.advance(Duration::from_secs(1));
    let lines = server.log_lines();
    let response = |line: &String| match line.parse() {
        Ok(LogLine::Compared(response)) => response,
        other => panic!("{line}: {other:?}"),
    };
    lines.iter().map(response).collect()
}

fn gain(responses: &[Response]) -> Gain {
    let mut samples = Samples::default();
    responses.iter().for_each(|response| samples.add(LogLine::Compared(*response)));
    Gain::new(&samples, SETTINGS)
}

/// Returns the intervals of ratio and difference of the median.
fn median(gain: &Gain) -> (Interval, Interval) {
    let [class] = &gain.classes[..] else { panic!("one size: {gain:?}") };
    let median = class.median().unwrap();
    (median.ratio, median.difference_ms)
}

/// Returns the median of times as the evaluation does.
fn median_ms(responses: &[Response]) -> f64 {
    let mut times: Vec<_> = responses.iter().map(|response| response.duration_ms).collect();
    times.sort_by(f64::total_cmp);
    times[times.len().div_ceil(2) - 1]
}

/// Compares the evaluation of a server with both kinds of clients with what is known.
#[track_caller]
fn check(clients: u32) {
    let visitors = visitors(clients);
    let [all, half, none] =
        ["0.999999999", "0.5", "0"].map(|share| responses(&visitors, share, "json"));
    assert_eq!([all.len(), half.len(), none.len()], [clients as usize; 3]);
    assert!(all.iter().all(|response| response.arm == Arm::Resume && response.could_jump));
    assert!(none.iter().all(|response| response.arm == Arm::Control && response.could_jump));

    let (resume_ms, control_ms) = (median_ms(&all), median_ms(&none));
    let evaluated = gain(&half);
    let (ratio, difference_ms) = median(&evaluated);
    println!("known: {:.3}, {:.1} ms", resume_ms / control_ms, resume_ms - control_ms);
    println!("evaluated: {ratio:?}, {difference_ms:?}");
    assert!(ratio.contains(resume_ms / control_ms), "{resume_ms} {control_ms} {ratio:?}");
    assert!(difference_ms.contains(resume_ms - control_ms), "{difference_ms:?}");
    assert!(ratio.high < 0.9, "a gain is seen: {ratio:?}");
    assert!(evaluated.arms.unwrap().is_plausible() && evaluated.compared.unwrap().is_plausible());

    // The same clients in the same arms, served alike.
    let arms = half.iter().map(|response| response.arm);
    let alike = none.iter().zip(arms).map(|(response, arm)| Response { arm, ..*response });
    let (ratio, difference_ms) = median(&gain(&alike.collect::<Vec<_>>()));
    println!("alike: {ratio:?}, {difference_ms:?}");
    assert!(ratio.contains(1.0) && difference_ms.contains(0.0), "{ratio:?} {difference_ms:?}");
}

#[test]
fn evaluation_of_a_log_tells_the_known_gain() {
    check(90);
}

#[test]
#[ignore = "minutes; make check-long runs it"]
fn evaluation_of_thousand_clients_tells_the_known_gain() {
    check(1000);
}

#[test]
fn both_log_formats_tell_the_same() {
    let visitors = visitors(3);
    let [json, common] = ["json", "common"].map(|format| responses(&visitors, "0.5", format));
    for (json, common) in json.into_iter().zip(common) {
        // In seconds with three digits.
        assert!((json.duration_ms - common.duration_ms).abs() <= 0.5, "{json:?} {common:?}");
        assert_eq!(Response { duration_ms: json.duration_ms, ..common }, json);
    }
}
