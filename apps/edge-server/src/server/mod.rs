//! Server process: starts one worker thread per socket; they share address, certificates and store.

pub mod admin_client;
pub mod check;
pub mod control;
pub mod reload;
pub mod resources;
pub mod signals;
pub mod takeover;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
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
use udp_batch::Socket;

use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::file_limits::FileLimiter;
use crate::admission::notices::Notices;
use crate::config::Cli;
use crate::config::Config;
use crate::content::read_pool::ReadQueue;
use crate::net::socket;
use crate::net::steering::Steering;
use crate::quic::connection_id::Origin;
use crate::resume::claimants::Claimants;
use crate::resume::store::StoreClient;
use crate::server::resources::Resources;
use crate::server::takeover::OldProcess;
use crate::server::takeover::WorkerDescriptors;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use crate::worker;
use crate::worker::command::CommandSender;
use crate::worker::event_loop::EventLoop;
use crate::worker::event_loop::WorkerHandles;
use crate::worker::forwarding::Forwarding;
use crate::worker::poller::Poller;
use crate::worker::relay::OlderProcess;
use crate::worker::relay::ProcessRelay;
use crate::worker::shutdown_barrier::ShutdownBarrier;
use crate::worker::shutdown_log::ShutdownLog;
use crate::worker::Worker;

/// Attempts to open the sockets before their use by another process is an error.
const REOPENINGS_MAX: usize = 20;
const REOPENING_INTERVAL: Duration = Duration::from_millis(50);

/// Workers that are ready to serve.
pub struct Workers {
    /// The address that all of them serve.
    pub address: SocketAddr,
    pub event_loops: Vec<EventLoop>,

    /// The way to them.
    pub commands: CommandSender,

    pub generation: u8,

    /// What a successor gets, if there may be one.
    pub descriptors: Vec<WorkerDescriptors>,

    pub shutdown_log: ShutdownLog,
}

/// The workers' sockets, in their order.
pub struct WorkerSockets {
    /// Generation of this process.
    generation: u8,
    sockets: Vec<Socket>,

    /// Each worker's links to older processes.
    older: Vec<Vec<OlderProcess>>,
}

/// What workers serve with, besides what is read.
pub struct SharedServices<'a> {
    pub store: Option<&'a StoreService>,
    pub metrics: &'a Metrics,
    pub health: &'a Health,
    pub access_log: Option<&'a AccessLog>,
}

