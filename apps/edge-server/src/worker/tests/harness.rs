//! Servers and clients of one simulation.

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use path_store::Answer;
use path_store::ServiceOptions;
use path_store::StoreHandle;
use path_store::StoreService;
use quiche::clock;
use quiche::clock::Simulation;
use quiche::ecn::Codepoint;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;
use quiche::RecvInfo;
use rand_pcg::rand_core::Rng;
use rand_pcg::Pcg64;
use serde_json::Value;

use super::client::ClientBuilder;
use super::client::ClientState;
use super::path::Datagram;
use super::path::Lane;
use super::path::Offered;
use super::path::Path;
use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::file_limits::FileLimiter;
use crate::admission::notices::Notices;
use crate::admission::room_requests::RoomRequests;
use crate::config;
use crate::config::Config;
use crate::content::hosts::VirtualHosts;
use crate::content::read_pool::Job;
use crate::content::read_pool::ReadQueue;
use crate::net::route::AddressPair;
use crate::net::route::Arrival;
use crate::net::route::PacketSink;
use crate::quic::certificate::Certificates;
use crate::quic::connection_id::Origin;
use crate::quic::controllers::HostControllers;
use crate::quic::quic_lb_set::QuicLbSet;
use crate::quic::secrets;
use crate::quic::secrets::SharedSecrets;
use crate::quic::worker_octet::WorkerMaskKey;
use crate::resume::claimants::Claimants;
use crate::resume::last_states::LastStates;
use crate::resume::store::StoreClient;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::socket::ConnectionInfo;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::shutdown_log::ShutdownLog;
use crate::worker::drain::DrainReason;
use crate::worker::settings::WorkerConfig;
use crate::worker::Worker;
use crate::worker::WorkerServices;

/// Address of all servers; each has a port of its own.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Address that clients have unless a test says otherwise.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// When a simulation starts, after the Unix epoch: 2026.
const START: Duration = Duration::from_secs(1_767_225_600);

const SEED: u64 = 1;

/// Simulated time in which what a test waits for has to happen.
const PATIENCE: Duration = Duration::from_secs(1000);

/// Turns without time passing.
const TURNS_AT_ONCE_MAX: u32 = 10_000;

/// Packets of one send.
const PACKETS_PER_SEND: usize = 64;

/// Draws a number below `end`.
pub fn below(random: &mut Pcg64, end: usize) -> usize {
    (random.next_u64() % end as u64) as usize
}

/// What servers and clients of a test share: the time, the network, the store, and a folder.
#[derive(Clone)]
pub struct Lab(Rc<RefCell<World>>);

/// One server of a test.
#[derive(Clone)]
pub struct Server {
    lab: Lab,
    host: usize,
}

/// An address without a connection, whose datagrams a test makes.
pub struct DatagramPeer {
    lab: Lab,
    endpoint: usize,
    pub address: SocketAddr,
}

impl Lab {
    pub fn new() -> Self {
        Self::with_seed(SEED)
    }

