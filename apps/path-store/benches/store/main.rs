//! Cost of claims and records, by the number of entries of a store, compared with a plain map
//! behind a lock and with GET and SET of Redis.
//!
//! `make bench-store`; `ARGS='--entries 1000,100000 --only sqlite'` does less.
//! Time is the CPU time of one thread, except with Redis, where the thread waits: there it is
//! elapsed time. A batch is the requests that are queued together. Each line is of a process of
//! its own, so that its memory is that of the store; with Redis, it is the server's.

#[path = "../../tests/support/random.rs"]
mod random;
#[path = "../../tests/support/redis.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod redis_server;
mod subjects;

use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use clap::Parser;
use rustix::time::ClockId;

use crate::random::Random;
use crate::subjects::subject;

/// Requests of a batch: as many as the service performs at once.
const BATCH: usize = 256;

/// Requests of a batch that fills a store.
const FILLING: usize = 20_000;

#[derive(Parser)]
struct Options {
    /// How many entries the stores have
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,10000000")]
    entries: Vec<u32>,

    /// Which stores: map, memory, sqlite, redis, bare-redis
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// How many claims, and records, are measured one by one
    #[arg(long, default_value_t = 20_000)]
    samples: u32,

    /// Where the store on disk is; a folder that is deleted at the end by default
    #[arg(long)]
    folder: Option<std::path::PathBuf>,

    /// Measures one store of one size in this process, and prints JSON
    #[arg(long, hide = true)]
    apart: bool,

    /// Cargo passes it to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Figures of one store of one size.
#[derive(serde::Deserialize, serde::Serialize)]
struct Figures {
    /// In the middle, and p99.
    claim_us: [f64; 2],
    record_us: [f64; 2],
    claims_per_s: f64,
    records_per_s: f64,

    /// Of one entry.
    disk_bytes: f64,
    memory_bytes: f64,
    filling_s: f64,