impl Workers {
    /// Workers for these sockets.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn new(
        config: &Config,
        resources: &Resources,
        services: &SharedServices<'_>,
        sockets: WorkerSockets,
    ) -> anyhow::Result<Self> {
        let cli = &config.flags;
        let read_queue =
            ReadQueue::with_threads().context("cannot start the threads that read files")?;
        let WorkerSockets { generation, sockets, older } = sockets;
        services.metrics.socket_drops.watch(&sockets);
        let address = sockets[0].local_addr();
        let steering = Steering::new(sockets.len() as u16);
        if let Err(e) = steering.attach(&sockets[0]) {
            warn!("the kernel does not steer packets; workers forward them to each other instead: {e}");
        }
        let descriptors = sockets.iter().zip(&older).filter(|_| cli.takeover.is_some());
        let descriptors = descriptors.map(|(socket, older)| duplicate(socket, older));
        let descriptors: io::Result<Vec<_>> = descriptors.collect();
        let descriptors = descriptors.context("cannot duplicate the sockets for --takeover")?;
        let pollers: Result<Vec<_>, _> = sockets.iter().map(|_| Poller::new()).collect();
        let pollers = pollers.context("cannot set up the event loops")?;
        let wakers: Vec<_> = pollers.iter().map(Poller::waker).collect();
        let (commands, receivers) = CommandSender::connect(wakers.iter().cloned());
        let forwarding = Forwarding::connect(steering, wakers.iter().cloned());
        let shutdown_barriers = ShutdownBarrier::for_workers(wakers.iter().cloned());
        let heartbeats = services.health.watch(wakers);
        let handles = forwarding
            .into_iter()
            .zip(receivers)
            .zip(shutdown_barriers)
            .zip(heartbeats)
            .zip(older)
            .map(|((((forwarding, commands), shutdown_barrier), heartbeat), older)| {
                WorkerHandles {
                    forwarding,
                    commands,
                    shutdown_barrier,
                    heartbeat,
                    relay: ProcessRelay::new(older),
                }
            });

        let limiter =
            ConnectionLimiter::new(PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 });
        let claimants = Claimants::default();
        let files = FileLimiter::default();
        let shutdown_log = ShutdownLog::default();
        let mut event_loops = Vec::new();
        for (name, ((socket, poller), handles)) in
            (0..=u8::MAX).zip(sockets.into_iter().zip(pollers).zip(handles))
        {
            let read_pool = read_queue.handle(poller.wake());
            let (hash_keys, claimants) = (resources.hash_keys.clone(), claimants.clone());
            let store = StoreClient::new(services.store, hash_keys, poller.wake(), claimants);
            let metrics = services.metrics.of_worker(name);
            let worker_config = resources.worker_config(cli)?;
            let access_log = services.access_log.cloned();
            let limiter = limiter.clone();
            let wake = poller.wake();
            let notices = Notices::new(move || wake());
            let wake = poller.wake();
            let budgets = services.metrics.budgets.of_worker(move || wake());
            let files = files.clone();
            let services = worker::WorkerServices {
                read_pool,
                store,
                metrics,
                access_log,
                limiter,
                notices,
                budgets,
                files,
                qlogs: services.metrics.qlogs.clone(),
                shutdown_log: shutdown_log.clone(),
            };
            let worker =
                Worker::new(Origin { worker: name, generation }, cli, worker_config, services);
            let event_loop = EventLoop::new(socket, poller, worker, handles);
            event_loops.push(event_loop.context("cannot watch the socket")?);
        }
        Ok(Self { address, event_loops, commands, generation, descriptors, shutdown_log })
    }
}

impl WorkerSockets {
    /// Takes over the sockets of an old process, which is given back; without one, binds as many
    /// as a configuration asks for.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn open(config: &Config) -> anyhow::Result<(Self, Option<OldProcess>)> {
        let cli = &config.flags;
        for _ in 0..REOPENINGS_MAX {
            match Self::open_once(config) {
                // An old process may be about to serve again, after the death of a newer one.
                Err(e) if cli.takeover.is_some() && socket::is_in_use(&e) => {
                    thread::sleep(REOPENING_INTERVAL);
                }
                result => return result,
            }
        }
        Self::open_once(config)
    }

    fn open_once(config: &Config) -> anyhow::Result<(Self, Option<OldProcess>)> {
        let cli = &config.flags;
        let old_process = cli.takeover.as_deref().and_then(OldProcess::find).transpose();
        let old_process = old_process.map_err(|e| config.located("takeover", e))?;
        if let Some(mut old_process) = old_process {
            return Ok((adopt(cli, &mut old_process)?, Some(old_process)));
        }
        let sockets = socket::bind_group(cli.listen, cli.workers());
        let sockets = sockets.map_err(|e| config.unusable("listen", e))?;
        let older = sockets.iter().map(|_| Vec::new()).collect();
        Ok((Self { generation: 0, sockets, older }, None))
    }
}

/// Returns descriptors of the same socket and links.
fn duplicate(socket: &Socket, older: &[OlderProcess]) -> io::Result<WorkerDescriptors> {
    let socket = socket.as_fd().try_clone_to_owned()?;
    let older = older.iter().map(OlderProcess::try_clone).collect::<Result<_, _>>()?;
    Ok(WorkerDescriptors { socket, older })
}

/// Returns the sockets of an old process.
fn adopt(cli: &Cli, from: &mut OldProcess) -> anyhow::Result<WorkerSockets> {
    let generation = from.generation().wrapping_add(1);
    let workers = std::mem::take(&mut from.workers).into_iter();
    let (sockets, older): (Vec<_>, Vec<_>) = workers.map(|w| (w.socket, w.older)).unzip();
    let sockets: Result<Vec<_>, _> = sockets.into_iter().map(socket::adopt).collect();
    let sockets = sockets.context("cannot take over the sockets")?;
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
    Ok(WorkerSockets { generation, sockets, older })
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
