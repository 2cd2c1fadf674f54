//! Server process: starts one worker thread per socket; they share certificates and store, and those
//! of a listener its address.

pub mod admin_client;
pub mod check;
pub mod control;
pub mod ech_keys_command;
pub mod probe;
pub mod reload;
pub mod resources;
pub mod signals;
pub mod successor;
pub mod supervisor;
pub mod takeover;
pub mod tcp_sockets;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::Context;
use command_line::OnOff;
use log::warn;
use mio::Waker;
use path_store::StoreService;
use quiche::path_state::PrefixLengths;
use udp_batch::Socket;

use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::file_limits::FileLimiter;
use crate::admission::notices::Notices;
use crate::admission::room_requests::RoomRequests;
use crate::config::listener::Listener;
use crate::config::Cli;
use crate::config::Config;
use crate::content::read_pool::ReadQueue;
use crate::net::node_socket::NodeSocket;
use crate::net::socket;
use crate::net::steering::Steering;
use crate::quic::connection_id::Origin;
use crate::quic::worker_octet::WorkerMaskKey;
use crate::resume::claimants::Claimants;
use crate::resume::last_states::LastStates;
use crate::resume::store::StoreClient;
use crate::server::resources::Resources;
use crate::server::takeover::OldProcess;
use crate::server::takeover::WorkerDescriptors;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::shutdown_log::ShutdownLog;
use crate::worker;
use crate::worker::command::CommandSender;
use crate::worker::event_loop::EventLoop;
use crate::worker::event_loop::WorkerHandles;
use crate::worker::forwarding::Forwarding;
use crate::worker::forwarding::ForwardingInlet;
use crate::worker::nodes::NodeReceiver;
use crate::worker::nodes::NodeSender;
use crate::worker::poller::Poller;
use crate::worker::relay::OlderProcess;
use crate::worker::relay::ProcessRelay;
use crate::worker::shutdown_barrier::ShutdownBarrier;
use crate::worker::Worker;

/// Attempts to open the sockets before their use by another process is an error.
const REOPENINGS_MAX: usize = 20;
const REOPENING_INTERVAL: Duration = Duration::from_millis(50);

/// Workers that are ready to serve.
pub struct Workers {
    /// The addresses that they serve.
    pub addresses: Vec<SocketAddr>,

    /// Each worker's listener, by its place in the configuration.
    pub listeners: Vec<usize>,
    pub event_loops: Vec<EventLoop>,

    /// The way to them.
    pub commands: CommandSender,

    pub generation: u8,
    pub mask_key: WorkerMaskKey,

    /// What a successor gets, if there may be one.
    pub descriptors: Vec<WorkerDescriptors>,

    pub shutdown_log: ShutdownLog,

    /// Receiver of what other servers forward.
    pub node_receiver: Option<NodeReceiver>,
}

/// The workers' sockets, in their order.
pub struct WorkerSockets {
    /// Generation of this process.
    generation: u8,

    /// Key of the worker octets in connection IDs, the same as in older processes.
    mask_key: WorkerMaskKey,

    /// Those of a listener side by side.
    sockets: Vec<WorkerSocket>,

    /// Each worker's links to older processes.
    older: Vec<Vec<OlderProcess>>,
}

/// A worker's socket.
struct WorkerSocket {
    /// Its listener, by its place in the configuration.
    listener: usize,
    socket: Socket,
}

