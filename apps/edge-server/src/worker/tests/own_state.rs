//! Path state that clients carry in their tokens: who jumps with what, and what makes it void.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::SystemTime;

use path_store::OwnState;
use path_store::StateKept;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::Value;

use super::client::ResumptionData;
use super::harness::below;
use super::harness::Lab;
use super::harness::Server;
use super::path::Path;
use crate::quic::secrets::tests::shared;
use crate::quic::token::AddressValidation;
use crate::quic::token::Tokens;
use crate::resume::own_state;

const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER_SECRET: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Many times what either path holds.
const LONG_BYTES: u64 = 6_000_000;

/// Some round trips more than a jump takes.
const OBJECT_BYTES: u64 = 1_000_000;

const STATES: &str = "edge_server_resume_client_states_total";
const HOLD_OFF: Duration = Duration::from_secs(61);

/// Two clients of one subnet.
const SLOW: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10));
const FAST: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 20));

/// 125 kB and 1.25 MB hold the paths.
fn path(client: IpAddr) -> Path {
    match client {
        SLOW => Path::new(10.0, 100, 125_000),
        _ => Path::new(100.0, 100, 1_250_000),
    }
}

/// What a client remembers, and what Careful Resume did for it.
#[derive(Debug)]
struct Visit {
    token: ResumptionData,
    resume: Value,
}

impl Visit {
    fn source(&self) -> Option<&str> {
        self.resume["source"].as_str().filter(|_| self.jump_bytes() > 0)
    }

    /// The window that it jumped to, 0 without a jump.
    fn jump_bytes(&self) -> u64 {
        self.resume["jump_bytes"].as_u64().unwrap_or(0)
    }
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("secrets", SECRET);
    lab
}

fn serve(lab: &Lab, args: &[&str]) -> Server {
    lab.serve(&[&["--speedtest", "--access-log", "-"], args].concat())
}

const SHARED: [&str; 2] = ["--secrets", "DIR/secrets"];

/// A download with an earlier visit's token, if there is one.
#[track_caller]
fn visit_for(server: &Server, from: IpAddr, token: Option<&Visit>, bytes: u64) -> Visit {
    let memory =
        ResumptionData { token: token.and_then(|visit| visit.token.token.clone()), session: None };
    let mut client = server.client().from(from).over(&path(from)).with(&memory).connect();
    assert_eq!(client.get(&format!("/bytes/{bytes}")).body.len() as u64, bytes);
    let token = client.resumption_data();
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    let resume = server.log().last().unwrap()["resume"].clone();
    Visit { token, resume }
}

#[track_caller]
fn visit(server: &Server, from: IpAddr, token: Option<&Visit>) -> Visit {
    visit_for(server, from, token, LONG_BYTES)
}

fn states(server: &Server, event: &str) -> u64 {
    server.metric(&format!("{STATES}{{event=\"{event}\"}}"))
}

#[track_caller]
fn assert_jump(visit: &Visit, source: &str, around: u64) {
    let jump = visit.jump_bytes();
    assert_eq!(visit.source(), Some(source), "{visit:?}");
    assert!((around * 7 / 10..=around).contains(&jump), "{jump}, not {around}");
}

#[test]
fn client_jumps_to_half_of_its_own_state_whatever_its_neighbours_have() {
    let lab = lab();
    let server = serve(&lab, &SHARED);
    let slow = visit(&server, SLOW, None);
    let fast = visit(&server, FAST, None);
    assert_jump(&fast, "store", 62_500);
    assert_jump(&visit(&server, SLOW, Some(&slow)), "token", 62_500);
    let fast = visit(&server, FAST, Some(&fast));
    assert_jump(&fast, "token", 625_000);
    // Who brings no token has what the store has.
    let other = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 30));
    assert_jump(&visit(&server, other, None), "store", 625_000);
    assert_eq!((states(&server, "received"), states(&server, "granted")), (2, 2));
    assert!(states(&server, "sent") >= 3);
    let jumps = |source| {
        server.metric(&format!("edge_server_resume_jump_sources_total{{source=\"{source}\"}}"))
    };
    assert_eq!((jumps("token"), jumps("store")), (2, 2));
}

