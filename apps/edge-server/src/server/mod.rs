//! All workers of a server: one event loop and one socket each, on threads of
//! their own. They share the address, the certificates and the store.

pub mod check;
pub mod hot_restart;
pub mod reload;
pub mod resources;
pub mod signals;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::Context;
use log::warn;
use path_store::StoreService;
use quiche::path_state::PrefixLengths;

use crate::admission::connection_limits::Gate;
use crate::config::Cli;
use crate::config::Config;
use crate::content::read_pool::DiskReaders;
use crate::net::process_link::Link;
use crate::net::socket::Socket;
use crate::net::steering::Steering;
use crate::resume::store::SavedPaths;
use crate::server::hot_restart::Predecessor;
use crate::server::resources::Inputs;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use crate::worker;
use crate::worker::command::Orders;
use crate::worker::drain::Drain;
use crate::worker::event_loop::EventLoop;
use crate::worker::event_loop::Ties;
use crate::worker::forwarding::Forwarding;
use crate::worker::poller::Reactor;
use crate::worker::relay::Generations;
use crate::worker::shutdown_barrier::Departure;
use crate::worker::Worker;

/// Workers that are ready to serve.
pub struct Workers {
    /// The address that all of them serve.
    pub address: SocketAddr,
    pub event_loops: Vec<EventLoop>,

    /// The way to them.
    pub orders: Orders,

    /// Their sockets, for a successor, if there may be one.
    pub sockets: Vec<OwnedFd>,
}

/// What workers serve with, besides what is read.
pub struct Services<'a> {
    pub store: Option<&'a StoreService>,
    pub metrics: &'a Metrics,
    pub health: &'a Health,
    pub access_log: Option<&'a AccessLog>,
}

impl Workers {
    /// As many workers as a configuration asks for, bound to its address; or as many as
    /// a predecessor has, which is given back, with its sockets.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn new(
        config: &Config,
        inputs: &Inputs,
        services: &Services<'_>,
        mut predecessor: Option<Predecessor>,
    ) -> anyhow::Result<(Self, Option<Predecessor>)> {
        let cli = &config.flags;
        let disk_readers = DiskReaders::start().context("cannot start the threads that read")?;

        let (sockets, links) = match &mut predecessor {
            Some(predecessor) => adopt(cli, predecessor)?,
            None => (Socket::bind_group(cli.listen, cli.workers())?, Vec::new()),
        };
        services.metrics.socket_drops.watch(&sockets);
        let address = sockets[0].local_addr()?;
        let steering = Steering::new(sockets.len() as u16);
        if let Err(e) = steering.attach(&sockets[0]) {
            warn!("the kernel does not steer packets, workers pass them on instead: {e}");
        }
        let descriptors = sockets.iter().filter(|_| cli.takeover.is_some());
        let descriptors = descriptors.map(Socket::descriptor).collect::<Result<_, _>>();
        let descriptors = descriptors.context("cannot keep the sockets for a successor")?;
        let reactors: Result<Vec<_>, _> = sockets.iter().map(|_| Reactor::new()).collect();
        let reactors = reactors.context("cannot set the event loops up")?;
        let wakers: Vec<_> = reactors.iter().map(Reactor::waker).collect();
        let (orders, inboxes) = Orders::connect(wakers.iter().cloned());
        let forwarding = Forwarding::connect(steering, wakers.iter().cloned());
        let departures = Departure::together(wakers.iter().cloned());
        let hearts = services.health.watch(wakers);
        let links = links.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let ties = forwarding.into_iter().zip(inboxes).zip(departures).zip(hearts).zip(links).map(
            |((((forwarding, inbox), departure), heart), link)| Ties {
                forwarding,
                inbox,
                departure,
                heart,
                generations: Generations::new(link),
            },
        );

        let patience = Duration::from_secs(cli.drain.into());
        let gate = Gate::new(PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 });
        let mut event_loops = Vec::new();
        for (name, ((socket, reactor), ties)) in
            (0..=u8::MAX).zip(sockets.into_iter().zip(reactors).zip(ties))
        {
            let disk = disk_readers.handle(reactor.waker());
            let saved = SavedPaths::new(services.store, inputs.hash_keys.clone(), reactor.waker());
            let metrics = services.metrics.of_worker(name);
            let fresh = inputs.fresh(cli)?;
            let access_log = services.access_log.cloned();
            let gate = gate.clone();
            let services = worker::Services { disk, saved, metrics, access_log, gate };
            let worker = Worker::new(name, cli, fresh, services);
            let drain = Drain::new(patience);
            let event_loop = EventLoop::new(socket, reactor, worker, drain, ties);
            event_loops.push(event_loop.context("cannot watch the socket")?);
        }
        let workers = Self { address, event_loops, orders, sockets: descriptors };
        Ok((workers, predecessor))
    }
}

/// The sockets of a predecessor, and the links to its workers.
fn adopt(cli: &Cli, from: &mut Predecessor) -> anyhow::Result<(Vec<Socket>, Vec<Link>)> {
    let sockets = std::mem::take(&mut from.sockets).into_iter().map(Socket::adopt);
    let sockets: Vec<_> = sockets.collect::<Result<_, _>>().context("cannot take sockets over")?;
    let address = sockets[0].local_addr()?;
    let same_port = [0, address.port()].contains(&cli.listen.port());
    anyhow::ensure!(
        same_port && cli.listen.ip() == address.ip(),
        "cannot listen on {}: the server to take over from listens on {address}; name that, or \
         stop it first",
        cli.listen
    );
    let workers = sockets.len();
    if cli.workers.is_some_and(|wanted| usize::from(wanted) != workers) {
        warn!("--workers stays {workers}, as in the server taken over from, until a restart");
    }
    Ok((sockets, std::mem::take(&mut from.links)))
}

/// Serves until the order to stop.
///
/// # Errors
///
/// A worker has failed. The others are left as they are: clients of its own
/// cannot be served by them, so the process had better end.
pub fn run(event_loops: Vec<EventLoop>) -> anyhow::Result<()> {
    let (ended, ends) = channel();
    for (name, event_loop) in event_loops.into_iter().enumerate() {
        let ended = ended.clone();
        let run = move || {
            let end = panic::catch_unwind(AssertUnwindSafe(|| event_loop.run()));
            let end = end.unwrap_or_else(|_| Err(anyhow!("a worker panicked")));
            // Nobody listens once another has failed.
            let _ = ended.send(end);
        };
        let thread = thread::Builder::new().name(format!("worker-{name}"));
        thread.spawn(run).context("cannot start a worker's thread")?;
    }
    drop(ended);
    ends.into_iter().collect()
}
