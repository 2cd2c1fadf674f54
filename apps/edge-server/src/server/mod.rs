//! Server process: starts one worker thread per socket; they share address, certificates and store.

pub mod check;
pub mod reload;
pub mod resources;
pub mod signals;
pub mod takeover;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::channel;
use std::thread;

use anyhow::anyhow;
use anyhow::Context;
use log::warn;
use path_store::StoreService;
use quiche::path_state::PrefixLengths;
use udp_batch::Socket;

use crate::admission::connection_limits::ConnectionLimiter;
use crate::config::Cli;
use crate::config::Config;
use crate::content::read_pool::ReadQueue;
use crate::net::process_link::Link;
use crate::net::socket;
use crate::net::steering::Steering;
use crate::resume::store::StoreClient;
use crate::server::resources::Resources;
use crate::server::takeover::OldProcess;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use crate::worker;
use crate::worker::command::CommandSender;
use crate::worker::event_loop::EventLoop;
use crate::worker::event_loop::WorkerHandles;
use crate::worker::forwarding::Forwarding;
use crate::worker::poller::Poller;
use crate::worker::relay::ProcessRelay;
use crate::worker::shutdown_barrier::ShutdownBarrier;
use crate::worker::Worker;

/// Workers that are ready to serve.
pub struct Workers {
    /// The address that all of them serve.
    pub address: SocketAddr,
    pub event_loops: Vec<EventLoop>,

    /// The way to them.
    pub commands: CommandSender,

    /// Their sockets, for a successor, if there may be one.
    pub sockets: Vec<OwnedFd>,
}

/// What workers serve with, besides what is read.
pub struct SharedServices<'a> {
    pub store: Option<&'a StoreService>,
    pub metrics: &'a Metrics,
    pub health: &'a Health,
    pub access_log: Option<&'a AccessLog>,
}

impl Workers {
    /// As many workers as a configuration asks for, bound to its address; or as many as
    /// an old process has, which is given back, with its sockets.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn new(
        config: &Config,
        resources: &Resources,
        services: &SharedServices<'_>,
        mut old_process: Option<OldProcess>,
    ) -> anyhow::Result<(Self, Option<OldProcess>)> {
        let cli = &config.flags;
        let read_queue =
            ReadQueue::with_threads().context("cannot start the threads that read files")?;

        let (sockets, links) = match &mut old_process {
            Some(old_process) => adopt(cli, old_process)?,
            None => (socket::bind_group(cli.listen, cli.workers())?, Vec::new()),
        };
        services.metrics.socket_drops.watch(&sockets);
        let address = sockets[0].local_addr();
        let steering = Steering::new(sockets.len() as u16);
        if let Err(e) = steering.attach(&sockets[0]) {
            warn!("the kernel does not steer packets; workers forward them to each other instead: {e}");
        }
        let descriptors = sockets.iter().filter(|_| cli.takeover.is_some());
        let descriptors =
            descriptors.map(|socket| socket.as_fd().try_clone_to_owned()).collect::<Result<_, _>>();
        let descriptors = descriptors.context("cannot duplicate the sockets for --takeover")?;
        let pollers: Result<Vec<_>, _> = sockets.iter().map(|_| Poller::new()).collect();
        let pollers = pollers.context("cannot set up the event loops")?;
        let wakers: Vec<_> = pollers.iter().map(Poller::waker).collect();
        let (commands, receivers) = CommandSender::connect(wakers.iter().cloned());
        let forwarding = Forwarding::connect(steering, wakers.iter().cloned());
        let shutdown_barriers = ShutdownBarrier::for_workers(wakers.iter().cloned());
        let heartbeats = services.health.watch(wakers);
        let links = links.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let handles = forwarding
            .into_iter()
            .zip(receivers)
            .zip(shutdown_barriers)
            .zip(heartbeats)
            .zip(links)
            .map(|((((forwarding, commands), shutdown_barrier), heartbeat), link)| WorkerHandles {
                forwarding,
                commands,
                shutdown_barrier,
                heartbeat,
                relay: ProcessRelay::new(link),
            });

        let limiter =
            ConnectionLimiter::new(PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 });
        let mut event_loops = Vec::new();
        for (name, ((socket, poller), handles)) in
            (0..=u8::MAX).zip(sockets.into_iter().zip(pollers).zip(handles))
        {
            let read_pool = read_queue.handle(poller.wake());
            let store =
                StoreClient::new(services.store, resources.hash_keys.clone(), poller.wake());
            let metrics = services.metrics.of_worker(name);
            let worker_config = resources.worker_config(cli)?;
            let access_log = services.access_log.cloned();
            let limiter = limiter.clone();
            let services =
                worker::WorkerServices { read_pool, store, metrics, access_log, limiter };
            let worker = Worker::new(name, cli, worker_config, services);
            let event_loop = EventLoop::new(socket, poller, worker, handles);
            event_loops.push(event_loop.context("cannot watch the socket")?);
        }
        let workers = Self { address, event_loops, commands, sockets: descriptors };
        Ok((workers, old_process))
    }
}

/// The sockets of an old process, and the links to its workers.
fn adopt(cli: &Cli, from: &mut OldProcess) -> anyhow::Result<(Vec<Socket>, Vec<Link>)> {
    let sockets = std::mem::take(&mut from.sockets).into_iter().map(socket::adopt);
    let sockets: Vec<_> =
        sockets.collect::<Result<_, _>>().context("cannot take over the sockets")?;
    let address = sockets[0].local_addr();
    let same_port = [0, address.port()].contains(&cli.listen.port());
    anyhow::ensure!(
        same_port && cli.listen.ip() == address.ip(),
        "cannot listen on {}: the server to take over from listens on {address}; name that, or \
         stop it first",
        cli.listen
    );
    let workers = sockets.len();
    if cli.workers.is_some_and(|wanted| usize::from(wanted) != workers) {
        warn!("--workers stays {workers}, as in the server that this one takes over from");
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
