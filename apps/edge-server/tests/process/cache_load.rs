//! Load of clients over all versions of HTTP on the cache and on files, while the origin and the server
//! are killed, and the server is reloaded, drained and taken over.
//!
//! Each byte of each response is compared with the version that it names, and each version must be as new as
//! the origin's `Cache-Control` has it. A failure prints the seed; `SEED=` runs it again. `CLIENTS=`, `OBJECTS=` and `TIME=`
//! change the long load.

mod catalogue;
mod client;
mod connection;
mod http3;
mod judge;
mod line;
mod origin;

use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use rustix::process::Resource;
use rustix::process::Rlimit;

use self::catalogue::Catalogue;
use self::client::LoadClient;
use self::client::LoadContext;
use self::connection::LoadVersion;
use self::judge::Judge;
use self::judge::Outage;
use self::judge::Span;
use self::line::CacheSizes;
use self::line::LoadEvent;
use self::line::LoadLine;
use self::origin::LoadOrigin;
use self::origin::OriginRequests;

/// Parts of the interval in which the origin is dead, and responds with errors after it.
const DEAD_PART: f64 = 0.1;
const FAILING_PART: f64 = 0.05;

/// Part of the interval after that in which requests may still get errors: they have waited for one that failed.
const SETTLING_PART: f64 = 0.5;

/// What a load is to try. On a slow machine it takes up to so many times as long.
const STALE_IF_ERROR: &str = "cache: fwd=stale; detail=stale-if-error";
const PATIENCE: u32 = 5;

/// Interval of looks at memory and disk.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Memory of a server besides the cache, and of a connection, in bytes.
const MEMORY_BASE: u64 = 120 << 20;
const CONNECTION_BYTES: u64 = 150 << 10;

/// Bodies may take as much again as the cache.
const MEMORY_MULTIPLE: u64 = 2;

/// A file more than the disk may have is there for a moment.
const DISK_EXCESS: u64 = 4 << 20;

/// A load.
struct LoadPlan {
    seed: u64,
    clients: u16,
    objects: usize,
    files: usize,
    time: Duration,
    pause_max: Duration,
    sizes: CacheSizes,

    /// Time from one death of the origin to the next, if it dies.
    outage_interval: Option<Duration>,

    /// Events, at shares of the time.
    events: Vec<(f64, LoadEvent)>,
}

/// The most that was in use, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    memory: u64,
    disk: u64,
}

