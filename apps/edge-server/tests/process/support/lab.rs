//! Test setup: store with saved parameters, server, path and its qlog.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use path_store::Backend;
use path_store::Role;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

use super::process::serve;
use super::process::sibling;
use super::process::Running;

#[path = "phases.rs"]
mod phases;

use self::phases::phases;
pub use self::phases::PhaseChange;

/// Saved parameters that a test writes into the store.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    pub saved_cwnd_bytes: u64,
    pub saved_rtt_ms: u64,

    /// From now on.
    pub lives: Duration,
}

impl Planted {
    /// Returns parameters that expire in an hour.
    pub const fn new(saved_cwnd_bytes: u64, saved_rtt_ms: u64) -> Self {
        Self { saved_cwnd_bytes, saved_rtt_ms, lives: Duration::from_secs(3600) }
    }
}

/// Where one test keeps its files. All servers in it share a store.
pub struct StoreFolder {
    dir: tempfile::TempDir,
}

impl StoreFolder {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Saves parameters for the subnet of clients on 127.0.0.1.
    pub fn plant(&self, planted: Planted) {
        let now = quiche::clock::wall_now();
        let state = PathState {
            saved_cwnd: planted.saved_cwnd_bytes,
            saved_rtt: Duration::from_millis(planted.saved_rtt_ms),
            observed: now,
            expires: now + planted.lives,
            limited: false,
            validated: false,
        };
        let endpoint = RemoteEndpoint::new("127.0.0.1", [127, 0, 0, 1].into(), Default::default());
        self.open_store().record(&endpoint, &state).unwrap();
    }

    /// A server that keeps its qlogs in the folder `run`.
    pub fn serve(&self, run: &str, more: &[&str]) -> (Running, SocketAddr) {
        let (store, qlogs) = (self.store(), self.dir.path().join(run));
        let mut args = vec!["--speedtest", "--store", store.to_str().unwrap()];
        args.extend(["--qlog-dir", qlogs.to_str().unwrap()]);
        args.extend(more);
        serve(self.dir.path(), &args)
    }

    /// A server's life for one download over a path. Returns what Careful
    /// Resume did.
    pub fn download(&self, run: &str, path: &str, bytes: u64) -> Vec<PhaseChange> {
        self.download_from(run, &[], path, bytes)
    }

    /// The same, from a server with these options.
    pub fn download_from(
        &self,
        run: &str,
        server: &[&str],
        path: &str,
        bytes: u64,
    ) -> Vec<PhaseChange> {
        let (mut server, address) = self.serve(run, server);
        let mut emulator = emulate(address, path);
        let (status, said) = fetch(emulator.address(), bytes).end();
        assert!(status.success(), "{said:?}");
        assert!(server.stop().success());
        assert!(emulator.stop().success());
        self.phases(run)
    }

    /// What Careful Resume did in the only connection of a run that is over.
    pub fn phases(&self, run: &str) -> Vec<PhaseChange> {
        phases(&self.qlog(run))
    }

    /// The qlog of that connection.
    pub fn qlog(&self, run: &str) -> String {
        let mut qlogs = fs::read_dir(self.dir.path().join(run)).unwrap();
        let qlog = qlogs.next().expect("a qlog file").unwrap().path();
        assert!(qlogs.next().is_none(), "one connection, one file");
        fs::read_to_string(qlog).unwrap()
    }

    /// A file beside the store.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.file("paths.db")
    }

    fn open_store(&self) -> Box<dyn Backend> {
        path_store::open(self.store().to_str().unwrap(), Role::Server, 1000).unwrap()
    }
}

/// A path to `server`, as `link-emulator`'s options tell it.
pub fn emulate(server: SocketAddr, path: &str) -> Running {
    let to = server.to_string();
    let mut command = Command::new(sibling("link-emulator"));
    command.args(["--listen", "127.0.0.1:0", "--to", &to]).args(path.split_whitespace());
    Running::start(&mut command)
}

/// Starts the download of so many bytes.
pub fn fetch(server: SocketAddr, bytes: u64) -> Running {
    let url = format!("https://{server}/bytes/{bytes}");
    Running::start(Command::new(sibling("edge-client")).args([&url, "--insecure"]))
}
