//! Tests of whole runs: determinism, slow start, one jump, and each setting of a scenario.

use super::*;
use crate::invariants::Rule;
use crate::outcome::FlowOutcome;

fn scenario(toml: &str) -> Scenario {
    toml::from_str(toml).unwrap()
}

fn geo(mode: &str, flow: &str) -> Scenario {
    scenario(&format!(
        "[path]
        rate_mbps = 50
        rtt_ms = 600
        [[flow]]
        mode = \"{mode}\"
        object_bytes = 3_750_000
        {flow}"
    ))
}

fn first(scenario: &Scenario) -> FlowOutcome {
    run(scenario, 1).unwrap().flows.swap_remove(0)
}

fn json(scenario: &Scenario, seed: u64) -> String {
    serde_json::to_string(&run(scenario, seed).unwrap()).unwrap()
}

/// Returns a scenario with everything that is random, and flows that meet.
fn crowd() -> Scenario {
    scenario(
        r#"[path]
        rate_mbps = 20
        rtt_ms = 40
        loss = 0.01
        jitter_ms = 3
        ack_thinning = 2
        [[path.change]]
        at_ms = 300
        rate_mbps = 5
        rtt_ms = 60
        [[flow]]
        mode = "careful-resume"
        count = 3
        object_bytes = 200_000
        start_spread_ms = 100
        subnet = "shared"
        [[flow]]
        cc = "reno"
        object_bytes = 200_000
        extra_rtt_ms = 20
        access_mbps = 10
        start_spread_ms = 100"#,
    )
}

#[test]
fn same_seed_gives_the_same_outcome() {
    let crowd = crowd();
    assert_eq!(json(&crowd, 7), json(&crowd, 7));
    assert_ne!(json(&crowd, 7), json(&crowd, 8).replace("\"seed\":8", "\"seed\":7"));
}

/// RFC 9332: packets of L4S wait for a moment, beside a classic flow that fills its own queue.
#[test]
fn l4s_flow_shares_a_dual_queue_and_hardly_waits() {
    let dual = scenario(
        r#"[path]
        rate_mbps = 20
        rtt_ms = 20
        queue = "dualpi2"
        buffer_bdp = 12
        [[flow]]
        name = "l4s"
        ecn = "l4s"
        object_bytes = 6_000_000
        share_from_ms = 1000
        [[flow]]
        name = "classic"
        object_bytes = 6_000_000
        share_from_ms = 1000"#,
    );
    let outcome = run(&dual, 1).unwrap();
    let wait_ms = outcome.l4s_wait_p99_ms.unwrap();
    assert!((0.5..2.0).contains(&wait_ms), "{wait_ms}");
    let [l4s, classic] = &outcome.flows[..] else { panic!("two flows") };
    assert!(l4s.marked_packets.unwrap() > 100 && l4s.lost_packets == 0);
    // Dropped by the queue, and so noticed by the server.
    assert!(classic.dropped_packets > 0 && classic.lost_packets >= classic.dropped_packets);
    let shares = [l4s, classic].map(|flow| flow.share_bytes.unwrap());
    assert!(shares.iter().all(|bytes| (1_000_000..6_000_000).contains(bytes)), "{shares:?}");
    assert_eq!(json(&dual, 1), json(&dual, 1));
}

/// RFC 9959, 3.3: half of what was saved, and what the operator allows; by default 8 MiB.
#[test]
fn flow_jumps_to_its_own_max_jump() {
    for (max_jump, jump) in [
        ("", 8 << 20),
        ("max_jump = 100_000", 100_000),
        ("max_jump = 12_000_000", 12_000_000),
        ("max_jump = 16_000_000", 15_000_000),
    ] {
        let flow = first(&geo("careful-resume", &format!("saved.cwnd_bdp = 8\n{max_jump}")));
        assert_eq!(flow.jump_cwnd_bytes, Some(jump), "{max_jump}");
    }
}

