//! Servers of a load, one after the other: started, reloaded, killed, drained and taken over.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::catalogue::Catalogue;
use super::client::LoadContext;
use super::judge::Outage;
use super::judge::Span;
use super::origin::OriginRequests;
use super::wall_us;
use crate::support::process::server_command;
use crate::support::process::Running;

/// How long a server may drain: thousands of clients finish their requests first.
const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 12_000;

/// Time in which the origin ends what a server has asked for that is gone.
const FORGETTING_TIME: Duration = Duration::from_secs(1);

/// What happens to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadEvent {
    Reload,

    /// SIGKILL, and another server.
    Kill,

    /// Another server takes over. The old one drains by itself.
    TakeOver,

    /// The same, and the old one gets SIGTERM.
    TakeOverAndDrain,

    /// SIGTERM, and another server once the old one has ended.
    Restart,
}

/// Sizes of the cache, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct CacheSizes {
    pub memory: u64,
    pub disk: u64,
}

/// Servers with the same folders, address and origin.
pub struct LoadLine {
    dir: tempfile::TempDir,
    address: SocketAddr,
    origin: SocketAddr,
    sizes: CacheSizes,
    server: Option<Running>,

    /// Number of configurations so far.
    written: u64,
}

impl LoadLine {
    /// Starts the first server.
    pub fn start(catalogue: &Catalogue, origin: SocketAddr, sizes: CacheSizes) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("www");
        fs::create_dir(&root).unwrap();
        for file in catalogue.files() {
            fs::write(root.join(&file.path[1..]), file.body(0)).unwrap();
        }
        fs::write(dir.path().join("secrets"), "5e".repeat(32)).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let mut line = Self { dir, address, origin, sizes, server: None, written: 0 };
        line.write_config();
        let mut server = Running::start(&mut line.command());
        line.address = server.address();
        line.server = Some(server);
        line
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the folder of the cache.
    pub fn cache_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("cache")
    }

    /// Returns the resident memory of the server, in KiB.
    pub fn memory_kib(&self) -> usize {
        self.server.as_ref().unwrap().memory_kib("VmRSS")
    }

    /// Writes a configuration whose rule for the origin is not that of the one before.
    fn write_config(&mut self) {
        self.written += 1;
        let Self { origin, written, .. } = self;
        let toml = format!(
            "[[host]]\n[[host.origin]]\npath = '/app/**'\nurl = 'http://{origin}'\nrequests-max = 10000\n\
             header-timeout = {}\nbody-timeout = 30\ncache = true\n",
            30 + *written
        );
        fs::write(self.dir.path().join("edge.toml"), toml).unwrap();
    }

    fn command(&self) -> Command {
        let path = |name| Path::join(self.dir.path(), name).to_str().unwrap().to_owned();
        let (memory, disk) = (self.sizes.memory.to_string(), self.sizes.disk.to_string());
        let listen = self.address.to_string();
        let mut command = server_command(&["--listen", &listen, "--tcp", "on", "--workers", "2"]);
        command.args(["--root", &path("www"), "--config", &path("edge.toml")]);
        command.args(["--secrets", &path("secrets"), "--takeover", &path("takeover.sock")]);
        command.args(["--cache-dir", &path("cache"), "--cache-memory-max", &memory]);
        command.args(["--cache-disk-max", &disk, "--drain", "1000", "--handshake-timeout", "60"]);
        command
    }

    /// Has something happen. Returns once it is over.
    pub fn apply(&mut self, event: LoadEvent, context: &LoadContext, origin: &Arc<OriginRequests>) {
        let begin = |server: Option<Outage>| (server, wall_us());
        let number = &context.server_number;
        let end = |(outage, from): (Option<Outage>, u64)| {
            let span = Span { from, to: wall_us() };
            outage.iter().for_each(|outage| context.judge.add_outage(*outage, span));
            number.fetch_add(1, Ordering::SeqCst);
        };
        match event {
            LoadEvent::Reload => {
                self.write_config();
                let server = self.server.as_mut().unwrap();
                let before = server.count("reloaded");
                server.ask_to_reload();
                server.wait_for_another("reloaded", before);
            }
            LoadEvent::Kill => {
                number.fetch_add(1, Ordering::SeqCst);
                origin.servers.fetch_add(1, Ordering::SeqCst);
                let begun = begin(Some(Outage::Kill));
                self.server.take().unwrap().kill();
                self.start_next();
                end(begun);
                forget_one(origin);
            }
            LoadEvent::Restart => {
                number.fetch_add(1, Ordering::SeqCst);
                let begun = begin(Some(Outage::Restart));
                let mut old = self.server.take().unwrap();
                old.ask_to_drain();
                await_end(&mut old);
                self.start_next();
                end(begun);
            }
            LoadEvent::TakeOver | LoadEvent::TakeOverAndDrain => {
                number.fetch_add(1, Ordering::SeqCst);
                origin.servers.fetch_add(1, Ordering::SeqCst);
                let begun = begin(None);
                let mut old = self.server.take().unwrap();
                let mut new = Running::start(&mut self.command());
                new.wait_for("took over");
                self.server = Some(new);
                end(begun);
                if event == LoadEvent::TakeOverAndDrain {
                    old.ask_to_drain();
                }
                await_end(&mut old);
                forget_one(origin);
            }
        }
    }

    fn start_next(&mut self) {
        let mut server = Running::start(&mut self.command());
        assert_eq!(server.address(), self.address);
        self.server = Some(server);
    }

    /// Ends the last server.
    pub fn stop(&mut self) {
        assert!(self.server.take().unwrap().stop().success());
    }
}

/// Counts a server less that may send requests, once the origin has ended those that are left.
fn forget_one(origin: &OriginRequests) {
    thread::sleep(FORGETTING_TIME);
    origin.servers.fetch_sub(1, Ordering::SeqCst);
}

/// Waits until a server has drained.
fn await_end(server: &mut Running) {
    for _ in 0..NAPS_MAX {
        if server.has_ended() {
            break;
        }
        thread::sleep(NAP);
    }
    assert!(server.end().0.success());
}