// A client with a short visit does not lose what it has.
#[test]
fn token_passes_an_earlier_state_on() {
    let lab = lab();
    let server = serve(&lab, &SHARED);
    let first = visit(&server, SLOW, None);
    let short = visit_for(&server, SLOW, Some(&first), 5000);
    assert_eq!(short.source(), None);
    assert_jump(&visit(&server, SLOW, Some(&short)), "token", 62_500);
}

// The last byte is all that a client waits for.
#[test]
fn token_of_a_short_download_tells_what_it_saw() {
    let lab = lab();
    let server = serve(&lab, &[&SHARED[..], &["--state", "token"]].concat());
    let first = visit_for(&server, FAST, None, 700_000);
    let second = visit_for(&server, FAST, Some(&first), 700_000);
    assert_eq!(second.source(), Some("token"));
    assert!(second.jump_bytes() > 50_000, "{second:?}");
}

// What came after its last token, the process that it comes back to knows; another knows the token.
#[test]
fn short_downloads_jump_as_far_with_tokens_as_with_the_store() {
    let short = |server: &Server, before: Option<&Visit>| visit_for(server, FAST, before, 700_000);
    let visits = |mode| {
        let lab = lab();
        let server = serve(&lab, &[&SHARED[..], &["--state", mode]].concat());
        let mut visits = vec![short(&server, None)];
        (0..3).for_each(|_| visits.push(short(&server, visits.last())));
        let other = serve(&lab, &[&SHARED[..], &["--state", mode]].concat());
        let elsewhere = short(&other, visits.first()).jump_bytes();
        (visits[1..].iter().map(Visit::jump_bytes).collect::<Vec<_>>(), elsewhere)
    };
    let (with_store, _) = visits("store");
    for mode in ["token", "both"] {
        let (with_token, elsewhere) = visits(mode);
        for (own, subnet) in with_token.iter().zip(&with_store) {
            assert!(own.abs_diff(*subnet) <= subnet / 16, "{mode}: {with_token:?}, {with_store:?}");
        }
        assert!(elsewhere < with_token[0], "{mode}: {elsewhere}, {with_token:?}");
    }
}

// What it lacks, the next jump lacks; and only what is the path's limit limits the growth beyond.
#[test]
fn token_of_a_long_download_tells_what_the_store_has() {
    for client in [SLOW, FAST] {
        for bytes in [LONG_BYTES, 3 * LONG_BYTES] {
            let lab = lab();
            let visit = visit_for(&serve(&lab, &SHARED), client, None, bytes);
            let held = lab.held().unwrap();
            let own = read(&visit.token, client).saved().unwrap();
            assert!(
                own.saved_cwnd.abs_diff(held.saved_cwnd) <= held.saved_cwnd / 32,
                "{own:?}, {held:?}"
            );
            assert_eq!(own.limited, held.limited, "{own:?}, {held:?}");
        }
    }
}

#[test]
fn option_says_which_state_counts() {
    for (args, of_slow, of_new, is_held) in [
        (&["--state", "store"][..], Some("store"), Some("store"), true),
        (&["--state", "both"], Some("token"), Some("store"), true),
        (&["--state", "token"], Some("token"), None, false),
        // The defaults, with and without --secrets.
        (&SHARED, Some("token"), Some("store"), true),
        (&[], Some("store"), Some("store"), true),
    ] {
        let lab = lab();
        let server = serve(&lab, args);
        let slow = visit(&server, SLOW, None);
        assert_eq!(lab.held().is_some(), is_held, "{args:?}");
        assert_eq!(visit(&server, SLOW, Some(&slow)).source(), of_slow, "{args:?}");
        let other = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 30));
        assert_eq!(visit(&server, other, None).source(), of_new, "{args:?}");
    }
}