    pub fn with_seed(seed: u64) -> Self {
        let simulation = Simulation::start(seed, START);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("www")).unwrap();
        fs::write(dir.path().join("www/index.html"), "home").unwrap();
        let store = start_store();
        Self(Rc::new(RefCell::new(World {
            hosts: Vec::new(),
            endpoints: Vec::new(),
            arrivals: BTreeMap::new(),
            serial_next: 0,
            store_handle: store.handle(Arc::new(|| ())),
            store,
            start: clock::now(),
            seed,
            dir,
            simulation,
        })))
    }

    /// Starts a server with these arguments. `DIR` in them stands for the test's folder,
    /// of which `DIR/www` is served.
    pub fn serve(&self, args: &[&str]) -> Server {
        let port = 443 + self.0.borrow().hosts.len() as u16;
        self.serve_at(SocketAddr::new(SERVER, port), args)
    }

    /// Starts a server in the place of another.
    pub fn serve_at(&self, address: SocketAddr, args: &[&str]) -> Server {
        let mut world = self.0.borrow_mut();
        let host = ServerState::new(address, args, &world);
        world.hosts.push(host);
        Server { lab: self.clone(), host: world.hosts.len() - 1 }
    }

    /// How many servers there have been.
    pub fn servers(&self) -> usize {
        self.0.borrow().hosts.len()
    }

    /// The path of a file in the test's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.borrow().dir.path().join(name)
    }

    /// Writes a file below the test's folder.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    /// A text with the test's folder in the place of `DIR`.
    pub fn fill(&self, text: &str) -> String {
        text.replace("DIR", self.0.borrow().dir.path().to_str().unwrap())
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.0.borrow().now()
    }

    /// Does everything that can be done without time passing.
    pub fn settle(&self) {
        self.0.borrow_mut().settle();
    }

    /// Lets so much time pass.
    pub fn advance(&self, time: Duration) {
        let mut world = self.0.borrow_mut();
        let end = world.now() + time;
        loop {
            world.settle();
            match world.next_event().filter(|at| *at <= end) {
                Some(at) => world.simulation.advance_to(at),
                None => break,
            }
        }
        world.simulation.advance_to(end);
        world.settle();
    }

    /// Lets time pass until something is so.
    #[track_caller]
    pub fn run_until(&self, done: impl Fn(&World) -> bool) {
        let mut world = self.0.borrow_mut();
        let end = world.now() + PATIENCE;
        loop {
            world.settle();
            if done(&world) {
                return;
            }
            let next = world.next_event().filter(|at| *at <= end);
            let at = next.expect("nothing more happens, and it is not so");
            world.simulation.advance_to(at);
        }
    }

    /// Saves parameters for the subnet of [`CLIENT`].
    pub fn plant(&self, saved: Saved) {
        self.plant_for(CLIENT, saved);
    }

    /// Saves parameters for the subnet of a client.
    pub fn plant_for(&self, client: IpAddr, saved: Saved) {
        let now = clock::wall_now();
        let state = PathState {
            saved_cwnd: saved.cwnd_bytes,
            saved_rtt: Duration::from_millis(saved.rtt_ms),
            observed: now,
            expires: now + saved.lives,
            limited: false,
            validated: false,
        };
        self.0.borrow().store_handle.record(&endpoint_of(client), &state);
    }

    /// The parameters that are held for the subnet of [`CLIENT`].
    pub fn held(&self) -> Option<PathState> {
        let world = self.0.borrow();
        world.store_handle.get(0, &endpoint_of(CLIENT));
        match world.store_handle.poll() {
            Some(Answer::Read { state, .. }) => state,
            answer => panic!("{answer:?}"),
        }
    }

    /// Gives servers that start from now on another store.
    pub fn replace_store(&self) {
        let mut world = self.0.borrow_mut();
        world.store = start_store();
        world.store_handle = world.store.handle(Arc::new(|| ()));
    }

    /// An address that a test sends datagrams from.
    pub fn peer(&self, from: IpAddr) -> DatagramPeer {
        let address = self.client_address(from);
        let mut world = self.0.borrow_mut();
        let endpoint = world.add(address, &Path::default(), Party::Peer(Vec::new()));
        DatagramPeer { lab: self.clone(), endpoint, address }
    }

    pub fn client_address(&self, ip: IpAddr) -> SocketAddr {
        let world = self.0.borrow();
        let used: usize = world.endpoints.iter().map(|endpoint| endpoint.addresses.len()).sum();
        SocketAddr::new(ip, 10_000 + used as u16)
    }

    pub fn add_client(&self, address: SocketAddr, path: &Path, client: ClientState) -> usize {
        self.0.borrow_mut().add(address, path, Party::Client(Box::new(client)))
    }

    pub fn with_client<T>(&self, endpoint: usize, act: impl FnOnce(&mut ClientState) -> T) -> T {
        let mut world = self.0.borrow_mut();
        let Party::Client(client) = &mut world.endpoints[endpoint].party else { unreachable!() };
        client.touched = true;
        act(client)
    }

    pub fn datagrams(&self, endpoint: usize) -> (Vec<Offered>, Vec<Offered>) {
        let world = self.0.borrow();
        let endpoint = &world.endpoints[endpoint];
        (endpoint.up.offered.clone(), endpoint.down.offered.clone())
    }

    pub fn rebind(&self, endpoint: usize, to: SocketAddr) {
        self.0.borrow_mut().endpoints[endpoint].addresses.push(to);
    }

    pub fn send_from(&self, endpoint: usize, to: SocketAddr, bytes: Vec<u8>) {
        let datagram = Datagram { bytes, ecn: Codepoint::NotEct };
        self.0.borrow_mut().send_up(endpoint, to, datagram);
    }
}

