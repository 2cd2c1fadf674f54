//! Trace file of every packet offered to the link: its arrival and its fate.
//!
//! The relay passes records in blocks to a thread, which formats and writes them. A slow disk
//! loses records, which are counted, and does not delay the relay.

use anyhow::Context;
use link::DropReason;
use link::Ecn;
use link::Verdict;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

/// Records in a block, and blocks that may wait: 16 MiB in all.
const BLOCK_RECORDS: usize = 4_096;
const BLOCKS_MAX: usize = 64;

const HEADING: &str = "time_ns,direction,client,number,ip_bytes,verdict,ecn_in,ecn_out";

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Time of arrival by the relay's clock.
    pub arrival: Duration,
    /// `up`, towards the server, or `down`.
    pub direction: &'static str,
    /// Address and port of the client that sent it or will get it.
    pub client: SocketAddr,
    /// Which packet of its client and direction it is, from 1.
    pub number: u64,
    /// Size of the IP packet.
    pub ip_bytes: u32,
    /// The codepoint with which it arrived.
    pub ecn: Ecn,
    /// Its fate in the link.
    pub verdict: Verdict,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    block: Vec<Record>,
    blocks: SyncSender<Vec<Record>>,
    writer: JoinHandle<io::Result<()>>,
    lost_records: u64,
}

impl Trace {
    /// Creates the file. Its times count from `origin`.
    ///
    /// # Errors
    ///
    /// If the file cannot be created, or no thread be started.
    pub fn create(path: &Path, origin: Duration) -> anyhow::Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot write {} (see --trace)", path.display()))?;
        let (blocks, taken) = sync_channel(BLOCKS_MAX);
        let writer = std::thread::Builder::new()
            .name("trace".into())
            .spawn(move || write_all(BufWriter::new(file), origin, &taken))
            .context("cannot start a thread for --trace")?;
        let block = Vec::with_capacity(BLOCK_RECORDS);
        Ok(Self { path: path.to_owned(), block, blocks, writer, lost_records: 0 })
    }

    /// Takes a record. Never waits.
    pub fn record(&mut self, record: Record) {
        self.block.push(record);
        if self.block.len() == BLOCK_RECORDS {
            let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK_RECORDS));
            if self.blocks.try_send(block).is_err() {
                self.lost_records += BLOCK_RECORDS as u64;
            }
        }
    }

    /// Writes the rest and closes the file.
    ///
    /// # Errors
    ///
    /// If it could not be written, or only with gaps.
    pub fn finish(self) -> anyhow::Result<()> {
        let Self { path, block, blocks, writer, lost_records } = self;
        // If the writer has ended, joining it returns the reason.
        let _ = blocks.send(block);
        drop(blocks);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")));
        written.with_context(|| format!("cannot write {} (see --trace)", path.display()))?;
        anyhow::ensure!(
            lost_records == 0,
            "{} lacks {lost_records} packets: the disk did not keep up (see --trace)",
            path.display()
        );
        Ok(())
    }
}

fn write_all(
    mut file: impl Write,
    origin: Duration,
    blocks: &Receiver<Vec<Record>>,
) -> io::Result<()> {
    writeln!(file, "{HEADING}")?;
    for block in blocks {
        for record in &block {
            write_one(&mut file, origin, record)?;
        }
    }
    file.flush()
}

fn write_one(file: &mut impl Write, origin: Duration, record: &Record) -> io::Result<()> {
    let Record { arrival, direction, client, number, ip_bytes, ecn, verdict } = record;
    let time_ns = arrival.saturating_sub(origin).as_nanos();
    let ecn_in = ecn_name(*ecn);
    let ecn_out = match verdict {
        Verdict::Delivered { ecn, .. } => ecn_name(*ecn),
        Verdict::Dropped(_) => "",
    };
    let verdict = name(*verdict);
    writeln!(
        file,
        "{time_ns},{direction},{client},{number},{ip_bytes},{verdict},{ecn_in},{ecn_out}"
    )
}

fn ecn_name(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "not_ect",
        Ecn::Ect1 => "ect1",
        Ecn::Ect0 => "ect0",
        Ecn::Ce => "ce",
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Delivered { .. } => "delivered",
        Verdict::Dropped(DropReason::Ecn) => "dropped_ecn",
        Verdict::Dropped(DropReason::Mtu) => "dropped_mtu",
        Verdict::Dropped(DropReason::Named) => "dropped_named",
        Verdict::Dropped(DropReason::Random) => "dropped_random",
        Verdict::Dropped(DropReason::Buffer) => "dropped_buffer",
        Verdict::Dropped(DropReason::CoDel) => "dropped_codel",
        Verdict::Dropped(DropReason::Pie) => "dropped_pie",
        Verdict::Dropped(DropReason::Policer) => "dropped_policer",
        Verdict::Dropped(DropReason::Pi2) => "dropped_pi2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, verdict: Verdict) -> Record {
        let arrival = Duration::from_nanos(1_000 + number);
        let client = ([127, 0, 0, 1], 5).into();
        let (direction, ip_bytes, ecn) = ("down", 1_378, Ecn::Ect0);
        Record { arrival, direction, client, number, ip_bytes, ecn, verdict }
    }

    #[test]
    fn trace_has_a_line_per_packet() {
        let (blocks, taken) = sync_channel(2);
        let delivered = Verdict::Delivered { at: Duration::ZERO, ecn: Ecn::NotEct };
        let marked = Verdict::Delivered { at: Duration::ZERO, ecn: Ecn::Ce };
        blocks.send(vec![record(1, delivered), record(4, marked)]).unwrap();
        let dropped = |number, reason| record(number, Verdict::Dropped(reason));
        blocks.send(vec![dropped(2, DropReason::Buffer), dropped(3, DropReason::CoDel)]).unwrap();
        drop(blocks);
        let mut file = Vec::new();
        write_all(&mut file, Duration::from_nanos(1_000), &taken).unwrap();
        let expected = "time_ns,direction,client,number,ip_bytes,verdict,ecn_in,ecn_out\n\
                        1,down,127.0.0.1:5,1,1378,delivered,ect0,not_ect\n\
                        4,down,127.0.0.1:5,4,1378,delivered,ect0,ce\n\
                        2,down,127.0.0.1:5,2,1378,dropped_buffer,ect0,\n\
                        3,down,127.0.0.1:5,3,1378,dropped_codel,ect0,\n";
        assert_eq!(String::from_utf8(file).unwrap(), expected);
    }

    #[test]
    fn trace_reports_records_it_lost() {
        let (blocks, taken) = sync_channel(1);
        let writer = std::thread::spawn(move || {
            // Awake only when the last block is announced.
            std::thread::park();
            taken.iter().count();
            Ok(())
        });
        let thread = writer.thread().clone();
        let block = Vec::new();
        let mut trace = Trace { path: "t.csv".into(), block, blocks, writer, lost_records: 0 };
        let delivered = Verdict::Delivered { at: Duration::ZERO, ecn: Ecn::NotEct };
        for number in 0..3 * BLOCK_RECORDS as u64 {
            trace.record(record(number, delivered));
        }
        thread.unpark();
        let told = trace.finish().unwrap_err().to_string();
        assert!(told.contains("t.csv lacks 8192 packets"), "{told}");
    }
}