/// What workers serve with, besides what is read.
pub struct SharedServices<'a> {
    pub store: Option<&'a StoreService>,
    pub metrics: &'a Metrics,
    pub health: &'a Health,
    pub access_log: Option<&'a AccessLog>,

    /// Socket between servers, if they forward to each other.
    pub node_socket: Option<Arc<NodeSocket>>,
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
        let WorkerSockets { generation, mask_key, sockets, older } = sockets;
        services.metrics.socket_drops.watch(sockets.iter().map(|worker| &worker.socket));
        let descriptors = sockets.iter().zip(&older).filter(|_| cli.takeover.is_some());
        let descriptors = descriptors.map(|(worker, older)| duplicate(&worker.socket, older));
        let descriptors: io::Result<Vec<_>> = descriptors.collect();
        let descriptors = descriptors.context("cannot duplicate the sockets for --takeover")?;
        let pollers: Result<Vec<_>, _> = sockets.iter().map(|_| Poller::new()).collect();
        let pollers = pollers.context("cannot set up the event loops")?;
        let wakers: Vec<_> = pollers.iter().map(Poller::waker).collect();
        let (commands, receivers) = CommandSender::connect(wakers.iter().cloned());
        let (inlets, forwarding) = connect_listeners(&sockets, &wakers, mask_key);
        let addresses = inlets.iter().map(|(address, _)| *address).collect();
        let node_socket = &services.node_socket;
        let (secrets, node_metrics) = (&resources.secrets, services.metrics.nodes());
        let node_sender = || {
            let (socket, metrics) = (Arc::clone(node_socket.as_ref()?), node_metrics.clone());
            Some(NodeSender::new(socket, secrets.clone(), metrics, quiche::clock::now()))
        };
        let node_receiver = node_socket.as_ref().map(|socket| {
            NodeReceiver::new(Arc::clone(socket), secrets.clone(), node_metrics.clone(), inlets)
        });
        let listeners = sockets.iter().map(|worker| worker.listener).collect();
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
                    relay: ProcessRelay::new(forwarding.worker(), older),
                    forwarding,
                    commands,
                    shutdown_barrier,
                    heartbeat,
                }
            });

        let limiter =
            ConnectionLimiter::new(PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 });
        let (claimants, last_states) = (Claimants::default(), LastStates::default());
        let files = FileLimiter::default();
        let shutdown_log = ShutdownLog::default();
        let room_requests = RoomRequests::for_workers(pollers.iter().map(|poller| {
            let wake = poller.wake();
            move || wake()
        }));
        let parts = sockets.into_iter().zip(pollers).zip(handles).zip(room_requests);
        let mut event_loops = Vec::new();
        for (name, (((WorkerSocket { listener, socket }, poller), handles), room_requests)) in
            (0..=u8::MAX).zip(parts)
        {
            let read_pool = read_queue.handle(poller.wake());
            let store = StoreClient::new(
                services.store,
                resources.hash_keys.clone(),
                poller.wake(),
                claimants.clone(),
                last_states.clone(),
            );
            let metrics = services.metrics.of_worker(name);
            let worker_config = resources.worker_config(cli, &cli.listen[listener])?;
            let origin = Origin { worker: handles.forwarding.worker(), generation };
            let access_log = services.access_log.cloned();
            let limiter = limiter.clone();
            let wake = poller.wake();
            let notices = Notices::new(move || wake());
            let wake = poller.wake();
            let budgets = services.metrics.budgets.of_worker(move || wake());
            let files = files.clone();
            let services = worker::WorkerServices {
                name,
                mask_key,
                read_pool,
                store,
                nodes: node_sender(),
                metrics,
                access_log,
                limiter,
                notices,
                room_requests,
                budgets,
                files,
                qlogs: services.metrics.qlogs.clone(),
                shutdown_log: shutdown_log.clone(),
            };
            let worker = Worker::new(origin, cli, worker_config, services);
            let event_loop = EventLoop::new(socket, poller, worker, handles);
            event_loops.push(event_loop.context("cannot watch the socket")?);
        }
        Ok(Self {
            addresses,
            listeners,
            event_loops,
            commands,
            generation,
            mask_key,
            descriptors,
            shutdown_log,
            node_receiver,
        })
    }
}

impl WorkerSockets {
    /// Returns the addresses of the listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let groups = self.sockets.chunk_by(|one, other| one.listener == other.listener);
        groups.map(|group| group[0].socket.local_addr()).collect()
    }

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
        let find = |path| OldProcess::find(path, cli.tcp == OnOff::On);
        let old_process = cli.takeover.as_deref().and_then(find).transpose();
        let old_process = old_process.map_err(|e| config.located("takeover", e))?;
        if let Some(mut old_process) = old_process {
            return Ok((adopt(cli, &mut old_process)?, Some(old_process)));
        }
        let mut sockets = Vec::new();
        for (listener, Listener { address, .. }) in cli.listen.iter().enumerate() {
            let group = socket::bind_group(*address, cli.workers());
            let group = group.map_err(|e| config.located("listen", e))?;
            sockets.extend(group.into_iter().map(|socket| WorkerSocket { listener, socket }));
        }
        let older = sockets.iter().map(|_| Vec::new()).collect();
        let mask_key = random_mask_key()?;
        Ok((Self { generation: 0, mask_key, sockets, older }, None))
    }
}