impl Server {
    /// A server with these arguments, alone in a simulation of its own.
    pub fn start(args: &[&str]) -> Self {
        Lab::new().serve(args)
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn address(&self) -> SocketAddr {
        self.with(|host| host.address)
    }

    fn with<T>(&self, act: impl FnOnce(&mut ServerState) -> T) -> T {
        act(&mut self.lab.0.borrow_mut().hosts[self.host])
    }

    pub fn with_worker(&self, act: impl FnOnce(&mut Worker)) {
        self.with(|host| {
            host.touched = true;
            act(host.worker.as_mut().expect("the server has not ended"));
        });
    }

    /// A client that is to be connected.
    pub fn client(&self) -> ClientBuilder {
        ClientBuilder::new(self.clone())
    }

    /// A client that has completed its handshake.
    #[track_caller]
    pub fn connect(&self) -> super::client::Client {
        self.client().connect()
    }

    /// The sum of the samples whose names begin so.
    pub fn metric(&self, name: &str) -> u64 {
        self.with(|host| host.metric(name))
    }

    /// State of the open connections.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.with(|host| host.worker.as_ref().map_or_else(Vec::new, |worker| worker.list(100).1))
    }

    /// Lets time pass until a metric passes.
    #[track_caller]
    pub fn wait_for_metric(&self, name: &str, passes: impl Fn(u64) -> bool) {
        self.lab.run_until(|world| passes(world.hosts[self.host].metric(name)));
    }

    /// Asks the server to end, as SIGTERM does.
    pub fn drain(&self) {
        self.with_worker(|worker| worker.drain(DrainReason::Ordered));
        self.lab.settle();
    }

    /// Asks the server to end at once, as SIGINT does.
    pub fn stop(&self) {
        self.with_worker(Worker::stop);
        self.lab.settle();
    }

    /// The server is no more, and nobody hears of it.
    pub fn kill(&self) {
        self.with(|host| host.worker = None);
    }

    /// Whether the server has ended.
    pub fn is_over(&self) -> bool {
        self.with(|host| host.worker.is_none())
    }

    /// Waits for the server's end, which it was asked for.
    #[track_caller]
    pub fn end(&self) {
        self.lab.run_until(|world| world.hosts[self.host].worker.is_none());
    }

    /// Receives datagrams of one address in one turn.
    pub fn receive_at_once(&self, from: SocketAddr, datagrams: Vec<Vec<u8>>) {
        self.with(|host| {
            let info = RecvInfo { from, to: host.address };
            let arrival = Arrival { info, ecn: Codepoint::NotEct };
            for mut datagram in datagrams {
                host.on_datagram(arrival, &mut datagram);
            }
        });
        self.lab.settle();
    }

    /// Reads these arguments as a reload does.
    pub fn reload(&self, args: &[&str]) {
        let config = parse(&self.lab.file(""), args);
        let secrets = self.with(|host| host.secrets.clone());
        let settings = worker_config(&config, &secrets);
        self.with_worker(|worker| worker.reload(settings));
        self.lab.settle();
    }

    /// How many bytes the socket takes from now on, until it is asked again; all without.
    pub fn limit_socket(&self, room: Option<usize>) {
        self.with(|host| host.sink.room.set(room));
        if room.is_none() {
            self.with(|host| {
                let ServerState { worker, sink, .. } = host;
                worker.iter_mut().for_each(|worker| worker.on_writable(sink));
                host.touched = true;
            });
            self.lab.settle();
        }
    }