// RFC 9959, 3.2 and 4.2: whatever the number of servers.
#[test]
fn parallel_replays_of_a_token_jump_once() {
    for mode in ["token", "both"] {
        let lab = lab();
        let args = [&SHARED[..], &["--state", mode]].concat();
        let servers = [serve(&lab, &args), serve(&lab, &args), serve(&lab, &args)];
        let slow = visit(&servers[0], SLOW, None);
        let connect = |server: &Server| {
            server.client().from(SLOW).over(&path(SLOW)).with(&slow.token).begin()
        };
        let mut clients: Vec<_> = servers.iter().map(connect).collect();
        clients.iter_mut().for_each(super::client::Client::establish);
        let path = format!("/bytes/{OBJECT_BYTES}");
        let streams: Vec<_> =
            clients.iter_mut().map(|client| client.request("GET", &path)).collect();
        for (client, stream) in clients.iter_mut().zip(streams) {
            assert_eq!(client.response(stream).body.len() as u64, OBJECT_BYTES);
        }
        let sum = |name: &str| servers.iter().map(|server| server.metric(name)).sum::<u64>();
        assert_eq!(sum("edge_server_resume_jumps_taken_total"), 1, "{mode}");
        assert_eq!(sum(&format!("{STATES}{{event=\"received\"}}")), 3, "{mode}");
        assert_eq!(sum(&format!("{STATES}{{event=\"not_granted\"}}")), 2, "{mode}");
    }
}

#[test]
fn retreat_makes_older_tokens_of_the_subnet_void() {
    let lab = lab();
    let server = serve(&lab, &SHARED);
    let fast = visit(&server, FAST, None);
    let fast = visit(&server, FAST, Some(&fast));
    // It jumps with the fast one's, and loses.
    let slow = visit(&server, SLOW, None);
    assert_eq!(slow.resume["retreat"], true);
    lab.advance(HOLD_OFF);
    let again = visit(&server, FAST, Some(&fast));
    assert_eq!((again.source(), states(&server, "not_granted")), (None, 1));
    assert_jump(&visit(&server, FAST, Some(&again)), "token", 625_000);
}

// Its neighbours' state has failed for it once.
#[test]
fn client_that_retreated_uses_no_state_but_its_own() {
    let lab = lab();
    let server = serve(&lab, &SHARED);
    visit(&server, FAST, None);
    let slow = visit(&server, SLOW, None);
    assert_eq!((slow.source(), &slow.resume["retreat"]), (Some("store"), &true.into()));
    lab.advance(HOLD_OFF);
    let fast = visit(&server, FAST, None);
    assert_eq!(fast.source(), None);
    assert!(lab.held().is_some());
    let slow = visit(&server, SLOW, Some(&slow));
    assert_eq!((slow.source(), states(&server, "retreated")), (None, 1));
    assert_jump(&visit(&server, SLOW, Some(&slow)), "token", 62_500);
}

#[test]
fn token_is_of_no_use_to_others() {
    let lab = lab();
    let server = serve(&lab, &[&SHARED[..], &["--state", "token"]].concat());
    let fast = visit(&server, FAST, None);
    // Of the same subnet: the token is not its own.
    let other = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 30));
    assert_eq!(visit(&server, other, Some(&fast)).source(), None);
    assert_eq!(states(&server, "received"), 0);
    // For the same client, on another path.
    let marked = serve(&lab, &[&SHARED[..], &["--state", "token", "--path-dscp", "46"]].concat());
    assert_eq!(visit(&marked, FAST, Some(&fast)).source(), None);
    assert_eq!(states(&marked, "other_path"), 1);
}

#[test]
fn state_outlives_rotated_secrets_until_they_are_removed() {
    for (lines, source) in [(vec![OTHER_SECRET, SECRET], Some("token")), (vec![OTHER_SECRET], None)]
    {
        let lab = lab();
        let args = [&SHARED[..], &["--state", "token"]].concat();
        let first = visit(&serve(&lab, &args), SLOW, None);
        lab.write("secrets", lines.join("\n"));
        let second = serve(&lab, &args);
        assert_eq!(visit(&second, SLOW, Some(&first)).source(), source, "{lines:?}");
    }
}

#[test]
fn state_ends_with_its_lifetime() {
    let lab = lab();
    let server = serve(&lab, &[&SHARED[..], &["--path-lifetime", "100"]].concat());
    let slow = visit(&server, SLOW, None);
    lab.advance(Duration::from_secs(101));
    assert_eq!(visit(&server, SLOW, Some(&slow)).source(), None);
    assert_eq!(states(&server, "expired"), 1);
}

// A server that shares the secrets and has a store of its own knows of no retreat.
#[test]
fn token_is_of_no_use_with_other_claims() {
    let lab = lab();
    let first = visit(&serve(&lab, &SHARED), SLOW, None);
    lab.replace_store();
    let second = serve(&lab, &SHARED);
    assert_eq!(visit(&second, SLOW, Some(&first)).source(), None);
    assert_eq!(states(&second, "other_path"), 1);
}

