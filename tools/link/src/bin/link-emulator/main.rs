//! UDP relay in real time that drives the link model.
//!
//! Owns the sockets, the clock and the packets on their way. The model alone decides what
//! happens to a packet, and when (see the library).

mod bottleneck;
mod changes;
mod cli;
mod clients;
mod clock;
mod lane;
mod lateness;
mod line;
mod notices;
mod overruns;
mod poller;
mod relay;
mod socket;
mod trace;
mod upstream;

use crate::cli::Cli;
use crate::cli::PROGRAM;
use crate::clients::Clients;
use crate::lane::Lane;
use crate::notices::LATE_WAY_OUT;
use crate::poller::Poller;
use crate::relay::Relay;
use crate::trace::Trace;
use anyhow::Context;
use std::io::Write;
use std::net::UdpSocket;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::from_args(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let listen = UdpSocket::bind(cli.listen).with_context(|| {
        format!("cannot listen on {} (try another --listen; port 0 takes a free one)", cli.listen)
    })?;
    upstream::connect(cli.listen.ip(), cli.to)
        .with_context(|| format!("cannot send to {} (see --to)", cli.to))?;
    raise_file_limit();

    let listen = socket::open(listen)?;
    let address = listen.local_addr();
    let poller = Poller::new()?;
    let clients = Clients::new(cli.to, cli.idle, cli.ack_thinning);
    let origin = clock::now();
    let lane = |config| Lane::new(cli.queue, config, origin, cli.rtt());
    let (up, down) = (lane(cli.up())?, lane(cli.down())?);
    let trace = cli.trace.as_deref().map(|path| Trace::create(path, origin)).transpose()?;
    let relay = Relay::new(listen, poller, clients, up, down, trace)?;
    PROGRAM.say(format_args!("listening on {address}"));

    let (summary, trace) = relay.run()?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&summary)?)?;
    if summary.overrun_packets() > 0 {
        PROGRAM.say(format_args!(
            "this machine, not the link, lost {} packets (it is too busy, or net.core.rmem_max too \
             small)",
            summary.overrun_packets()
        ));
    }
    if let Some(lane) = summary.too_late() {
        PROGRAM.say(format_args!(
            "this machine, not the link, delayed packets: 1 % left more than {:.1} ms late, where {:.1} \
             ms are tolerable; {LATE_WAY_OUT}",
            lane.late_us_p99 / 1e3,
            lane.late_us_limit / 1e3
        ));
    }
    trace.map_or(Ok(()), Trace::finish)
}

/// Raises the limit of file descriptors: every client takes one.
fn raise_file_limit() {
    use rustix::process::getrlimit;
    use rustix::process::setrlimit;
    use rustix::process::Resource;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, clients beyond the limit are refused, and told so.
    let _ = setrlimit(Resource::Nofile, limit);
}