/// Checks that another thread, with settings and keys of its own, has the same outcome.
#[test]
fn outcome_does_not_depend_on_the_thread() {
    let here = json(&crowd(), 7);
    let there = std::thread::spawn(|| json(&crowd(), 7)).join().unwrap();
    assert_eq!(here, there);
}

#[test]
fn run_does_not_depend_on_an_earlier_one() {
    // HyStart++ alone does not pace, as L4S does.
    let unpaced = geo("slow-start", "slow_start_exit = 'hystart'");
    let scenarios = [geo("careful-resume", ""), unpaced];
    let before = scenarios.each_ref().map(|scenario| json(scenario, 1));
    for earlier in [crowd(), geo("slow-start", "ecn = 'l4s'"), geo("careful-resume", "ecn = 'l4s'")]
    {
        json(&earlier, 7);
        assert_eq!(scenarios.each_ref().map(|scenario| json(scenario, 1)), before);
    }
}

#[test]
fn slow_start_doubles_each_round() {
    let flow = first(&geo("slow-start", ""));
    assert_eq!(flow.window_packets, [10, 20, 40, 80, 160, 320, 640, 1280]);
    assert_eq!((flow.lost_packets, flow.dropped_packets), (0, 0));
    assert_eq!(flow.phases, []);
    // The window of the ninth round is the BDP of 2778 packets.
    assert_eq!((flow.full_ms, flow.slow_start_end, flow.first_drop_ms), (None, None, None));
    assert_eq!((flow.saved_cwnd_bytes, flow.jump_cwnd_bytes), (None, None));
    // A handshake, a request, seven round trips, and what is left at the rate.
    assert!((1200.0..1205.0).contains(&flow.ttfb_ms), "{}", flow.ttfb_ms);
    assert!((6049.0..6100.0).contains(&flow.ttlb_ms), "{}", flow.ttlb_ms);
}

#[test]
fn resumed_flow_jumps_to_half_of_saved_cwnd() {
    let flow = first(&geo("careful-resume", ""));
    let phases: Vec<_> = flow.phases.iter().map(|(_, phase, _)| phase.as_str()).collect();
    assert_eq!(phases, ["reconnaissance", "unvalidated", "validating", "normal"]);
    assert_eq!(flow.saved_cwnd_bytes, Some(3_750_000));
    assert_eq!(flow.jump_cwnd_bytes, Some(1_875_000));
    assert_eq!(flow.dropped_before_validated_packets, Some(0));
    assert_eq!(flow.window_packets[..2], [10, 1388]);
    assert!(flow.observed_cwnd_bytes.is_some());
    // The bound of a jump when the initial window is acknowledged is 2698.
    assert!((2698.0..2760.0).contains(&flow.ttlb_ms), "{}", flow.ttlb_ms);
}

#[test]
fn saved_parameters_follow_from_the_path() {
    let saved = |text: &str| first(&geo("careful-resume", text));
    let narrow = saved("saved = { cwnd_bdp = 0.5 }");
    assert_eq!(narrow.jump_cwnd_bytes, Some(937_500));
    let trigger = |flow: FlowOutcome| flow.phases.last().unwrap().2.clone().unwrap();
    assert_eq!(trigger(saved("saved = { rtt_ratio = 2.1 }")), "rtt_not_validated");
    assert_eq!(trigger(saved("saved = { age_s = 3601 }")), "no_saved_set");
}

/// The short form of the chapter `subnet`. A client's first visit has no state but its neighbours'.
#[test]
fn own_state_spares_slow_clients_their_neighbours_capacity_from_the_second_visit() {
    let file = crate::scenario::shipped::find("subnet").unwrap();
    let lost_again = |case: &str| -> u64 {
        let named = file.scenarios.iter().find(|named| named.matches(case)).unwrap();
        let mut scenario = named.scenario.clone();
        scenario.flows.iter_mut().for_each(|flow| flow.count = 20);
        let mut visits = run(&scenario, 1).unwrap().flows;
        assert!(visits.iter().any(|flow| flow.jump_cwnd_bytes.is_some()), "{case}");
        visits.retain(|flow| flow.name == "slow");
        visits.sort_by(|one, other| one.start_ms.total_cmp(&other.start_ms));
        let mut seen = std::collections::BTreeSet::new();
        let again = visits.iter().filter(|flow| !seen.insert(flow.client));
        again.map(|flow| flow.lost_packets).sum()
    };
    let [store, both, token] = ["store", "both", "token"].map(lost_again);
    assert!(store > 100 && 5 * both <= store && 5 * token <= store, "{store} {both} {token}");
}

