//! Downloads over emulated paths: real server, link emulator and client.
//!
//! Every download of every mode has a server, an emulator and a client process of its own,
//! so that modes differ in nothing else. A resumed connection therefore reads its saved
//! parameters from disk.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use tempfile::TempDir;

use crate::client_report::ClientReport;
use crate::emulator_report::EmulatorReport;
use crate::path::PathSpec;
use crate::process::Programs;
use crate::process::Running;
use crate::progress::Progress;
use report::bound::bounds;
use report::provenance::Provenance;
use report::qlog;
use report::record::Download;
use report::record::Mode;
use report::record::Source;
use report::record::EDGE_SERVER;

/// The client's address: the server sees every download come from it.
const CLIENT: &str = "127.77.1.1";

/// Downloads of the object from a store that was empty at first, and the most repetitions
/// of these: the first of each are slow.
pub const VISITS: u32 = 3;
pub const VISIT_RUNS_MAX: u32 = 3;

/// The servers' secret, which protects nothing here.
const SECRET: &str = "5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed5eed";

/// Seed of the emulated link, which neither loses packets at random nor delays them so: another
/// one changes nothing.
const EMULATOR_SEED: u64 = 1;

/// Name of the pristine server in the results.
pub const PRISTINE: &str = "pristine quiche";

/// Downloads to measure, and the programs for it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub paths: Vec<PathSpec>,
    /// Downloads of each mode.
    pub runs: u32,
    /// Congestion controller of the server.
    pub cc: String,
    /// Another server to compare slow start with.
    pub pristine_server: Option<PathBuf>,
    /// Whether to measure requests in early data, too.
    pub early_data: bool,
    /// Folder of the results.
    pub results: PathBuf,
}

/// Makes all downloads of a plan.
///
/// # Errors
///
/// A program cannot be run or fails, or `stop` is set meanwhile.
pub fn run(
    plan: &Plan,
    programs: &Programs,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<Download>> {
    if let Some(program) = plan.pristine_server.as_deref() {
        // A bare name is looked up when it is run.
        if program.components().count() > 1 && !program.is_file() {
            bail!("--pristine-server {}: no such program", program.display());
        }
    }
    let steps: Vec<_> = plan.paths.iter().flat_map(|path| steps(plan, path)).collect();
    let progress = Progress::new(steps.iter().map(|s| s.weight_ms()).sum());
    let mut downloads = Vec::with_capacity(steps.len());
    let mut scratch: Option<(&str, Scratch)> = None;

    for step in &steps {
        if scratch.as_ref().is_none_or(|(name, _)| *name != step.path.name) {
            remove_folder(&log_folder(plan, step.path))?;
            scratch = Some((&step.path.name, Scratch::new()?));
        }
        let Some((_, scratch)) = &scratch else {
            bail!("no scratch folder");
        };
        progress.begin(&step.title());
        let download =
            step.undisturbed(plan, programs, scratch, stop).with_context(|| step.title())?;
        let disturbed = download.disturbance();
        let disturbed = disturbed.map_or(String::new(), |what| format!(" (this machine {what})"));
        let line = format!("{}: {:.0} ms{disturbed}", step.title(), download.ttlb_ms);
        progress.done(step.weight_ms(), &line);
        downloads.push(download);
    }
    Ok(downloads)
}

/// Folders of one path's servers, gone when dropped.
struct Scratch {
    root: TempDir,
    /// Holds the stores that last from connection to connection, and one that no
    /// connection uses.
    stores: TempDir,
    /// Holds the servers' secrets, and what the client keeps for its next connection.
    session: TempDir,
}

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let folder = || tempfile::tempdir().context("cannot make a temporary folder");
        let scratch = Scratch { root: folder()?, stores: folder()?, session: folder()? };
        // Tokens and tickets outlive the server that issues them.
        let secrets = scratch.secrets();
        fs::write(&secrets, SECRET)
            .and_then(|()| fs::set_permissions(&secrets, PermissionsExt::from_mode(0o600)))
            .context("cannot write a file of secrets")?;
        Ok(scratch)
    }

    /// Returns the store of the step's server. Each series of visits begins with a new one.
    fn store(&self, step: &Step) -> PathBuf {
        self.stores.path().join(match step.mode {
            Mode::SlowStart => "unused.db".to_owned(),
            Mode::Visit => format!("visits-{}.db", step.run),
            _ => "paths.db".to_owned(),
        })
    }

    fn secrets(&self) -> PathBuf {
        self.session.path().join("secrets")
    }

    /// Returns the file of the client's token and session: of a first connection none yet, of
    /// others what the first got.
    fn session(&self, mode: Mode) -> anyhow::Result<PathBuf> {
        let [first, copy] = ["first", "copy"].map(|name| self.session.path().join(name));
        if mode == Mode::First {
            match fs::remove_file(&first) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
                _ => Ok(first),
            }
        } else {
            fs::copy(&first, &copy).map(|_| copy)
        }
        .context("cannot keep the client's session")
    }

    /// Copies the stores while no server has them open.
    fn saved_stores(&self) -> anyhow::Result<TempDir> {
        let copy = tempfile::tempdir().context("cannot make a temporary folder")?;
        copy_files(self.stores.path(), copy.path()).context("cannot copy the store")?;
        Ok(copy)
    }

    /// Puts the stores back as they were.
    fn restore_stores(&self, saved: &TempDir) -> anyhow::Result<()> {
        for entry in fs::read_dir(self.stores.path()).context("cannot read the stores")? {
            fs::remove_file(entry?.path()).context("cannot remove a store")?;
        }
        copy_files(saved.path(), self.stores.path()).context("cannot restore the store")
    }
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// One download to make.
#[derive(Clone, Copy)]
struct Step<'a> {
    path: &'a PathSpec,
    mode: Mode,
    run: u32,
    visit: Option<u32>,
    pristine: bool,
}