#[test]
fn excepted_client_has_no_state() {
    let lab = lab();
    let server = serve(&lab, &[&SHARED[..], &["--resume-except", "198.51.100.10/32"]].concat());
    let slow = visit(&server, SLOW, None);
    assert_eq!(visit(&server, SLOW, Some(&slow)).source(), None);
    assert_eq!((states(&server, "sent"), states(&server, "received")), (0, 0));
}

// With and without, a token has one length: nobody learns more from it.
#[test]
fn tokens_have_one_length() {
    let lab = lab();
    let lengths: Vec<_> = [&["--state", "store"][..], &["--state", "both"]]
        .into_iter()
        .map(|args| visit(&serve(&lab, args), SLOW, None).token.token.unwrap().len())
        .collect();
    assert_eq!(lengths[0], lengths[1]);
}

/// Returns what a token tells: who has the secret can read it.
fn read(token: &ResumptionData, client: IpAddr) -> OwnState {
    let mut tokens = Tokens::new(shared(&[SECRET]));
    let token = token.token.as_ref().unwrap();
    let wall_now = quiche::clock::wall_now();
    let validation = tokens.validate(token, SocketAddr::new(client, 1), &[], wall_now);
    let Ok(AddressValidation::NewToken { payload: Some(payload) }) = validation else {
        panic!("{validation:?}");
    };
    let scope_and_issuer = payload.last_chunk::<16>().unwrap();
    let scope = *scope_and_issuer.first_chunk().unwrap();
    own_state::from_payload(&payload, &scope, wall_now).unwrap_or_default()
}

/// Visits of one search.
const STEPS: u32 = 25;

/// Clients of one subnet, of which two have links of their own kind.
const CLIENTS: [IpAddr; 3] = [SLOW, FAST, IpAddr::V4(Ipv4Addr::new(198, 51, 100, 30))];

/// What a random run knows of the rules: it reads the tokens, as nobody without the secret can.
struct Search {
    random: Pcg64,
    lab: Lab,
    servers: Vec<(StateKept, Server)>,

    /// All tokens that each client ever got, and when their connections ended.
    tokens: [Vec<(ResumptionData, SystemTime)>; CLIENTS.len()],

    /// When a connection of the subnet retreated last.
    retreated: Option<SystemTime>,

    /// Jumps with each source.
    jumps: [u64; 2],
}

impl Search {
    fn new(seed: u64) -> Self {
        let lab = Lab::with_seed(seed);
        lab.write("secrets", SECRET);
        let modes =
            [("both", StateKept::Both), ("token", StateKept::Token), ("store", StateKept::Store)];
        let servers = modes
            .map(|(name, kept)| (kept, serve(&lab, &[&SHARED[..], &["--state", name]].concat())));
        Self {
            random: Pcg64::seed_from_u64(seed),
            lab,
            servers: servers.into(),
            tokens: Default::default(),
            retreated: None,
            jumps: [0; 2],
        }
    }

    /// One visit of a client, or two at a time, with a token of its own, of another, or none.
    fn step(&mut self) {
        let client = below(&mut self.random, CLIENTS.len());
        let owner =
            if below(&mut self.random, 8) == 0 { below(&mut self.random, 3) } else { client };
        let shown = match (below(&mut self.random, 6), self.tokens[owner].len()) {
            (0, _) | (_, 0) => None,
            (1, count) => Some(self.tokens[owner][below(&mut self.random, count)].clone()),
            _ => self.tokens[owner].last().cloned(),
        };
        let bytes = [5000, 400_000, 3_000_000][below(&mut self.random, 3)];
        let count = 1 + below(&mut self.random, 4) / 3;
        let first = below(&mut self.random, self.servers.len());
        let chosen: Vec<_> = (0..count).map(|i| (first + i) % self.servers.len()).collect();
        let own = shown
            .as_ref()
            .filter(|_| owner == client)
            .map(|(shown, ended)| (read(shown, CLIENTS[client]), *ended));
        let before = self.retreated;
        let visits = self.visit(client, shown.as_ref().map(|(shown, _)| shown), bytes, &chosen);
        let jumps = visits.iter().filter(|visit| visit.source().is_some()).count();
        assert!(jumps <= 1, "two at a time: {visits:?}");
        for (visit, server) in visits.iter().zip(chosen) {
            self.check(visit, self.servers[server].0, client, own, before);
            self.check_token(&visit.token, client);
            self.tokens[client].push((visit.token.clone(), quiche::clock::wall_now()));
        }
        let pauses_s = [0, 1, 59, 61, 700];
        let pause = Duration::from_secs(pauses_s[below(&mut self.random, pauses_s.len())]);
        self.lab.advance(pause);
    }