#[test]
fn saved_parameters_are_used_by_one_flow_at_a_time() {
    let mut both = geo("careful-resume", "count = 2\nsubnet = \"shared\"");
    let jumps = |scenario: &Scenario| {
        let flows = run(scenario, 1).unwrap().flows;
        flows.iter().filter(|flow| flow.jump_cwnd_bytes.is_some()).count()
    };
    assert_eq!(jumps(&both), 1);
    both.flows[0].subnet = None;
    assert_eq!(jumps(&both), 2);
}

#[test]
fn jump_into_a_narrower_path_retreats() {
    let mut scenario = geo("careful-resume", "saved = { cwnd_bdp = 8 }");
    scenario.path.rate_mbps = 5.0;
    let flow = first(&scenario);
    assert!(flow.phases.iter().any(|(_, phase, _)| phase == "safe_retreat"), "{flow:?}");
    let before = flow.dropped_before_validated_packets.expect("a jump");
    assert!(before > 0 && before <= flow.dropped_packets, "{before} {}", flow.dropped_packets);
    let bytes = flow.dropped_before_validated_bytes.expect("a jump");
    assert!(bytes > before * 1000 && bytes <= flow.dropped_bytes, "{bytes} {}", flow.dropped_bytes);
}

#[test]
fn settings_of_a_flow_slow_it_down() {
    let plain = first(&geo("slow-start", "")).ttlb_ms;
    let ms = |flow: &str| first(&geo("slow-start", flow)).ttlb_ms;
    // quiche's client gives half a window when the half before it was read: a
    // round trip for each 50 kB.
    let window = ms("client_window_bytes = 100_000") / 600.0;
    assert!((75.0..79.0).contains(&window), "{window}");
    // 30 s at 1 Mbit/s.
    let app = ms("app_limit_mbps = 1");
    assert!((31_000.0..32_000.0).contains(&app), "{app}");
    // Four segments, of which the last one becomes available after 30 s.
    let segments = ms("segments = { bytes = 1_000_000, every_ms = 10_000 }");
    assert!((31_000.0..34_000.0).contains(&segments), "{segments}");
    let access = ms("access_mbps = 1");
    assert!((31_500.0..36_000.0).contains(&access), "{access}");
    let far = ms("extra_rtt_ms = 60");
    assert!((1.08..1.12).contains(&(far / plain)), "{far} {plain}");
    let late = first(&geo("slow-start", "start_ms = 1000\nstart_spread_ms = 500"));
    assert!(late.start_ms > 1000.0 && late.start_ms < 1500.0);
    assert!((late.ttlb_ms - plain).abs() < 1.0, "{} {plain}", late.ttlb_ms);
}

#[test]
fn larger_initial_window_saves_a_round_trip_or_two() {
    let plain = first(&geo("slow-start", ""));
    let larger = first(&geo("slow-start", "initial_window_packets = 32"));
    let saved = (plain.ttlb_ms - larger.ttlb_ms) / 600.0;
    assert!((1.4..2.0).contains(&saved), "{saved}");
    assert_eq!(larger.bound_ms, None);
}

#[test]
fn send_buffer_is_an_upper_limit_of_what_is_in_flight() {
    let ttlb_ms = |flow: &str| first(&geo("careful-resume", flow)).ttlb_ms;
    // A buffer a round trip: 3.75 MB are 37 of them.
    let small = ttlb_ms("send_buffer_bytes = 100_000") / 600.0;
    assert!((37.0..44.0).contains(&small), "{small}");
    let large = ttlb_ms("send_buffer_bytes = 100_000_000");
    assert!((large - ttlb_ms("")).abs() < 1.0, "{large}");
}

