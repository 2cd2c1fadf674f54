//! Programs that a test runs, and the lines that they print.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Longest wait for a line: only a program that hangs takes as long.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A program that ends with this value, and the lines that it prints on either output.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        read_lines(child.stdout.take().unwrap(), sender.clone());
        read_lines(child.stderr.take().unwrap(), sender);
        Self { child, lines }
    }

    /// Waits for a line with `text` in it, and returns what follows that.
    pub fn wait_for(&self, text: &str) -> String {
        let lines = self.lines_to(text);
        let found = lines.last().and_then(|line| line.split_once(text));
        found.map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default()
    }

    /// Waits for a line with `text` in it, and returns the lines up to that.
    pub fn lines_to(&self, text: &str) -> Vec<String> {
        let mut lines = vec![];
        while lines.last().is_none_or(|line: &String| !line.contains(text)) {
            let next = self.lines.recv_timeout(WAIT_MAX);
            lines.push(next.unwrap_or_else(|e| panic!("{text}: {e}, after {lines:?}")));
        }
        lines
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(output: impl Read + Send + 'static, sender: Sender<String>) {
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    std::thread::spawn(move || lines.try_for_each(|line| sender.send(line)));
}
