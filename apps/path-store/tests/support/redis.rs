//! Redis servers on free ports, with folders of their own, which end with the test.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use path_store::RedisOptions;
use path_store::RedisStore;
use path_store::RedisUrl;
use path_store::Role;
use rustix::process::Pid;
use rustix::process::Signal;

/// How often a server that is starting is asked, and how long apart.
const TRIES_MAX: u32 = 2000;
const NAP: Duration = Duration::from_millis(5);

/// A running server.
pub struct RedisServer {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
    options: Vec<String>,
    clock: Option<FrozenClock>,
}

/// A wall clock that only the test moves.
#[derive(Debug)]
struct FrozenClock {
    file: File,
    path: PathBuf,
    library: PathBuf,
}

impl RedisServer {
    /// Starts a server with additional options.
    pub fn start(options: &[&str]) -> Self {
        Self::start_with(options, None)
    }

    /// Starts a server whose wall clock stands still, at `wall` since 1970.
    pub fn start_frozen(options: &[&str], wall: Duration) -> Self {
        Self::start_with(options, Some(wall))
    }

    fn start_with(options: &[&str], wall: Option<Duration>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = wall.map(|wall| FrozenClock::new(folder.path(), wall));
        let options: Vec<String> = options.iter().map(|option| option.to_string()).collect();

        // Somebody else may take the port before the server does.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut child = launch(folder.path(), port, &options, clock.as_ref());
            if answers(port, &mut child) {
                return RedisServer { child, folder, port, options, clock };
            }
        }
        panic!("redis-server does not start; it said:\n{}", log(folder.path()));
    }

    /// Sets the wall clock.
    pub fn set_wall(&self, wall: Duration) {
        self.clock.as_ref().expect("a frozen clock").set(wall);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it: it loses everything.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port.
    pub fn restart(&mut self) {
        self.child = launch(self.folder.path(), self.port, &self.options, self.clock.as_ref());
        assert!(answers(self.port, &mut self.child), "{}", log(self.folder.path()));
    }

    /// Pauses it until [`resume()`](Self::resume): it accepts connections and does not answer.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Sends one command, in words.
    pub fn run<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection()?;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut connection)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(folder: &Path, port: u16, options: &[String], clock: Option<&FrozenClock>) -> Child {
    let log = folder.join("redis.log");
    let mut command = Command::new("redis-server");
    command
        .current_dir(folder)
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--port", &port.to_string(), "--logfile", log.to_str().unwrap()])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(clock) = clock {
        command.env("LD_PRELOAD", &clock.library).env("FROZEN_CLOCK", &clock.path);
    }

    command.spawn().unwrap_or_else(|error| {
        panic!("cannot run redis-server: {error}; `make setup` installs Debian's package of it")
    })
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("redis.log")).unwrap_or_default()
}

/// Waits until it accepts commands. Returns false if it has ended instead.
fn answers(port: u16, child: &mut Child) -> bool {
    for _ in 0..TRIES_MAX {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let answer = client.get_connection().and_then(|mut connection| {
            redis::cmd("INFO").arg("persistence").query::<String>(&mut connection)
        });
        match answer {
            Ok(info) if info.contains("loading:0") => return true,
            // It wants a password, and so it runs.
            Err(error) if error.code() == Some("NOAUTH") => return true,
            _ => (),
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(NAP);
    }

    false
}

impl FrozenClock {
    fn new(folder: &Path, wall: Duration) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/frozen_clock.c");
        let library = folder.join("frozen_clock.so");
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{} does not compile", source.display());

        let path = folder.join("clock");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let clock = FrozenClock { file, path, library };
        clock.set(wall);
        clock
    }

    fn set(&self, wall: Duration) {
        let us = i64::try_from(wall.as_micros()).unwrap();
        self.file.write_all_at(&us.to_ne_bytes(), 0).unwrap();
    }
}

/// Opens a store on that server.
pub fn open_redis(url: &str, options: RedisOptions) -> RedisStore {
    RedisStore::open(&RedisUrl::parse(url).unwrap().unwrap(), Role::Server, options).unwrap()
}

/// Starts a cluster of one server, which keeps all slots. A server that has just started
/// waits for two seconds of its wall clock before it believes in itself.
pub fn start_frozen_cluster(wall: Duration) -> RedisServer {
    let server = RedisServer::start_frozen(&["--cluster-enabled", "yes"], wall);
    server.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    server.set_wall(wall + Duration::from_secs(3));
    for _ in 0..TRIES_MAX {
        let info: String = server.run(&["CLUSTER", "INFO"]).unwrap();
        if info.contains("cluster_state:ok") {
            server.set_wall(wall);
            return server;
        }
        std::thread::sleep(NAP);
    }
    panic!("the cluster does not come up");
}