#[test]
fn late_releases_delay_a_paced_download_without_loss() {
    let of = |late: &str| first(&geo("careful-resume", late));
    let (exact, late) = (of(""), of("release_late_ms = 8"));
    assert!(late.ttlb_ms > exact.ttlb_ms, "{} {}", late.ttlb_ms, exact.ttlb_ms);
    assert!(late.ttlb_ms < 1.1 * exact.ttlb_ms, "{} {}", late.ttlb_ms, exact.ttlb_ms);
    assert_eq!(late.dropped_packets, 0);
}

#[test]
fn late_releases_violate_nothing() {
    for late_ms in [0.5, 1.0, 3.0, 5.0, 30.0] {
        let mut scenario = geo("careful-resume", &format!("release_late_ms = {late_ms}"));
        scenario.path.jitter_ms = 0.5;
        for (rate_mbps, rtt_ms) in [(50.0, 600.0), (200.0, 200.0), (50.0, 50.0)] {
            (scenario.path.rate_mbps, scenario.path.rtt_ms) = (rate_mbps, rtt_ms);
            for seed in 1..4 {
                run(&scenario, seed).unwrap_or_else(|e| panic!("{late_ms} ms, {rate_mbps}: {e}"));
            }
        }
    }
}

fn page(mode: &str, objects: &[u64]) -> FlowOutcome {
    let mut scenario = geo(mode, "");
    let objects = objects.to_vec();
    let page = crate::scenario::Page { name: "a.har".into(), objects };
    scenario.flows[0].object_bytes = None;
    scenario.flows[0].page = Some(std::sync::Arc::new(page));
    first(&scenario)
}

#[test]
fn objects_of_a_page_are_requested_when_the_first_one_is_complete() {
    let rtts = |flow: &FlowOutcome| flow.ttlb_ms / 600.0;
    let [one, two] = [&[5_000][..], &[5_000, 5_000]].map(|objects| page("slow-start", objects));
    assert!((2.0..2.1).contains(&rtts(&one)), "{}", rtts(&one));
    assert!((3.0..3.1).contains(&rtts(&two)), "{}", rtts(&two));
    // More than the server lets the client request at a time.
    let many = page("slow-start", &[1_000; 400]);
    assert_eq!(many.object_bytes, 400_000);
    assert!((5.0..11.0).contains(&rtts(&many)), "{}", rtts(&many));
}

#[test]
fn page_jumps_however_large_its_document_is() {
    for document in (1_000..60_000).step_by(1_000) {
        let flow = page("careful-resume", &[document, 1_000_000, 1_000_000]);
        assert_eq!(flow.jump_cwnd_bytes, Some(1_875_000), "{document} bytes");
    }
}

#[test]
fn handovers_interrupt_a_download() {
    let mut scenario = geo("slow-start", "slow_start_exit = 'none'");
    scenario.flows[0].object_bytes = Some(60_000_000);
    let plain = first(&scenario);
    scenario.path.handover = Some(crate::scenario::Handover {
        every_ms: 4000.0,
        gap_ms: 200.0,
        rate_share: 0.0,
        rtt_share: 0.0,
    });
    let interrupted = first(&scenario);
    assert!(interrupted.ttlb_ms > 1.02 * plain.ttlb_ms, "{}", interrupted.ttlb_ms);
    assert!(interrupted.dropped_packets > 0);
}

/// A queue for each flow: what one flow overshoots costs the others nothing.
#[test]
fn flows_have_queues_of_their_own_with_fq_codel() {
    let waits = |queue: &str| {
        let text = format!(
            "[path]\nrate_mbps = 20\nrtt_ms = 40\nbuffer_bdp = 8\nqueue = \"{queue}\"\n\
             [[flow]]\nobject_bytes = 20_000\nstart_ms = 1500\n\
             [[flow]]\nobject_bdp = 80\nslow_start_exit = \"none\"\n"
        );
        first(&toml::from_str(&text).unwrap()).ttlb_ms
    };
    let (fair, single) = (waits("fq-codel"), waits("drop-tail"));
    assert!(fair < 150.0 && single > 2.0 * fair, "{fair} {single}");
}