/// Connects the workers of each listener, and has the kernel steer packets to them. Returns the
/// addresses of the listeners with the ways to their workers, and each worker's queues.
fn connect_listeners(
    sockets: &[WorkerSocket],
    wakers: &[Arc<Waker>],
    mask_key: WorkerMaskKey,
) -> (Vec<(SocketAddr, ForwardingInlet)>, Vec<Forwarding>) {
    let (mut inlets, mut forwarding) = (Vec::new(), Vec::new());
    for group in sockets.chunk_by(|one, other| one.listener == other.listener) {
        let steering = Steering::new(group.len() as u16, mask_key);
        if let Err(e) = steering.attach(&group[0].socket) {
            warn!("the kernel does not steer packets; workers forward them to each other instead: {e}");
        }
        let wakers = wakers[forwarding.len()..].iter().take(group.len());
        let of_group = Forwarding::connect(steering, wakers.cloned());
        let address = group[0].socket.local_addr();
        inlets.extend(of_group.first().map(|forwarding| (address, forwarding.inlet())));
        forwarding.extend(of_group);
    }
    (inlets, forwarding)
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
    let addresses: Vec<_> = sockets.iter().map(Socket::local_addr).collect();
    let listeners = listeners_of(&cli.listen, &addresses)?;
    let workers = sockets.len() / cli.listen.len();
    if cli.workers.is_some_and(|wanted| usize::from(wanted) != workers) {
        warn!("--workers stays {workers}, as in the server that this one takes over from");
    }
    let with_listener = |(listener, socket)| WorkerSocket { listener, socket };
    let sockets = listeners.into_iter().zip(sockets).map(with_listener).collect();
    // A process of an earlier release has none, and no worker octets.
    let mask_key = from.mask_key.map_or_else(random_mask_key, Ok)?;
    Ok(WorkerSockets { generation, mask_key, sockets, older })
}

fn random_mask_key() -> anyhow::Result<WorkerMaskKey> {
    WorkerMaskKey::random().context("cannot create a key: the system provides no random bytes")
}

/// Returns the listener of each socket of another process, of which those of a listener are side by
/// side.
fn listeners_of(listeners: &[Listener], sockets: &[SocketAddr]) -> anyhow::Result<Vec<usize>> {
    let is_at = |listener: &Listener, socket: SocketAddr| {
        let Listener { address, .. } = listener;
        address.ip() == socket.ip() && [0, socket.port()].contains(&address.port())
    };
    let mut left: Vec<usize> = (0..listeners.len()).collect();
    let mut found = Vec::new();
    for group in sockets.chunk_by(|one, other| one == other) {
        let place = left.iter().position(|listener| is_at(&listeners[*listener], group[0]));
        let Some(place) = place else { break };
        found.extend(group.iter().map(|_| left[place]));
        left.remove(place);
    }
    let named = |addresses: &mut dyn Iterator<Item = SocketAddr>| {
        addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(" and ")
    };
    anyhow::ensure!(
        left.is_empty() && found.len() == sockets.len(),
        "cannot listen on {}: the server to take over from listens on {}; name that, or stop it \
         first",
        named(&mut listeners.iter().map(|listener| listener.address)),
        named(&mut sockets.chunk_by(|one, other| one == other).map(|group| group[0])),
    );
    Ok(found)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_another_process_are_those_of_the_same_listeners() {
        let (one, other) = ("[::]:443", "192.0.2.1:8443");
        for (listen, sockets, expected) in [
            (&[one][..], &[one, one][..], Ok(vec![0, 0])),
            (&["[::]:0"], &[one, one], Ok(vec![0, 0])),
            (&[one, other], &[one, one, other, other], Ok(vec![0, 0, 1, 1])),
            (&[other, one], &[one, one, other, other], Ok(vec![1, 1, 0, 0])),
            (&[other], &[one], Err("cannot listen on 192.0.2.1:8443: ")),
            (&[one], &[one, other], Err("listens on [::]:443 and 192.0.2.1:8443; name that")),
            (&[one, other], &[one], Err("cannot listen on [::]:443 and 192.0.2.1:8443: ")),
        ] {
            let listeners: Vec<Listener> =
                listen.iter().map(|text| text.parse().unwrap()).collect();
            let sockets: Vec<_> = sockets.iter().map(|text| text.parse().unwrap()).collect();
            let found = listeners_of(&listeners, &sockets).map_err(|e| e.to_string());
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected), "{listen:?}"),
                Err(text) => assert!(found.as_ref().unwrap_err().contains(text), "{found:?}"),
            }
        }
    }
}