    /// Lines of the access log so far.
    pub fn log_lines(&self) -> Vec<String> {
        self.with(|host| {
            host.gather_log();
            host.log.clone()
        })
    }

    /// The same, of a log in JSON.
    pub fn log(&self) -> Vec<Value> {
        self.log_lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl DatagramPeer {
    /// Sends a datagram.
    pub fn send(&self, server: &Server, datagram: Vec<u8>) {
        self.lab.send_from(self.endpoint, server.address(), datagram);
    }

    /// What has come so far.
    pub fn received(&self) -> Vec<Vec<u8>> {
        match &self.lab.0.borrow().endpoints[self.endpoint].party {
            Party::Peer(received) => received.clone(),
            Party::Client(_) => unreachable!(),
        }
    }

    /// Datagrams that went out, and those that the server has sent.
    pub fn datagrams(&self) -> (Vec<Offered>, Vec<Offered>) {
        self.lab.datagrams(self.endpoint)
    }
}

/// Saved parameters.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    pub cwnd_bytes: u64,
    pub rtt_ms: u64,

    /// From now on.
    pub lives: Duration,
}

impl Saved {
    /// Parameters that are good for an hour.
    pub const fn new(cwnd_bytes: u64, rtt_ms: u64) -> Self {
        Self { cwnd_bytes, rtt_ms, lives: Duration::from_secs(3600) }
    }
}

fn endpoint_of(client: IpAddr) -> RemoteEndpoint {
    RemoteEndpoint::new(&SERVER.to_string(), client, PrefixLengths::default())
}

/// Everything of one simulation.
pub struct World {
    hosts: Vec<ServerState>,
    endpoints: Vec<Endpoint>,

    /// Datagrams on their way, by when they arrive and in which order they were sent.
    arrivals: BTreeMap<(Duration, u64), (RecvInfo, Datagram)>,
    serial_next: u64,

    store_handle: StoreHandle,
    store: StoreService,
    start: Instant,
    seed: u64,
    dir: tempfile::TempDir,

    /// Dropped last: the others may look at the clock.
    simulation: Simulation,
}

/// What is at the other end of a path.
struct Endpoint {
    /// The last is the one that it has: a NAT has forgotten those before.
    addresses: Vec<SocketAddr>,
    up: Lane,
    down: Lane,
    party: Party,
}

enum Party {
    Client(Box<ClientState>),

    /// What it has received.
    Peer(Vec<Vec<u8>>),
}

impl World {
    fn now(&self) -> Duration {
        self.simulation.elapsed()
    }

    pub fn client(&self, endpoint: usize) -> &ClientState {
        match &self.endpoints[endpoint].party {
            Party::Client(client) => client,
            Party::Peer(_) => unreachable!(),
        }
    }

