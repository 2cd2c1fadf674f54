//! Servers behind an emulated GEO path: 50 Mbit/s, 600 ms, a buffer of one BDP.

#[path = "../../../tests/program/mod.rs"]
pub mod program;

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use program::Program;
use tempfile::TempDir;

const PATH: [&str; 6] = ["--rate", "50", "--rtt", "600", "--buffer", "3750000"];
/// Certificate and key of quiche's own examples.
pub const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples/cert.crt");
pub const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples/cert.key");

const FILE_BYTES: usize = 3_750_000;

/// A server with a file and a store, and the emulated path to it.
pub struct Service {
    pub server: Program,
    _emulator: Program,
    address: String,
    folder: TempDir,
}

impl Service {
    /// Starts the command that `server` returns for a folder to serve and a new store.
    pub fn start(server: impl FnOnce(&Path, &Path) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), body()).unwrap();
        let mut server = server(folder.path(), &folder.path().join("paths.db"));
        let server = Program::start(&mut server);
        let listening = server.wait_for("listening on ");
        let to = listening.split_whitespace().next().unwrap();
        let mut emulator = Command::new(tool("link-emulator"));
        emulator.args(PATH).args(["--listen", "127.0.0.1:0", "--to", to]);
        let emulator = Program::start(&mut emulator);
        let address = emulator.wait_for("listening on ");
        Self { server, _emulator: emulator, address, folder }
    }

    /// Downloads the file. Returns the client's line of JSON.
    pub fn download(&self) -> String {
        let received = self.folder.path().join("received");
        let mut client = Command::new(tool("edge-client"));
        let url = format!("https://{}/file", self.address);
        client.args([&url, "--insecure", "--json", "-o"]).arg(&received);
        let done = client.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        assert!(fs::read(received).unwrap() == body(), "another body");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

/// Returns the command of the server on tokio-quiche.
pub fn tokio_quiche_server(folder: &Path, store: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokio-quiche-server"));
    command.arg("127.0.0.1:0").arg(folder).arg(store).args([CERT, KEY]);
    command
}

/// Bytes without a pattern.
fn body() -> Vec<u8> {
    let mut random: u32 = 1;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    (0..FILE_BYTES).map(|_| next()).collect()
}

/// Returns a program of the repository's workspace, in the folder `TOOLS`.
pub fn tool(name: &str) -> PathBuf {
    let debug = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/debug").into();
    let path = PathBuf::from(std::env::var_os("TOOLS").unwrap_or_else(debug)).join(name);
    assert!(path.exists(), "{} is missing: run make test-tokio-quiche", path.display());
    path
}