/// Returns the time, in microseconds since 1970.
fn wall_us() -> u64 {
    quiche::clock::wall_now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

impl LoadPlan {
    /// Returns a load of seconds.
    fn short() -> Self {
        Self {
            seed: number_or("SEED", 1),
            clients: 48,
            objects: 200,
            files: 10,
            time: Duration::from_secs(12),
            pause_max: Duration::from_millis(100),
            sizes: CacheSizes { memory: 16 << 20, disk: 16 << 20 },
            outage_interval: Some(Duration::from_secs(5)),
            events: vec![
                (0.15, LoadEvent::Reload),
                (0.30, LoadEvent::Kill),
                (0.60, LoadEvent::TakeOver),
            ],
        }
    }

    /// Returns a load of minutes.
    fn long() -> Self {
        Self {
            clients: number_or("CLIENTS", 2000) as u16,
            objects: number_or("OBJECTS", 10_000) as usize,
            files: 100,
            time: Duration::from_secs(number_or("TIME", 300)),
            pause_max: Duration::from_millis(2000),
            sizes: CacheSizes { memory: 128 << 20, disk: 128 << 20 },
            outage_interval: Some(Duration::from_secs(20)),
            events: vec![
                (0.15, LoadEvent::Reload),
                (0.30, LoadEvent::Kill),
                (0.50, LoadEvent::TakeOver),
                (0.75, LoadEvent::Kill),
            ],
            ..Self::short()
        }
    }

    /// The same without what loses requests.
    fn without_kills(self) -> Self {
        let events = vec![
            (0.15, LoadEvent::Reload),
            (0.25, LoadEvent::TakeOver),
            (0.5, LoadEvent::TakeOverAndDrain),
            (0.75, LoadEvent::Restart),
        ];
        Self { outage_interval: None, events, ..self }
    }

    fn run(&self) -> Arc<LoadContext> {
        eprintln!("seed {}", self.seed);
        let catalogue = Arc::new(Catalogue::new(self.seed, self.objects, self.files));
        let origin = LoadOrigin::start(&catalogue);
        let requests = Arc::clone(&origin.requests);
        let mut line = LoadLine::start(&catalogue, origin.address, self.sizes);
        let context = Arc::new(LoadContext {
            judge: Judge::new(catalogue.objects.len()),
            catalogue,
            server: line.address(),
            server_number: AtomicU64::default(),
            is_over: AtomicBool::default(),
            pause_max: self.pause_max,
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let clients: Vec<_> = (0..self.clients)
            .map(|number| runtime.spawn(LoadClient::new(&context, self.seed, number).run()))
            .collect();
        let outages = thread::spawn({
            let (context, interval) = (Arc::clone(&context), self.outage_interval);
            move || run_outages(origin, interval, &context)
        });
        let usage = self.run_events(&mut line, &context, &requests);
        context.is_over.store(true, Ordering::SeqCst);
        for client in clients {
            runtime.block_on(client).unwrap();
        }
        line.stop();
        drop(outages.join().unwrap());
        self.check_usage(usage, &context.judge);
        check_requests(&requests, &context.judge);
        report(&context.judge, usage);
        context
    }

    /// Has all events happen, and returns the most that servers used.
    fn run_events(
        &self,
        line: &mut LoadLine,
        context: &LoadContext,
        requests: &Arc<OriginRequests>,
    ) -> Usage {
        let started = quiche::clock::now();
        let mut events = self.events.iter().peekable();
        let mut usage = Usage::default();
        loop {
            thread::sleep(SAMPLE_INTERVAL);
            let passed = quiche::clock::now() - started;
            if let Some((_, event)) = events.next_if(|(at, _)| self.time.mul_f64(*at) <= passed) {
                line.apply(*event, context, requests);
                eprintln!("after {:3} s: {event:?}", passed.as_secs());
            }
            usage.memory = usage.memory.max(line.memory_kib() as u64 * 1024);
            usage.disk = usage.disk.max(folder_bytes(&line.cache_dir()));
            let is_tried = self.outage_interval.is_none() || context.judge.sum(STALE_IF_ERROR) > 0;
            let is_over = events.peek().is_none() && passed >= self.time;
            if is_over && (is_tried || passed >= self.time * PATIENCE) {
                return usage;
            }
        }
    }

    fn check_usage(&self, usage: Usage, judge: &Judge) {
        let connections = u64::from(self.clients) * CONNECTION_BYTES;
        let memory_max = MEMORY_BASE + connections + MEMORY_MULTIPLE * self.sizes.memory;
        if usage.memory > memory_max || usage.disk > self.sizes.disk + DISK_EXCESS {
            judge.add_fault(format!("{usage:?}, and {memory_max} bytes of memory are enough"));
        }
    }
}

/// Kills the origin and starts it again until the load is over. Returns it, which the last requests still need.
fn run_outages(
    mut origin: LoadOrigin,
    interval: Option<Duration>,
    context: &LoadContext,
) -> LoadOrigin {
    let is_over = || context.is_over.load(Ordering::SeqCst);
    let Some(interval) = interval else { return origin };
    // Before that, there is little that could be stale.
    thread::sleep(interval / 2);
    while !is_over() {
        let from = wall_us();
        origin.requests.strict_from.store(u64::MAX, Ordering::SeqCst);
        origin.kill();
        thread::sleep(interval.mul_f64(DEAD_PART));
        origin.requests.is_failing.store(true, Ordering::SeqCst);
        origin.go_on();
        thread::sleep(interval.mul_f64(FAILING_PART));
        origin.requests.is_failing.store(false, Ordering::SeqCst);
        let to = wall_us() + interval.mul_f64(SETTLING_PART).as_micros() as u64;
        origin.requests.strict_from.store(to, Ordering::SeqCst);
        context.judge.add_outage(Outage::Origin, Span { from, to });
        let next = from + interval.as_micros() as u64;
        while wall_us() < next && !is_over() {
            thread::sleep(SAMPLE_INTERVAL);
        }
    }
    origin
}

/// Checks how often the origin was asked: once for what was not there or had to be confirmed.
fn check_requests(requests: &OriginRequests, judge: &Judge) {
    let (requests, doubled) = (requests.count(), requests.doubled());
    let counts = judge.counts();
    let collapsed = counts.iter().filter(|(name, _)| name.contains("collapsed"));
    let collapsed: usize = collapsed.map(|(_, count)| count).sum();
    let forwarded = judge.sum("cache: fwd=") - collapsed;
    let revalidated = judge.sum("cache: hit; detail=stale-while-revalidate");
    let unanswered = judge.sum("unanswered: ");
    eprintln!(
        "{requests} requests at the origin, {doubled:?} of them doubled; {forwarded} forwarded, {collapsed} \
         collapsed, {revalidated} fetched again, {unanswered} unanswered"
    );
    if requests > forwarded + revalidated + unanswered {
        judge.add_fault(format!("the origin got {requests} requests"));
    }
    if !doubled.is_empty() {
        judge.add_fault(format!("requests for what was under way: {doubled:?}"));
    }
}

fn report(judge: &Judge, usage: Usage) {
    for (name, count) in judge.counts() {
        eprintln!("{count:9} {name}");
    }
    eprintln!("at most {} MiB of memory, {} MiB on disk", usage.memory >> 20, usage.disk >> 20);
}

fn folder_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.metadata().ok()).map(|own| own.len()).sum()
}

fn number_or(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |number| number.parse().unwrap())
}