    fn add(&mut self, address: SocketAddr, path: &Path, party: Party) -> usize {
        let (up, down) = path.lanes(self.seed.wrapping_add(self.endpoints.len() as u64));
        self.endpoints.push(Endpoint { addresses: vec![address], up, down, party });
        self.endpoints.len() - 1
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Duration> {
        let arrival = self.arrivals.first_key_value().map(|((at, _), _)| *at);
        let workers = self.hosts.iter().filter_map(|host| host.worker.as_ref()?.deadline());
        let clients = self.endpoints.iter().filter_map(|endpoint| match &endpoint.party {
            Party::Client(client) => client.deadline(),
            Party::Peer(_) => None,
        });
        let timers = workers.chain(clients).map(|at| at.saturating_duration_since(self.start));
        timers.chain(arrival).min()
    }

    fn settle(&mut self) {
        let mut turns = 0;
        while self.turn() {
            turns += 1;
            assert!(turns < TURNS_AT_ONCE_MAX, "time stands still at {:?}", self.now());
        }
    }

    /// Gives everybody a turn. Returns whether something happened.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > self.simulation.elapsed() {
                break;
            }
            let (info, datagram) = entry.remove();
            self.deliver(info, datagram);
            busy = true;
        }
        for host in 0..self.hosts.len() {
            busy |= self.hosts[host].turn();
            for (route, datagram) in self.hosts[host].sink.sent.take() {
                self.send_down(route, datagram);
            }
        }
        let now = clock::now();
        for endpoint in 0..self.endpoints.len() {
            let Party::Client(client) = &mut self.endpoints[endpoint].party else { continue };
            if !client.touched && client.deadline().is_none_or(|at| at > now) {
                continue;
            }
            busy = true;
            let server = client.server();
            for datagram in client.turn(now) {
                self.send_up(endpoint, server, datagram);
            }
        }
        busy
    }

    fn deliver(&mut self, info: RecvInfo, mut datagram: Datagram) {
        let to = info.to;
        if let Some(host) = self.hosts.iter_mut().rev().find(|host| host.address == to) {
            host.on_datagram(Arrival { info, ecn: datagram.ecn }, &mut datagram.bytes);
        } else if let Some(endpoint) = endpoint_at(&mut self.endpoints, to) {
            match &mut endpoint.party {
                Party::Client(client) => client.on_datagram(datagram),
                Party::Peer(received) => received.push(datagram.bytes),
            }
        }
    }

    fn send_up(&mut self, endpoint: usize, to: SocketAddr, datagram: Datagram) {
        let now = self.now();
        let Endpoint { addresses, up, .. } = &mut self.endpoints[endpoint];
        let from = *addresses.last().unwrap();
        if let Some((at, ecn)) = up.carry(now, &datagram, from.ip()) {
            self.arrive(at, RecvInfo { from, to }, Datagram { ecn, ..datagram });
        }
    }

    fn send_down(&mut self, route: AddressPair, datagram: Datagram) {
        let now = self.now();
        let AddressPair { to, from } = route;
        let Some(endpoint) = endpoint_at(&mut self.endpoints, to) else { return };
        if let Some((at, ecn)) = endpoint.down.carry(now, &datagram, to.ip()) {
            self.arrive(at, RecvInfo { from, to }, Datagram { ecn, ..datagram });
        }
    }

    fn arrive(&mut self, at: Duration, info: RecvInfo, datagram: Datagram) {
        self.arrivals.insert((at, self.serial_next), (info, datagram));
        self.serial_next += 1;
    }
}

fn endpoint_at(endpoints: &mut [Endpoint], address: SocketAddr) -> Option<&mut Endpoint> {
    endpoints.iter_mut().find(|endpoint| endpoint.addresses.last() == Some(&address))
}

/// A server: a worker, and what the event loop does for it.
struct ServerState {
    address: SocketAddr,

    /// None once it has ended.
    worker: Option<Worker>,
    sink: MemorySink,
    reads: Receiver<Job>,
    metrics: Metrics,
    secrets: SharedSecrets,
    access_log: Option<AccessLog>,
    log: Vec<String>,

    /// Something has come for it since its last turn.
    touched: bool,
}

/// What a worker has sent.
#[derive(Default)]
struct MemorySink {
    sent: RefCell<Vec<(AddressPair, Datagram)>>,

    /// Bytes that it still takes; all without.
    room: Cell<Option<usize>>,
}

