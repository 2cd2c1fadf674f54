//! File server over HTTP/3, with Careful Resume (RFC 9959), and over HTTP/1.1 and HTTP/2.

mod acme;
mod admission;
mod config;
mod connection;
mod content;
mod h3;
mod http;
mod net;
mod quic;
mod resume;
mod server;
mod tcp;
mod telemetry;
mod worker;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use clap::Command;
use clap::CommandFactory;
use command_line::generated;
use command_line::OnOff;
use command_line::EXIT_FAILED;
use command_line::EXIT_USAGE;
use log::warn;
use path_store::StoreService;
use quiche::path_state::PrefixLengths;
use rustix::process::getrlimit;
use rustix::process::setrlimit;
use rustix::process::Resource;
use rustix::process::Rlimit;

use crate::acme::AcmeHandle;
use crate::config::Cli;
use crate::config::Config;
use crate::config::ConfigError;
use crate::config::LogFormat;
use crate::config::PROGRAM;
use crate::net::node_socket::NodeSocket;
use crate::resume::store;
use crate::server::admin_client;
use crate::server::check;
use crate::server::control::Control;
use crate::server::ech_keys_command;
use crate::server::probe;
use crate::server::reload::Reloader;
use crate::server::resources::Resources;
use crate::server::signals;
use crate::server::successor::SuccessorCommand;
use crate::server::supervisor::Supervisor;
use crate::server::takeover::OldProcess;
use crate::server::takeover::TakeoverListener;
use crate::server::takeover::TakeoverState;
use crate::server::tcp_sockets;
use crate::server::SharedServices;
use crate::server::WorkerSockets;
use crate::server::Workers;
use crate::tcp::ListenerSocket;
use crate::tcp::TcpResources;
use crate::tcp::TcpServer;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::exchange::wait_for_responses;
use crate::telemetry::admin::socket;
use crate::telemetry::admin::socket::AdminSocket;
use crate::telemetry::admin::socket::AdminSocketListener;
use crate::telemetry::admin::socket::SecondName;
use crate::telemetry::admin::AdminListener;
use crate::telemetry::admin::AdminServer;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::process_log;
use crate::telemetry::process_log::notice;
use crate::telemetry::qlog;
use crate::telemetry::shutdown_log::ShutdownLog;
use crate::telemetry::standard_error::StandardError;
use crate::worker::eviction_log;
use crate::worker::nodes::NodeReceiver;

/// Timeout for writing the last observations to the store.
const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for telling the admin client that the server stops.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|command| command == "admin") {
        return admin_client::main(&args[1..]);
    }
    if args.get(1).is_some_and(|command| command == "ech-keys") {
        return ech_keys_command::main(&args[1..]);
    }
    if args.get(1).is_some_and(|command| command == "probe") {
        return probe::main(&args[1..]);
    }
    if let Some(stop) = generated(&args, complete_command) {
        return PROGRAM.stop(&stop);
    }
    let config = match config::parse(&args) {
        Ok(config) => Arc::new(config),
        Err(stop) => return PROGRAM.stop(&stop),
    };
    process_log::start(config.flags.log_format);
    raise_descriptor_limit();

    let result = match config.flags.check {
        true => check::check(&config).map(|()| PROGRAM.print("ok\n")),
        false => run(args, &config),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match config.flags.log_format {
                LogFormat::Json => log::error!(target: PROGRAM.0, "{error:#}"),
                LogFormat::Text => PROGRAM.say(format_args!("{error:#}")),
            }
            ExitCode::from(if error.is::<ConfigError>() { EXIT_USAGE } else { EXIT_FAILED })
        }
    }
}

/// Returns the command line with the commands that are not the server.
fn complete_command() -> Command {
    let server = Cli::command().args_conflicts_with_subcommands(true);
    server.subcommands([
        admin_client::AdminCli::command().name("admin"),
        ech_keys_command::EchKeysCli::command().name("ech-keys"),
        probe::ProbeCli::command().name("probe"),
    ])
}

/// Raises the limit of open files as far as permitted: the default of most systems is meant for
/// programs that use select(2).
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        warn!("cannot raise the limit of open files: {e}");
    }
}

/// Prints notices about a configuration that works only in part, or that may not be meant so.
fn print_notices(config: &Config) {
    config.warn_of_paths();
    if !config.has_default_certificate() {
        notice!(
            "no --cert and --key: using a self-signed certificate, which clients \
             reject unless they skip verification"
        );
    }
    if config.flags.resume == OnOff::On && !config.flags.resumes() {
        notice!("this quiche has no Careful Resume: every connection begins in slow start");
    }
}

/// Sockets of clients, commands and takeovers.
struct EndPoints {
    sockets: WorkerSockets,
    tcp_sockets: Vec<ListenerSocket>,