/// Raises the limit on open files: each connection has a socket.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Fails if something was wrong, or nothing was tried.
fn judge(context: &LoadContext) {
    let faults = context.judge.faults();
    assert!(faults.is_empty(), "{faults:#?}");
    for version in LoadVersion::ALL {
        assert!(context.judge.sum(&format!("response over {version:?}")) > 0, "{version:?}");
    }
    for what in
        ["cache: hit", "cache: fwd=uri-miss; stored", "cache: fwd=stale; fwd-status=304; stored"]
    {
        assert!(context.judge.sum(what) > 0, "{what}");
    }
}

#[test]
fn load_on_the_cache_gets_no_wrong_byte_and_needs_no_error() {
    let context = LoadPlan::short().run();
    judge(&context);
    assert!(context.judge.sum(STALE_IF_ERROR) > 0);
}

#[test]
fn load_loses_nothing_over_reload_drain_and_takeover() {
    let context = LoadPlan::short().without_kills().run();
    judge(&context);
    assert_eq!(context.judge.sum("unanswered: "), context.judge.sum("unanswered: sent again"));
}

#[test]
#[ignore = "takes five minutes, and is for the release build: make test-cache-load"]
fn load_of_2000_clients_gets_no_wrong_byte_and_needs_no_error() {
    raise_file_limit();
    judge(&LoadPlan::long().run());
}

#[test]
#[ignore = "takes five minutes, and is for the release build: make test-cache-load"]
fn load_of_2000_clients_loses_nothing_over_reload_drain_and_takeover() {
    raise_file_limit();
    let context = LoadPlan::long().without_kills().run();
    judge(&context);
    assert_eq!(context.judge.sum("unanswered: "), context.judge.sum("unanswered: sent again"));
}