impl PacketSink for MemorySink {
    fn send(
        &self,
        route: AddressPair,
        ecn: Codepoint,
        contents: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()> {
        if let Some(room) = self.room.get() {
            let left = room.checked_sub(contents.len());
            self.room.set(Some(left.ok_or(io::ErrorKind::WouldBlock)?));
        }
        let datagrams = contents
            .chunks(segment_bytes)
            .map(|bytes| (route, Datagram { bytes: bytes.to_vec(), ecn }));
        self.sent.borrow_mut().extend(datagrams);
        Ok(())
    }

    fn packets_per_send_max(&self) -> usize {
        PACKETS_PER_SEND
    }
}

impl ServerState {
    fn new(address: SocketAddr, args: &[&str], world: &World) -> Self {
        let config = parse(world.dir.path(), args);
        let cli = &config.flags;
        let metrics = Metrics::new(cli.resumes().then(|| world.store.monitor()));
        metrics.qlogs.set_limits(cli.qlog_bytes_max, cli.qlog_files_max);
        let secrets = secrets::open(cli.secrets.as_deref()).unwrap();
        let (read_queue, reads) = ReadQueue::new();
        let access_log =
            cli.access_log.as_ref().map(|_| AccessLog::in_memory(cli.access_log_format));
        let wake: path_store::Wake = Arc::new(|| ());
        let store = cli.resumes().then_some(&world.store);
        let services = WorkerServices {
            name: 0,
            mask_key: WorkerMaskKey::random().unwrap(),
            read_pool: read_queue.handle(Arc::clone(&wake)),
            store: StoreClient::new(store, None, wake, Claimants::default(), LastStates::default()),
            nodes: None,
            metrics: metrics.of_worker(0),
            access_log: access_log.clone(),
            limiter: ConnectionLimiter::new(PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 }),
            notices: Notices::new(|| ()),
            room_requests: RoomRequests::for_workers([|| ()]).remove(0),
            budgets: metrics.budgets.of_worker(|| ()),
            files: FileLimiter::default(),
            qlogs: metrics.qlogs.clone(),
            shutdown_log: ShutdownLog::default(),
        };
        let worker =
            Worker::new(Origin::default(), cli, worker_config(&config, &secrets), services);
        Self {
            address,
            worker: Some(worker),
            sink: MemorySink::default(),
            reads,
            metrics,
            secrets,
            access_log,
            log: Vec::new(),
            touched: false,
        }
    }

    fn on_datagram(&mut self, arrival: Arrival, datagram: &mut [u8]) {
        if let Some(worker) = &mut self.worker {
            let destination = worker.destination(datagram);
            worker.on_datagram(&self.sink, destination, arrival, datagram);
            self.touched = true;
        }
    }

    /// One turn of the event loop, if there is something to do.
    fn turn(&mut self) -> bool {
        let Some(worker) = &mut self.worker else { return false };
        let is_due = worker.deadline().is_some_and(|at| at <= clock::now());
        if !std::mem::take(&mut self.touched) && !is_due && !worker.has_work() {
            return false;
        }
        worker.on_store_replies();
        worker.serve(&self.sink);
        for job in self.reads.try_iter() {
            job.run();
            self.touched = true;
        }
        worker.on_chunks_read();
        if worker.is_shut_down() {
            self.worker.take().into_iter().for_each(Worker::end);
        }
        true
    }

    fn metric(&self, name: &str) -> u64 {
        let page = self.metrics.page();
        let samples = page.lines().filter(|line| line.starts_with(name));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn gather_log(&mut self) {
        let Some(log) = &self.access_log else { return };
        self.log.extend(log.take_lines());
    }
}

fn start_store() -> StoreService {
    let options =
        ServiceOptions { sweep_interval: Duration::from_secs(86_400), ..Default::default() };
    StoreService::start(Box::new(MemoryStore::new(10_000)), options).unwrap()
}

/// What a server reads of these arguments.
fn parse(dir: &std::path::Path, args: &[&str]) -> Config {
    let folder = dir.to_str().unwrap().trim_end_matches('/');
    let listen = SocketAddr::new(SERVER, 443).to_string();
    let mut all = vec!["edge-server".to_owned(), "--listen".to_owned(), listen];
    if !args.contains(&"--root") {
        all.extend(["--root".to_owned(), format!("{folder}/www")]);
    }
    all.extend(args.iter().map(|arg| arg.replace("DIR", folder)));
    config::parse(&all).unwrap()
}

fn worker_config(config: &Config, secrets: &SharedSecrets) -> WorkerConfig {
    if let Some(dir) = &config.flags.qlog_dir {
        fs::create_dir_all(dir).unwrap();
    }
    let virtual_hosts = VirtualHosts::open(config).unwrap();
    let certificates = Certificates::read(config).unwrap();
    let controllers = HostControllers::new(config).unwrap();
    WorkerConfig::new(
        &config.flags,
        &config.flags.listen[0],
        &virtual_hosts,
        &certificates,
        &controllers,
        secrets,
        &QuicLbSet::read(config).unwrap(),
    )
    .unwrap()
}