    /// Between servers that forward to each other.
    node_socket: Option<Arc<NodeSocket>>,

    /// What they are taken over from.
    old_process: Option<OldProcess>,

    admin_socket: Option<AdminSocketListener>,
    takeover_listener: Option<TakeoverListener>,
}

impl EndPoints {
    fn open(config: &Config) -> anyhow::Result<Self> {
        let Cli { admin, takeover, .. } = &config.flags;
        check::check_sockets(config)?;
        let (sockets, tcp_sockets, mut old_process) = tcp_sockets::open_with_udp(config)?;
        let node_socket = open_node_socket(config, old_process.as_mut())?;
        // The old process gives up its admin socket with the rest.
        if let Some(path) = admin.as_deref().filter(|_| old_process.is_none()) {
            socket::check_unanswered(path).map_err(|e| config.located("admin", e))?;
        }
        let admin_socket = admin.as_deref().map(AdminSocketListener::build).transpose();
        let admin_socket = admin_socket.map_err(|e| config.unusable("admin", e))?;
        let takeover_listener = takeover.as_deref().map(TakeoverListener::build).transpose();
        let takeover_listener = takeover_listener.map_err(|e| config.unusable("takeover", e))?;
        Ok(Self { sockets, tcp_sockets, node_socket, old_process, admin_socket, takeover_listener })
    }
}

/// Opens the socket between servers, if the configuration has one: that of an old process, or a new one.
fn open_node_socket(
    config: &Config,
    old_process: Option<&mut OldProcess>,
) -> anyhow::Result<Option<Arc<NodeSocket>>> {
    let Some(address) = config.flags.quic_lb_listen else { return Ok(None) };
    let of_old_process = old_process.map(OldProcess::receive_node_socket).transpose()?;
    let opened = NodeSocket::open(address, of_old_process.flatten());
    opened.map(|socket| Some(Arc::new(socket))).map_err(|e| config.located("quic-lb-listen", e))
}

/// Tells where servers and clients reach this one.
fn announce(addresses: &[SocketAddr], node_socket: Option<&NodeSocket>) {
    if let Some(address) = node_socket.and_then(NodeSocket::local_addr) {
        notice!("listening for packets of other servers at {address}");
    }
    addresses.iter().for_each(|address| notice!("listening on {address}"));
}

fn serve_pages(admin: Option<&AdminListener>) -> anyhow::Result<()> {
    let Some(admin) = admin else { return Ok(()) };
    admin.serve()?;
    notice!("metrics at http://{}/metrics", admin.address);
    Ok(())
}

/// Returns the TCP side of these sockets, if there are any.
fn tcp_server(
    cli: &Cli,
    sockets: Vec<ListenerSocket>,
    resources: &Resources,
    services: &SharedServices<'_>,
    shutdown_log: ShutdownLog,
) -> anyhow::Result<Option<TcpServer>> {
    if sockets.is_empty() {
        return Ok(None);
    }
    let shared = TcpResources {
        prefix_lengths: PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 },
        metrics: services.metrics.tcp.clone(),
        access_log: services.access_log.cloned(),
        shutdown_log,
    };
    shared.metrics.start();
    let (config, drain) = (resources.tcp_config(cli)?, Duration::from_secs(cli.drain.into()));
    let server = TcpServer::new(sockets, cli.workers(), config, drain, shared);
    server.map(Some).context("cannot start the threads of --tcp")
}