/// Returns the downloads of a path, in order. Modes take turns, so that what happens
/// on the machine meanwhile happens to all of them.
fn steps<'a>(plan: &Plan, path: &'a PathSpec) -> Vec<Step<'a>> {
    let step = |mode, run, pristine| Step { path, mode, run, visit: None, pristine };
    let mut all = vec![step(Mode::First, 1, false)];
    for run in 1..=plan.runs {
        if plan.pristine_server.is_some() {
            all.push(step(Mode::SlowStart, run, true));
        }
        all.push(step(Mode::SlowStart, run, false));
        all.push(step(Mode::CarefulResume, run, false));
        if plan.early_data {
            all.push(step(Mode::EarlyData, run, false));
        }
    }
    for run in 1..=plan.runs.min(VISIT_RUNS_MAX) {
        let visit = |n| Step { visit: Some(n), ..step(Mode::Visit, run, false) };
        all.extend((1..=VISITS).map(visit));
    }
    all
}

impl Step<'_> {
    fn title(&self) -> String {
        let server = if self.pristine { format!(" ({PRISTINE})") } else { String::new() };
        let visit = self.visit.map_or(String::new(), |visit| format!("visit {visit} "));
        format!("{}, {visit}{}{server}, run {}", self.path.title, self.mode, self.run)
    }

    fn object_bytes(&self) -> u64 {
        match self.mode {
            Mode::First => self.path.first_bytes(),
            _ => self.path.object_bytes,
        }
    }

    /// Returns about how long it takes: its bound.
    fn weight_ms(&self) -> u64 {
        let b = bounds(self.path.rate_mbps, self.path.rtt_ms, self.object_bytes());
        match self.mode {
            Mode::SlowStart | Mode::First => b.slow_start_ms as u64,
            Mode::Visit if self.visit == Some(1) => b.slow_start_ms as u64,
            _ => b.careful_resume_ms as u64,
        }
    }

    /// Downloads once, and a second time if this machine lost or delayed packets during
    /// the first: such a download measures the machine. What the first one recorded
    /// in the store is undone.
    fn undisturbed(
        &self,
        plan: &Plan,
        programs: &Programs,
        scratch: &Scratch,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Download> {
        let saved = scratch.saved_stores()?;
        let download = self.download(plan, programs, scratch, stop)?;
        if !download.is_disturbed() {
            return Ok(download);
        }
        scratch.restore_stores(&saved)?;
        remove_folder(&self.log_folder(plan))?;
        self.download(plan, programs, scratch, stop)
    }

    fn log_folder(&self, plan: &Plan) -> PathBuf {
        let visit = self.visit.map_or(String::new(), |visit| format!("-{visit}"));
        log_folder(plan, self.path).join(format!("{}{visit}-{}", self.mode.name(), self.run))
    }

    fn download(
        &self,
        plan: &Plan,
        programs: &Programs,
        scratch: &Scratch,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Download> {
        let logs = self.log_folder(plan);
        let mut server = Running::start(&mut self.server(plan, programs, scratch, &logs)?, stop)?;
        let server_address = server.listening_on()?;

        let mut emulator = Running::start(&mut self.emulator(programs, server_address), stop)?;
        let address = emulator.listening_on()?;
        let url = format!("https://speed.test/bytes/{}", self.object_bytes());
        let mut command = Command::new(&programs.client);
        command.args([&url, "--json", "--insecure", "--local", CLIENT]);
        command.args(["--connect", &address.to_string()]);
        if plan.early_data && matches!(self.mode, Mode::First | Mode::EarlyData) {
            command.arg("--early-data").arg("--session").arg(scratch.session(self.mode)?);
        }
        let limit = Duration::from_millis(20_000 + 10 * self.weight_ms());
        let report = Running::start(&mut command, stop)?.finish(limit)?;
        let report = ClientReport::parse(&report, self.object_bytes())?;

        // The end of the connection is on its way to the server.
        thread::sleep(Duration::from_secs_f64(self.path.rtt_ms / 1000.0));
        match self.pristine {
            true => server.stop_anyhow().map(drop)?,
            false => server.stop()?,
        }
        let totals = emulator.stop_anyhow()?;

        let mut download = self.record(plan, &report);
        if let Some(report) = EmulatorReport::parse(&totals) {
            report.describe(&mut download);
        }
        if !self.pristine {
            let file = only_log(&logs)?;
            self.add_log(&mut download, &qlog::read(&file)?);
            let relative = file.strip_prefix(&plan.results).unwrap_or(&file);
            download.qlog = Some(relative.to_string_lossy().into_owned());
        }
        Ok(download)
    }

    fn server(
        &self,
        plan: &Plan,
        programs: &Programs,
        scratch: &Scratch,
        logs: &Path,
    ) -> anyhow::Result<Command> {
        let other = plan.pristine_server.as_ref().filter(|_| self.pristine);
        let mut command = Command::new(other.unwrap_or(&programs.server));
        command.args(["--listen", "127.0.0.1:0", "--speedtest", "--root"]).arg(scratch.root.path());
        if !self.pristine {
            fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
            let resume = self.mode != Mode::SlowStart;
            command.args(["--cc", &plan.cc, "--resume", if resume { "on" } else { "off" }]);
            command.arg("--store").arg(scratch.store(self));
            command.arg("--qlog-dir").arg(logs);
            if plan.early_data {
                command.args(["--early-data", "on", "--secrets"]).arg(scratch.secrets());
            }
            // Packets as long as the published experiments', which the bounds assume.
            command.args(["--pmtud", "off"]);
            // Programs that still run after the download have nothing to wait for.
            command.args(["--drain", "0"]);
        }
        Ok(command)
    }

    fn emulator(&self, programs: &Programs, server: std::net::SocketAddr) -> Command {
        let mut command = Command::new(&programs.emulator);
        command.args(["--listen", "127.0.0.1:0", "--to", &server.to_string()]);
        command.args(["--rate", &self.path.rate_mbps.to_string()]);
        command.args(["--rtt", &self.path.rtt_ms.to_string()]);
        command.args(["--buffer", &self.path.buffer_bytes().to_string()]);
        command.args(["--seed", &EMULATOR_SEED.to_string()]);
        // A trace has its own rates, from the start on.
        command.args(&self.path.link_options);
        command
    }

    fn record(&self, plan: &Plan, report: &ClientReport) -> Download {
        Download {
            source: Source::Real,
            path: self.path.title.clone().into_owned(),
            rate_mbps: Some(self.path.rate_mbps),
            rtt_ms: Some(self.path.rtt_ms),
            buffer_bytes: Some(self.path.buffer_bytes()),
            object_bytes: self.object_bytes(),
            cc: Some(plan.cc.clone()),
            mode: self.mode,
            run: self.run,
            ttfb_ms: report.ttfb_ms,
            ttlb_ms: report.ttlb_ms,
            lost_packets: None,
            phases: Vec::new(),
            server: Some(if self.pristine { PRISTINE } else { EDGE_SERVER }.into()),
            min_rtt_ms: report.min_rtt_ms,
            saved_cwnd_bytes: None,
            saved_rtt_ms: None,
            jump_lost_packets: None,
            overrun_packets: None,
            late_ms: None,
            late_limit_ms: None,
            visit: self.visit,
            qlog: None,
            seed: Some(EMULATOR_SEED),
            varies: !self.path.is_steady,
            provenance: self.provenance(plan),
        }
    }

    /// Says which command repeats it, with the other downloads of its path, and its settings.
    fn provenance(&self, plan: &Plan) -> Provenance {
        let early_data = if plan.early_data { " --early-data" } else { "" };
        let path = self.path.option();
        let command =
            format!("speed-test {path} --runs {} --cc {}{early_data}", plan.runs, plan.cc);
        let settings = serde_json::json!({
            "path": {
                "name": self.path.name,
                "rate_mbps": self.path.rate_mbps,
                "rtt_ms": self.path.rtt_ms,
                "buffer_bytes": self.path.buffer_bytes(),
                "object_bytes": self.path.object_bytes,
                "link_options": self.path.link_options,
            },
            "runs": plan.runs,
            "cc": plan.cc,
            "early_data": plan.early_data,
            "pmtud": "off",
        });
        Provenance::new("speed-test", command, settings)
    }

    fn add_log(&self, download: &mut Download, log: &qlog::ConnectionLog) {
        download.lost_packets = Some(log.lost_packets());
        download.phases.clone_from(&log.phases);
        download.saved_cwnd_bytes = log.saved.map(|s| s.cwnd_bytes);
        download.saved_rtt_ms = log.saved.and_then(|s| s.rtt_ms);
        download.jump_lost_packets = log.jump_lost_packets(self.path.rtt_ms);
    }
}

fn log_folder(plan: &Plan, path: &PathSpec) -> PathBuf {
    plan.results.join("qlog").join(path.name.as_ref())
}

/// Removes what an earlier run logged.
fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the qlog of the only connection of a server.
fn only_log(folder: &Path) -> anyhow::Result<PathBuf> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = entries.filter_map(|entry| entry.ok().map(|e| e.path()));
    let mut files: Vec<PathBuf> =
        files.filter(|f| f.extension().is_some_and(|e| e == "sqlog")).collect();
    match files.pop() {
        Some(file) if files.is_empty() => Ok(file),
        Some(_) => bail!("{} has several qlogs; expected one connection", folder.display()),
        None => bail!("edge-server left no qlog in {}", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PATHS;

    fn plan(pristine: bool) -> Plan {
        Plan {
            paths: vec![PATHS[0].clone()],
            runs: 2,
            cc: "bbr2".into(),
            pristine_server: pristine.then(|| "pristine".into()),
            early_data: false,
            results: "results".into(),
        }
    }

    #[test]
    fn first_connection_precedes_modes_in_turn() {
        let modes = |plan: &Plan| -> Vec<(Mode, bool)> {
            steps(plan, &PATHS[0]).iter().map(|s| (s.mode, s.pristine)).collect()
        };
        let (slow, resumed) = ((Mode::SlowStart, false), (Mode::CarefulResume, false));
        let first = (Mode::First, false);
        assert_eq!(modes(&plan(false))[..5], [first, slow, resumed, slow, resumed]);
        let other = (Mode::SlowStart, true);
        assert_eq!(modes(&plan(true))[..7], [first, other, slow, resumed, other, slow, resumed]);
        let early = (Mode::EarlyData, false);
        let plan = Plan { early_data: true, ..plan(false) };
        assert_eq!(modes(&plan)[..5], [first, slow, resumed, early, slow]);
    }

    #[test]
    fn series_of_visits_has_its_own_store() {
        let scratch = Scratch::new().expect("folders");
        let plan = Plan { runs: 4, ..plan(false) };
        let all = steps(&plan, &PATHS[0]);
        let visits: Vec<&Step> = all.iter().filter(|s| s.mode == Mode::Visit).collect();
        let told: Vec<_> = visits.iter().map(|s| (s.run, s.visit.unwrap_or(0))).collect();
        assert_eq!(told[..4], [(1, 1), (1, 2), (1, 3), (2, 1)]);
        assert_eq!(told.len(), 9);
        let stores: Vec<PathBuf> = visits.iter().map(|s| scratch.store(s)).collect();
        assert!(stores[0] == stores[2] && stores[2] != stores[3], "{stores:?}");
        assert_ne!(stores[0], scratch.store(&all[0]));
    }

    // A first connection that is repeated is a first one, and each later client has what that got.
    #[test]
    fn sessions_are_those_of_the_first_connection() {
        let scratch = Scratch::new().expect("folders");
        let session = |mode| scratch.session(mode).expect("a file");
        for got in ["disturbed", "repeated"] {
            let first = session(Mode::First);
            assert!(!first.exists(), "{got}");
            fs::write(&first, got).expect("written");
        }
        for _ in 0..2 {
            let later = session(Mode::EarlyData);
            assert_eq!(fs::read_to_string(&later).expect("read"), "repeated");
            fs::write(&later, "later").expect("written");
        }
    }

    #[test]
    fn server_must_have_one_log() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert!(only_log(dir.path()).is_err());
        let file = dir.path().join("a.sqlog");
        fs::write(&file, "").expect("written");
        assert_eq!(only_log(dir.path()).expect("one"), file);
        fs::write(dir.path().join("b.sqlog"), "").expect("written");
        assert!(only_log(dir.path()).is_err());
    }
}
