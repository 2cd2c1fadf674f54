//! Accuracy of link-emulator: how close it comes to its settings.
//!
//!     cargo bench -p link --bench accuracy [-- --rate 500 --rtt 50]
//!
//! Method: paced UDP runs both ways through a real emulator process, as it
//! would between a server (down, in GSO bursts) and a client (up). Packets
//! carry the time at which they were sent; the kernel stamps their arrival.
//!
//! - idle: single packets each way; their delay against half of the RTT plus
//!   the time on the wire;
//! - loaded: 90 % of the rate down, small packets up; each packet's delay against
//!   what the link model gives for the same sending times;
//! - saturated: 110 % of the rate, one way and then the other; the bits received
//!   per second against the rate.
//!
//! Passes when every mean delay and every rate is within 2 % of what it should
//! be. The other figures that it prints (percentiles, the emulator's own
//! lateness) show whether a miss is the emulator's or the machine's.

#[path = "../../src/bin/link-emulator/clock.rs"]
mod clock;
#[path = "../../tests/emulator/common.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod common;
mod figures;
mod traffic;

use crate::common::Emulator;
use crate::figures::Delays;
use crate::figures::Figures;
use crate::traffic::Burst;
use crate::traffic::Ends;
use crate::traffic::Load;
use clap::Parser;
use link::LinkConfig;
use link::Rate;
use rustix::process::Signal;
use std::process::ExitCode;
use std::time::Duration;

/// The payload of a full-sized QUIC packet.
const FULL_BYTES: usize = 1_350;

/// The payload of an acknowledgement, and of what is sent one at a time.
const SMALL_BYTES: usize = 60;

/// Measures how close link-emulator comes to its settings.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// Rate, in Mbit/s
    #[arg(long, default_value_t = 500.0)]
    rate: f64,

    /// Round-trip time, in ms
    #[arg(long, default_value_t = 50.0)]
    rtt: f64,

    /// Length of each measurement, in seconds
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let rate = Rate::from_mbit_per_s(options.rate)?;
    let one_way = Duration::try_from_secs_f64(options.rtt / 2e3)?;
    let span = Duration::try_from_secs_f64(options.seconds)?;
    // Half a BDP: room for bursts, and a standing queue when saturated.
    let buffer_bytes = (options.rate * 1e6 / 8.0 * options.rtt / 2e3) as u64 + 100_000;
    let config = LinkConfig::new(rate, one_way, buffer_bytes);
    let mut figures = Figures::new(&options);

    idle(&options, &config, span, &mut figures)?;
    loaded(&options, &config, span, &mut figures)?;
    saturated(&options, &config, span, &mut figures)?;
    Ok(figures.verdict())
}

fn ends(options: &Options, config: &LinkConfig) -> anyhow::Result<(Emulator, Ends)> {
    let server = traffic::bind()?;
    let Options { rate, rtt, .. } = options;
    let settings = format!("--rate {rate} --rtt {rtt} --buffer {}", config.buffer_bytes);
    let emulator = Emulator::start(server.local_addr()?, &settings);
    let ends = Ends::connect(server, emulator.address)?;
    Ok((emulator, ends))
}

fn idle(
    options: &Options,
    config: &LinkConfig,
    span: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (emulator, ends) = ends(options, config)?;
    let single = Load { burst: Burst { packets: 1, bytes: SMALL_BYTES }, every: span / 200, span };
    let received = ends.run(Some(single), Some(single))?;
    figures.delay("idle, down", &Delays::against_model(config, &received.down));
    figures.delay("idle, up", &Delays::against_model(config, &received.up));
    figures.emulator(&emulator.stop(Signal::TERM).summary);
    Ok(())
}

fn loaded(
    options: &Options,
    config: &LinkConfig,
    span: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (emulator, ends) = ends(options, config)?;
    let down = Load::paced(0.9 * options.rate, FULL_BYTES, span);
    let packets_down = down.packets();
    // An acknowledgement for every second packet.
    let up =
        Load { burst: Burst { packets: packets_down.div_ceil(2), bytes: SMALL_BYTES }, ..down };
    let received = ends.run(Some(down), Some(up))?;
    figures.delay("loaded, down", &Delays::against_model(config, &received.down));
    figures.delay("loaded, up", &Delays::against_model(config, &received.up));
    figures.emulator(&emulator.stop(Signal::TERM).summary);
    Ok(())
}

fn saturated(
    options: &Options,
    config: &LinkConfig,
    span: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let load = Load::paced(1.1 * options.rate, FULL_BYTES, span);
    let (emulator, ends_down) = ends(options, config)?;
    let received = ends_down.run(Some(load), None)?;
    figures.rate("saturated, down", figures::rate_mbit_per_s(&received.down));
    figures.emulator(&emulator.stop(Signal::TERM).summary);

    let (emulator, ends_up) = ends(options, config)?;
    let received = ends_up.run(None, Some(load))?;
    figures.rate("saturated, up", figures::rate_mbit_per_s(&received.up));
    figures.emulator(&emulator.stop(Signal::TERM).summary);
    Ok(())
}