#[test]
fn path_changes_at_its_times() {
    // A step of the RTT looks like a queue to an exit that looks at each ACK.
    let mut scenario = geo("slow-start", "slow_start_exit = 'none'");
    let plain = first(&scenario).ttlb_ms;
    scenario.path.changes = vec![crate::scenario::Change {
        at_ms: 2000.0,
        rate_mbps: None,
        rtt_ms: Some(1000.0),
        loss: None,
    }];
    let longer = first(&scenario).ttlb_ms - plain;
    // Seven of its round trips end after the change.
    assert!((2400.0..2900.0).contains(&longer), "{longer}");
    scenario.path.changes[0] =
        crate::scenario::Change { at_ms: 2000.0, rate_mbps: Some(5.0), rtt_ms: None, loss: None };
    assert!(first(&scenario).ttlb_ms > 7000.0);
}

#[test]
fn packets_wait_for_the_end_of_an_outage() {
    let change = |at_ms, rate_mbps| crate::scenario::Change {
        at_ms,
        rate_mbps: Some(rate_mbps),
        rtt_ms: None,
        loss: None,
    };
    let mut scenario = geo("slow-start", "");
    let plain = first(&scenario);
    let rate_mbps = scenario.path.rate_mbps;
    scenario.path.changes = vec![change(4000.0, 0.0), change(5000.0, rate_mbps)];
    let waited = first(&scenario);
    assert!(waited.ttlb_ms - plain.ttlb_ms > 900.0, "{} {}", waited.ttlb_ms, plain.ttlb_ms);
    assert_eq!(waited.lost_packets, 0);
    scenario.path.buffer_bdp = 0.01;
    assert!(first(&scenario).lost_packets > 0);
}

#[test]
fn swing_starts_at_another_phase_per_seed() {
    // HyStart++ takes a longer RTT for a queue.
    let mut scenario = geo("slow-start", "slow_start_exit = 'none'");
    let plain = first(&scenario).ttlb_ms;
    scenario.path.swing = Some(toml::from_str("rtt_share = 0.2").unwrap());
    let swung = |seed| run(&scenario, seed).unwrap().flows[0].ttlb_ms;
    assert_eq!(swung(1), swung(1));
    for seed in 1..4 {
        assert_ne!(swung(seed), swung(seed + 1));
        assert!((0.8..1.2).contains(&(swung(seed) / plain)), "{} {plain}", swung(seed));
    }
}

#[test]
fn slow_start_fills_the_path_and_ends_at_loss() {
    let mut scenario = geo("slow-start", "slow_start_exit = 'none'");
    scenario.flows[0].object_bytes = Some(20_000_000);
    let flow = first(&scenario);
    let (full_ms, drop_ms) = (flow.full_ms.unwrap(), flow.first_drop_ms.unwrap());
    let (end_ms, reason) = flow.slow_start_end.unwrap();
    assert_eq!(reason, "loss");
    // A buffer of one BDP takes a round trip to fill, its loss one to be told.
    assert!((300.0..1800.0).contains(&(drop_ms - full_ms)), "{full_ms} {drop_ms}");
    assert!((600.0..1800.0).contains(&(end_ms - drop_ms)), "{drop_ms} {end_ms}");
}

