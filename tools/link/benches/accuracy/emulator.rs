//! The emulator process under measurement.

use anyhow::Context;
use rustix::process::kill_process;
use rustix::process::Pid;
use rustix::process::Signal;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

/// A running emulator.
pub struct Emulator {
    child: Child,
    pub address: SocketAddr,
}

impl Emulator {
    /// Starts one on a free port, with these settings.
    pub fn start(settings: &[(&str, String)]) -> anyhow::Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_link-emulator"));
        command.args(["--listen", "127.0.0.1:0"]);
        for (flag, value) in settings {
            command.args([flag, value.as_str()]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stderr.take().context("no stderr")?).read_line(&mut line)?;
        let address = line.trim_end().rsplit(' ').next().unwrap_or_default();
        let address = address.parse().with_context(|| format!("not ready: {line}"))?;
        Ok(Self { child, address })
    }

    /// Stops it and returns its summary.
    pub fn stop(self) -> anyhow::Result<serde_json::Value> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let output = self.child.wait_with_output()?;
        serde_json::from_slice(&output.stdout).context("no summary")
    }
}