    /// What was read from storage while it was measured: nothing, where the system keeps
    /// the file in memory.
    storage_bytes: u64,
}

fn now(clock: ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// Draws `count` subnets of `bound`, all different.
fn draw(random: &mut Random, count: usize, bound: u32) -> Vec<u32> {
    let mut drawn = std::collections::HashSet::new();
    while drawn.len() < count.min(bound as usize) {
        drawn.insert(random.below(bound.into()) as u32);
    }
    drawn.into_iter().collect()
}

/// Returns the time that `work` takes, and its result.
fn timed<T>(clock: ClockId, work: impl FnOnce() -> T) -> (Duration, T) {
    let before = now(clock);
    let value = work();
    (now(clock) - before, value)
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6
}

/// Returns the process's memory, in bytes.
fn memory_bytes() -> u64 {
    own_figure("status", "VmRSS:") * 1024
}

/// Returns what this process has read from storage, in bytes.
fn storage_bytes() -> u64 {
    own_figure("io", "read_bytes:")
}

/// Returns a figure of this process from /proc.
fn own_figure(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn measure(name: &str, entries: u32, samples: u32, folder: &Path) -> Figures {
    let memory_before = memory_bytes();
    let subject = subject(name, entries, folder);
    // The memory of an empty server does not count.
    let empty_bytes = subject.memory_bytes();
    let clock = subject.clock();
    let (filling, ()) = timed(ClockId::Monotonic, || {
        let subnets: Vec<u32> = (0..entries).collect();
        subnets.chunks(FILLING).for_each(|batch| subject.record(batch));
    });
    let memory = match (subject.memory_bytes(), empty_bytes) {
        (Some(now), Some(empty)) => now.saturating_sub(empty),
        _ => memory_bytes().saturating_sub(memory_before),
    };

    let storage_before = storage_bytes();
    let mut random = Random(7);
    let (mut claims, mut records) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let one = [random.below(entries.into()) as u32];
        let (time, token) = timed(clock, || subject.claim(&one));
        claims.push(time);
        subject.release(&one, &token);
        records.push(timed(clock, || subject.record(&one)).0);
    }

    let (mut claiming, mut claimed) = (Duration::ZERO, 0);
    let (mut recording, mut recorded) = (Duration::ZERO, 0);
    for _ in 0..200 {
        let batch = draw(&mut random, BATCH, entries);
        let (time, tokens) = timed(clock, || subject.claim(&batch));
        claiming += time;
        claimed += batch.len();
        subject.release(&batch, &tokens);
        recording += timed(clock, || subject.record(&batch)).0;
        recorded += batch.len();
    }

    Figures {
        claim_us: [percentile(&mut claims, 0.5), percentile(&mut claims, 0.99)],
        record_us: [percentile(&mut records, 0.5), percentile(&mut records, 0.99)],
        claims_per_s: claimed as f64 / claiming.as_secs_f64(),
        records_per_s: recorded as f64 / recording.as_secs_f64(),
        disk_bytes: subject.disk_bytes() as f64 / f64::from(entries),
        memory_bytes: memory as f64 / f64::from(entries),
        filling_s: filling.as_secs_f64(),
        storage_bytes: storage_bytes() - storage_before,
    }
}

/// Measures in a process of its own.
fn measure_apart(name: &str, entries: u32, options: &Options) -> Figures {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--apart", "--only", name, "--entries", &entries.to_string()]);
    command.args(["--samples", &options.samples.to_string()]);
    if let Some(folder) = &options.folder {
        command.arg("--folder").arg(folder);
    }
    let output = command.stderr(Stdio::inherit()).output().expect("a process");
    if !output.status.success() {
        std::process::exit(output.status.code().unwrap_or(1));
    }
    serde_json::from_slice(&output.stdout).expect("figures")
}

/// Prints the aims of the store on disk and whether they are met, from its figures by
/// ascending number of entries.
fn judge(figures: &[(u32, Figures)]) {
    let ([(fewest, least), ..], Some((most, last))) = (figures, figures.last()) else { return };
    let ratio = last.claim_us[1] / least.claim_us[1];
    let rates = figures.iter().map(|(_, figures)| figures.claims_per_s);
    let rate = rates.fold(f64::INFINITY, f64::min);
    let verdict = |met: bool| if met { "met" } else { "MISSED" };

    println!("\nThe aims of the store on disk:");
    println!(
        "- p99 of a claim at {most} entries is {ratio:.2} times that at {fewest}; under 4: {}",
        verdict(ratio < 4.0)
    );
    println!(
        "- {rate:.0} claims a second on one core, where it has the fewest; 100000: {}",
        verdict(rate >= 1e5)
    );
    println!(
        "- {:.0} bytes an entry on disk at {most} entries; under 200: {}",
        last.disk_bytes,
        verdict(last.disk_bytes < 200.0)
    );
}

fn main() {
    let mut options = Options::parse();
    options.entries.sort_unstable();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = options.folder.as_deref().unwrap_or(folder.path());
    let all = ["map", "memory", "sqlite", "bare-redis", "redis"].map(String::from);
    let names = if options.only.is_empty() { &all[..] } else { &options.only };
    if let (true, [name], [entries]) = (options.apart, names, &options.entries[..]) {
        let figures = measure(name, *entries, options.samples, folder);
        return println!("{}", serde_json::to_string(&figures).expect("numbers"));
    }

    println!("| store | entries | claim p50, µs | p99 | record p50, µs | p99 | claims/s, in batches | records/s | bytes an entry on disk | in memory | filling, s | read from storage, MiB |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut on_disk = Vec::new();
    for name in names {
        for entries in &options.entries {
            let figures = measure_apart(name, *entries, &options);
            println!(
                "| {name} | {entries} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
                figures.claim_us[0],
                figures.claim_us[1],
                figures.record_us[0],
                figures.record_us[1],
                figures.claims_per_s,
                figures.records_per_s,
                figures.disk_bytes,
                figures.memory_bytes,
                figures.filling_s,
                figures.storage_bytes >> 20,
            );
            if name == "sqlite" {
                on_disk.push((*entries, figures));
            }
        }
    }
    judge(&on_disk);
}
