//! Traces of one run, on demand: the qlog of every connection, and the queue at
//! the bottleneck over time.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use link::Backlog;
use quiche::QlogLevel;

/// Between two lines of `queue.csv`, unless packets are dropped.
const DEPTH_INTERVAL: Duration = Duration::from_millis(1);

/// Memory of a log's writer, in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// Returns the folder in `traces` of the run of a scenario of the file called `stem`.
pub fn folder_of(traces: &Path, stem: &str, scenario: &str, seed: u64) -> PathBuf {
    traces.join(stem).join(scenario).join(format!("seed-{seed}"))
}

/// A folder for the traces of one run: `server-N.sqlog` and `client-N.sqlog` of
/// the N-th flow, counted from 0, and `queue.csv`.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder unless it exists.
    ///
    /// # Errors
    ///
    /// It cannot be made; its name is in the message.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Logs what `connection` does from now on; `host` is client or server.
    pub(crate) fn log(
        &self,
        connection: &mut quiche::Connection,
        host: &str,
        flow: usize,
    ) -> anyhow::Result<()> {
        let name = format!("{host}-{flow}");
        let file = self.create(&format!("{name}.sqlog"))?;
        let description = format!("{host} of flow {flow}");
        connection.set_qlog_with_level(Box::new(file), name, description, QlogLevel::Extra);
        Ok(())
    }

    /// Creates the file for the queue.
    pub(crate) fn depths(&self) -> anyhow::Result<Depths> {
        Depths::new(Box::new(self.create("queue.csv")?)).context("cannot write queue.csv")
    }

    fn create(&self, name: &str) -> anyhow::Result<BufWriter<File>> {
        let path = self.0.join(name);
        let file = File::create(&path)
            .with_context(|| format!("cannot write the trace {}", path.display()))?;
        Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
    }
}

/// The queue at the bottleneck over time: a line each millisecond in which
/// packets come, with how many were dropped since the line before.
pub(crate) struct Depths {
    out: Box<dyn Write>,
    next: Duration,
    dropped: u64,
    failed: io::Result<()>,
}

impl Depths {
    fn new(mut out: Box<dyn Write>) -> io::Result<Self> {
        writeln!(out, "time_ms,packets,bytes,dropped_packets")?;
        Ok(Self { out, next: Duration::ZERO, dropped: 0, failed: Ok(()) })
    }

    /// Records a packet that came to the bottleneck at `now` and was queued or dropped.
    pub fn note(&mut self, now: Duration, backlog: Backlog, dropped: bool) {
        self.dropped += u64::from(dropped);
        if now < self.next || self.failed.is_err() {
            return;
        }
        self.next = now + DEPTH_INTERVAL;
        let dropped = std::mem::take(&mut self.dropped);
        let time_ms = now.as_secs_f64() * 1e3;
        let Backlog { packets, bytes } = backlog;
        self.failed = writeln!(self.out, "{time_ms:.3},{packets},{bytes},{dropped}");
    }

    /// Writes the rest and closes the files.
    ///
    /// # Errors
    ///
    /// A line could not be written.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let written = std::mem::replace(&mut self.failed, Ok(()));
        written.and_then(|()| self.out.flush()).context("cannot write queue.csv")
    }
}