/// SEARCH needs a deep buffer: it looks back by an RTT that the queue makes
/// longer.
#[test]
fn slow_start_exit_is_chosen_by_name() {
    for (exit, buffer_bdp, reason) in
        [("none", 6.0, "loss"), ("search", 6.0, "search"), ("search-3", 7.0, "search")]
    {
        let mut scenario = geo("slow-start", &format!("slow_start_exit = '{exit}'"));
        (scenario.path.rate_mbps, scenario.path.rtt_ms) = (20.0, 100.0);
        (scenario.path.buffer_bdp, scenario.flows[0].object_bytes) = (buffer_bdp, Some(10_000_000));
        let flow = first(&scenario);
        assert_eq!(
            flow.slow_start_end.map(|(_, reason)| reason).as_deref(),
            Some(reason),
            "{exit}"
        );
        assert_eq!(flow.first_drop_ms.is_some(), reason == "loss", "{exit}");
    }
}

/// Doubled twice after a jump to half of what the path holds, the window is more
/// than path and buffer hold.
#[test]
fn jump_at_the_ceiling_does_not_overshoot() {
    for (after_jump, ceiling) in [("none", false), ("ceiling", true)] {
        let flow = format!("slow_start_exit = 'none'\nafter_jump = '{after_jump}'");
        let mut scenario = geo("careful-resume", &flow);
        scenario.flows[0].object_bytes = Some(20_000_000);
        let flow = first(&scenario);
        // What overshoots later is no loss before the jump was validated.
        assert_eq!(flow.dropped_before_validated_packets, Some(0));
        assert_eq!(flow.dropped_packets == 0, ceiling, "{}", flow.dropped_packets);
        assert_eq!(flow.slow_start_end.is_none(), ceiling);
    }
}

#[test]
fn incomplete_download_names_flow_and_time() {
    let mut scenario = geo("slow-start", "name = \"big\"");
    scenario.deadline_s = 3.0;
    let error = run(&scenario, 5).unwrap_err().downcast::<RunError>().unwrap();
    assert_eq!((error.seed, error.flow.clone()), (5, Some((0, "big".to_owned()))));
    assert!(matches!(error.failure, Failure::Stall(_)));
    let text = error.to_string();
    assert!(text.contains("\"big\": stalled: the deadline has passed"), "{text}");

    scenario.deadline_s = 600.0;
    scenario.path.loss = 1.0;
    let text = run(&scenario, 5).unwrap_err().to_string();
    assert!(text.contains("timed out, 0 of 3750000 bytes"), "{text}");
}

#[test]
fn standing_time_is_a_stall() {
    let scenario = geo("slow-start", "");
    let mut kept = ThreadState::new().unwrap();
    let mut world = World::new(&scenario, 1, &mut kept, None).unwrap();
    world.turns_now = TURNS_AT_ONCE_MAX - 1;
    let error = world.run().unwrap_err().to_string();
    assert!(error.contains("stalled: time does not advance"), "{error}");
}

/// Checks that a jump that the simulator does not know of is refused.
#[test]
fn broken_rule_ends_the_run() {
    let scenario = geo("careful-resume", "");
    let mut kept = ThreadState::new().unwrap();
    let mut world = World::new(&scenario, 1, &mut kept, None).unwrap();
    let subnet = world.flows[0].plan.subnet;
    let lease = Duration::from_secs(3600);
    world.store.pretend_claimed(subnet, 1, lease);
    let error = world.run().unwrap_err().downcast::<RunError>().unwrap();
    let Failure::Violation(violation) = &error.failure else { panic!("{error}") };
    assert_eq!(violation.rule, Rule::OneClaim);
    assert!(error.to_string().contains("violated"), "{error}");
}

#[test]
fn trace_has_every_connection_and_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let plain = json(&geo("careful-resume", ""), 1);
    let traced = run_traced(&geo("careful-resume", ""), 1, folder.path()).unwrap();
    assert_eq!(serde_json::to_string(&traced).unwrap(), plain);

    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("server-0.sqlog").contains("careful_resume_phase_updated"));
    assert!(read("client-0.sqlog").contains("packet_received"));
    let queue = read("queue.csv");
    assert_eq!(queue.lines().next(), Some("time_ms,packets,bytes,dropped_packets"));
    assert!(queue.lines().count() > 300, "{}", queue.lines().count());
}