    fn visit(
        &mut self,
        client: usize,
        shown: Option<&ResumptionData>,
        bytes: u64,
        chosen: &[usize],
    ) -> Vec<Visit> {
        let from = CLIENTS[client];
        let memory = shown.cloned().unwrap_or_default();
        let memory = ResumptionData { session: None, ..memory };
        let servers: Vec<_> = chosen.iter().map(|i| self.servers[*i].1.clone()).collect();
        let begin =
            |server: &Server| server.client().from(from).over(&path(from)).with(&memory).begin();
        let mut clients: Vec<_> = servers.iter().map(begin).collect();
        clients.iter_mut().for_each(super::client::Client::establish);
        let url = format!("/bytes/{bytes}");
        let streams: Vec<_> =
            clients.iter_mut().map(|client| client.request("GET", &url)).collect();
        let mut visits = Vec::new();
        for ((client, stream), server) in clients.iter_mut().zip(streams).zip(&servers) {
            assert_eq!(client.response(stream).body.len() as u64, bytes);
            let token = client.resumption_data();
            client.close();
            server.wait_for_metric("edge_server_connections_open", |open| open == 0);
            let resume = server.log().last().unwrap()["resume"].clone();
            if resume["retreat"] == true {
                self.retreated = Some(quiche::clock::wall_now());
            }
            visits.push(Visit { token, resume });
        }
        visits
    }

    fn check(
        &mut self,
        visit: &Visit,
        kept: StateKept,
        client: usize,
        own: Option<(OwnState, SystemTime)>,
        retreated: Option<SystemTime>,
    ) {
        match visit.source() {
            None => (),
            Some("token") => {
                let (_, ended) = own.expect("a token of its own");
                assert_ne!(kept, StateKept::Store);
                // Its process may know more than the token tells, up to the connection's end.
                assert!(visit.jump_bytes() <= most_observed(client) / 2, "{visit:?}");
                assert!(retreated.is_none_or(|at| ended > at), "{visit:?} {own:?}");
                self.jumps[0] += 1;
            }
            Some(source) => {
                assert_eq!(source, "store");
                assert_ne!(kept, StateKept::Token);
                // It brought nothing that was good.
                let is_unknown = own.is_none_or(|(own, _)| own == OwnState::Unknown);
                assert!(kept == StateKept::Store || is_unknown, "{visit:?} {own:?}");
                self.jumps[1] += 1;
            }
        }
    }

    /// What a client is given is no more than its own path carries.
    fn check_token(&self, token: &ResumptionData, client: usize) {
        if let OwnState::Saved(saved) = read(token, CLIENTS[client]) {
            assert!(saved.saved_cwnd <= most_observed(client), "{saved:?}");
        }
    }
}

/// Returns what is observed of a client's path at most.
fn most_observed(client: usize) -> u64 {
    let holds: u64 = if CLIENTS[client] == SLOW { 125_000 } else { 1_250_000 };
    holds + holds / 10
}

fn search(seeds: u64) {
    let mut jumps = [0; 2];
    for seed in 1..=seeds {
        println!("seed {seed}");
        let mut search = Search::new(seed);
        (0..STEPS).for_each(|_| search.step());
        jumps = [jumps[0] + search.jumps[0], jumps[1] + search.jumps[1]];
    }
    println!("jumps by token, by store: {jumps:?}");
    assert!(jumps.iter().all(|jumps| *jumps >= seeds), "too little happened: {jumps:?}");
}

#[test]
fn random_visits_keep_the_rules_of_own_state() {
    search(2);
}

#[test]
#[ignore = "minutes; make check-long runs it"]
fn forty_random_searches_keep_the_rules_of_own_state() {
    search(40);
}