/// Runs the server until a signal stops it. `config` was parsed from `args`.
fn run(args: Vec<OsString>, config: &Arc<Config>) -> anyhow::Result<()> {
    let cli = &config.flags;
    let started = quiche::clock::wall_now();
    let stderr = StandardError::detach().context("cannot detach standard error")?;
    let signals = signals::install().context("cannot install signal handlers")?;
    if let Some(dir) = &cli.qlog_dir {
        qlog::file::make_dir(dir).map_err(|e| config.unusable("qlog-dir", e))?;
    }
    let store = cli.resumes().then(|| store::open(cli)).transpose();
    let store = store.map_err(|e| config.unusable("store", e))?;
    let metrics = Metrics::new(store.as_ref().map(StoreService::monitor));
    metrics.qlogs.set_limits(cli.qlog_bytes_max, cli.qlog_files_max);
    if let Some(dir) = &cli.qlog_dir {
        metrics.qlogs.watch(dir);
    }
    let resources = Resources::read(config)?;
    resources.virtual_hosts.start_compression()?;
    resources.virtual_hosts.open_cache_dir(config)?;
    resources.virtual_hosts.warn_of_missing_files(config);
    resources.watch(config, &metrics.configuration);
    let health = Health::default();
    let admin_server = AdminServer { metrics: metrics.clone(), health: health.clone() };
    let admin = cli.metrics.map(|at| admin_server.clone().bind(at, cli.takeover.is_some()));
    let admin = admin.transpose().map_err(|e| config.located("metrics", e))?;
    // During a takeover, the old process answers until this one is ready.
    if cli.takeover.is_none() {
        serve_pages(admin.as_ref())?;
    }
    let access_log = cli.access_log.as_deref().map(|path| {
        AccessLog::start(path, cli.access_log_format, metrics.access_log_dropped.clone())
    });
    let access_log = access_log.transpose().map_err(|e| config.unusable("access-log", e))?;
    let EndPoints {
        sockets,
        tcp_sockets,
        node_socket,
        old_process,
        admin_socket,
        takeover_listener,
    } = EndPoints::open(config)?;
    if old_process.is_none() {
        resources.virtual_hosts.warn_of_shared_cache_dir(config);
    }
    let services = SharedServices {
        store: store.as_ref(),
        metrics: &metrics,
        health: &health,
        access_log: access_log.as_ref(),
        node_socket,
    };
    let workers = Workers::new(config, &resources, &services, sockets)?;

    let shutdown_log = workers.shutdown_log.clone();
    let mut tcp = tcp_server(cli, tcp_sockets, &resources, &services, shutdown_log)?;

    print_notices(config);
    let commands = Arc::new(workers.commands);
    let acme = AcmeHandle::new(config, metrics.acme.clone());
    let supervisor = Supervisor::of_environment();
    let successor =
        cli.takeover.is_some().then(|| SuccessorCommand::new(&args, stderr.original()?));
    let successor = successor.transpose().context("cannot prepare restarts for --takeover")?;
    let control = Arc::new(Control {
        commands: Arc::clone(&commands),
        tcp: tcp.as_ref().map(TcpServer::handle),
        acme: acme.clone(),
        health: health.clone(),
        access_log: access_log.clone(),
        generation: workers.generation,
        drain_time: Duration::from_secs(cli.drain.into()),
        supervisor: supervisor.clone(),
        successor: successor.map(Mutex::new),
        predecessor: old_process.as_ref().and_then(OldProcess::parent),
        reloader: Reloader::new(
            args,
            Arc::clone(config),
            resources,
            metrics.configuration.clone(),
            workers.listeners,
        )
        .into(),
    });
    signals.follow(Arc::clone(&control)).context("cannot start the signal thread")?;
    control.watch_certificates().context("cannot start the thread that watches certificates")?;
    if let Some(old_process) = old_process {
        old_process.request_handover()?;
        notice!("took over");
    }
    let nodes = workers.node_receiver.map(NodeReceiver::start).transpose()?;
    if let Some((tcp, event_loop)) = tcp.as_mut().zip(workers.event_loops.first()) {
        let mut part = event_loop.join_shutdown_barrier();
        tcp.start(move |is_ready| {
            let _ = if is_ready { part.is_complete() } else { part.withdraw() };
        });
    }
    let of_acme = Arc::clone(&control);
    let started_acme = acme.start(move || of_acme.reload_acme_certificates());
    started_acme.context("cannot start the thread of ACME")?;
    if cli.takeover.is_some() {
        serve_pages(admin.as_ref())?;
    }
    if let Some(admin_socket) = admin_socket {
        admin_socket.serve(AdminSocket { server: admin_server, controls: control, started })?;
    }
    let second_name = cli.admin.as_deref().map(|path| SecondName::new(path, workers.generation));
    let second_name = second_name.map(Arc::new);
    if let Some(takeover_listener) = takeover_listener {
        let Workers { generation, mask_key, descriptors, .. } = workers;
        let takeover_state = TakeoverState {
            generation,
            mask_key,
            workers: descriptors,
            tcp: tcp.as_ref().map(TcpServer::handle),
            nodes,
            acme,
            supervisor: supervisor.clone(),
            commands,
            health: health.clone(),
            status: admin,
            admin: second_name.clone(),
        };
        takeover_listener.wait(takeover_state).context("cannot wait for the next process")?;
    }
    announce(&workers.addresses, services.node_socket.as_deref());
    supervisor.start_watchdog(health).context("cannot start the thread of the watchdog")?;
    supervisor.ready();
    let served = server::run(workers.event_loops);
    tcp.into_iter().for_each(TcpServer::wait);
    eviction_log::log_rest(None);
    served?;
    workers.shutdown_log.on_end();
    wait_for_responses(RESPONSE_TIMEOUT);
    second_name.iter().for_each(|name| name.remove());
    if access_log.is_some_and(|log| !log.close()) {
        warn!("the last lines of the access log were not written in time");
    }

    if store.is_some_and(|store| !store.close(STORE_CLOSE_TIMEOUT)) {
        bail!("the last observations were not stored in time; check the disk of {}", cli.store);
    }
    Ok(())
}
