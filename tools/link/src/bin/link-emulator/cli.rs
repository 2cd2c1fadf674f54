//! The command line, and the two directions of the link that it describes.

use crate::bottleneck::Queueing;
use crate::changes::Changes;
use clap::Parser;
use command_line::Program;
use command_line::Stop;
use link::BurstLoss;
use link::Change;
use link::EcnHandling;
use link::Link;
use link::LinkConfig;
use link::PacketNumbers;
use link::PathTrace;
use link::Policer;
use link::Queue;
use link::Rate;
use link::MTU_BYTES_DEFAULT;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub const PROGRAM: Program = Program("link-emulator");

const RTT_MAX: Duration = Duration::from_secs(60);
const BUFFER_BYTES_MAX: u64 = 1 << 32;

/// UDP relay that behaves like a network link
///
/// Clients send to --listen. The relay forwards their packets to --to, and the
/// responses back, through a link with the given rate, delay, buffer and loss that
/// all clients share. Each client has its own address towards the server: on
/// loopback, the server sees a client on 127.a.b.c as 127.a.b.c.
///
/// Sizes are those of IP packets: UDP payload plus 28 bytes (IPv4) or 48 bytes
/// (IPv6). SIGTERM or SIGINT ends the relay, which prints totals as a line of JSON.
#[derive(Clone, Debug, Parser)]
#[command(name = "link-emulator", version)]
pub struct Cli {
    /// Address that clients send to; port 0 picks a free port, which the relay prints
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,

    /// Address of the server
    #[arg(long, value_name = "ADDR:PORT")]
    pub to: SocketAddr,

    /// Rate of each direction, in Mbit/s of IP packets
    #[arg(long, value_name = "MBIT", value_parser = rate, required_unless_present = "path_trace")]
    pub rate: Option<Rate>,

    /// Rate towards the server, in Mbit/s [default: --rate]
    #[arg(long, value_name = "MBIT", value_parser = rate)]
    pub rate_up: Option<Rate>,

    /// Round-trip time of the idle link, in ms; half of it in each direction
    #[arg(long, value_name = "MS", value_parser = rtt, required_unless_present = "path_trace")]
    pub rtt: Option<Duration>,

    /// Maximum of an additional random delay of each packet, in each direction, in ms;
    /// packets keep their order
    #[arg(long, value_name = "MS", default_value = "0", value_parser = jitter)]
    pub jitter: Duration,

    /// Time from one grant of the medium to the next, in ms: packets to the clients wait for a
    /// grant after their transmission, and those that have gathered arrive together, as with
    /// aggregated Wi-Fi frames or the scheduler of a mobile network
    #[arg(long, value_name = "MS", default_value = "0", value_parser = aggregation)]
    pub aggregation: Duration,

    /// Buffer of each direction, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(..=BUFFER_BYTES_MAX))]
    pub buffer: u64,

    /// Queue discipline: drop-tail drops packets that find the buffer full; codel also
    /// drops packets that have waited too long (RFC 8289), and marks those that are
    /// ECN-capable instead; pie drops or marks packets that arrive while the queue stays long
    /// (RFC 8033); fq-codel gives each client (address and port) a queue with a CoDel of its own,
    /// and they take turns (RFC 8290); step:MS is drop-tail that marks ECN-capable packets which
    /// have waited for more than MS ms
    #[arg(long, value_name = "NAME", default_value = "drop-tail", value_parser = queue)]
    pub queue: Queueing,

    /// What the path does with the ECN field of packets before the queue: pass; clear
    /// (bleaching: all become Not-ECT); ect1 (ECT(0) becomes ECT(1)); ce (all become CE);
    /// drop (black hole: ECN-capable packets are lost). With up: or down: in front it
    /// applies to this direction alone. May be repeated; the last one wins
    #[arg(long, value_name = "[DIRECTION:]HANDLING")]
    pub ecn: Vec<EcnSetting>,

    /// Largest IP packet that passes, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MTU_BYTES_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub mtu: u32,

    /// Probability that a packet is lost, 0 to 1, in each direction
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub loss: f64,

    /// Loss in bursts, besides --loss: probabilities of a change to the bad state before a packet,
    /// of one back to the good state, and of loss in the bad state (Gilbert-Elliott), in each
    /// direction
    #[arg(long, value_name = "ENTER,LEAVE,P", value_parser = burst_loss)]
    pub burst_loss: Option<BurstLoss>,

    /// Policer towards the clients: packets that exceed this rate in Mbit/s by more than so many
    /// bytes are dropped (token bucket)
    #[arg(long, value_name = "MBIT,BYTES", value_parser = policer)]
    pub policer: Option<Policer>,

    /// Packets to lose, by number: up:N or down:N-M,... Packets count from 1 for
    /// each client (address and port) and direction; down is towards the client.
    /// May be repeated
    #[arg(long, value_name = "DIRECTION:NUMBERS")]
    pub drop: Vec<NamedLoss>,

    /// Change of the link at a time after the start: 5s:rate=10,loss=0.01 or
    /// 500ms:rtt=80,rate-up=1. A rate applies to both directions, unless --rate-up
    /// is given; 0 is an outage, which another change must end. May be repeated
    #[arg(long, value_name = "TIME:NAME=VALUE,...")]
    pub at: Vec<Changes>,

    /// File with the link's rate, round-trip time and loss over time, since the start: CSV, or
    /// delivery opportunities as of mahimahi. Replaces --rate and --rtt where it has them;
    /// a rate applies to both directions, unless --rate-up is given
    #[arg(long, value_name = "FILE", value_parser = path_trace, conflicts_with = "at")]
    pub path_trace: Option<PathTrace>,

    /// Forward only every N-th acknowledgement of a client to the server, or the
    /// newest after 10 ms; a UDP payload of at most 60 bytes counts as one
    #[arg(long, value_name = "N", default_value = "1", value_parser = one_of)]
    pub ack_thinning: NonZeroU32,

    /// Seed of random loss, of jitter, and of the first grant of --aggregation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// CSV file for a line per packet that reaches the link
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Time without packets after which the relay forgets a client, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = idle)]
    pub idle: Duration,
}

/// The value of one `--drop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLoss {
    direction: Direction,
    numbers: PacketNumbers,
}

/// The value of one `--ecn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnSetting {
    /// `None` for both.
    direction: Option<Direction>,
    handling: EcnHandling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Towards the server.
    Up,
    /// Towards the client.
    Down,
}

impl FromStr for EcnSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (direction, handling) = match text.split_once(':') {
            Some(("up", handling)) => (Some(Direction::Up), handling),
            Some(("down", handling)) => (Some(Direction::Down), handling),
            _ => (None, text),
        };
        let handling = match handling {
            "pass" => EcnHandling::Pass,
            "clear" => EcnHandling::Bleach,
            "ect1" => EcnHandling::RemarkEct1,
            "ce" => EcnHandling::RemarkCe,
            "drop" => EcnHandling::BlackHole,
            _ => {
                return Err("the ECN field is handled by pass, clear, ect1, ce or drop, for one \
                            direction as in up:clear"
                    .into())
            }
        };
        Ok(Self { direction, handling })
    }
}

impl FromStr for NamedLoss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (direction, numbers) = match text.split_once(':') {
            Some(("up", numbers)) => (Direction::Up, numbers),
            Some(("down", numbers)) => (Direction::Down, numbers),
            _ => return Err("a direction comes first, as in down:12-14 or up:1".into()),
        };
        let numbers = numbers.parse().map_err(|error: link::ConfigError| error.to_string())?;
        Ok(Self { direction, numbers })
    }
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// It asks for help or the version, or makes no sense.
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> Result<Self, Stop> {
        let mut cli: Self = command_line::parse(args)?;
        cli.at.sort_by_key(|changes| changes.at);
        if let Some(trace) = &cli.path_trace {
            let first = trace.steps().first().copied().unwrap_or_default();
            cli.rate = cli.rate.or(first.rate);
            cli.rtt = cli.rtt.or(first.rtt);
            cli.at = trace.steps().iter().map(Changes::from).collect();
        }
        let options = [("--rate", cli.rate.is_some()), ("--rtt", cli.rtt.is_some())];
        match options.iter().find(|(_, is_known)| !is_known) {
            None => cli.check_link().map(|()| cli),
            Some((option, _)) => Err(Stop::Usage(format!(
                "{option} is missing, and the file of --path-trace has no such values; see {} --help",
                PROGRAM.0
            ))),
        }
    }

    /// Checks the link as a whole.
    fn check_link(&self) -> Result<(), Stop> {
        for config in [self.up(), self.down()] {
            Link::new(config).map_err(|error| {
                let options = "--rate, --rate-up and --at";
                Stop::Usage(format!("{options}: {error}; see {} --help", PROGRAM.0))
            })?;
        }
        Ok(())
    }

    /// Returns the link towards the server. Its schedule counts from the start of the
    /// emulator.
    pub fn up(&self) -> LinkConfig {
        let rate = self.rate_up.unwrap_or(self.first_rate());
        // Not the draws of the other direction once more.
        self.direction(Direction::Up, rate, !self.seed)
    }

    /// Returns the link towards the clients, with the same origin of its schedule.
    pub fn down(&self) -> LinkConfig {
        self.direction(Direction::Down, self.first_rate(), self.seed)
    }

    /// Returns the round-trip time at the start.
    pub fn rtt(&self) -> Duration {
        self.rtt.expect("from_args refuses a command line without")
    }

    fn first_rate(&self) -> Rate {
        self.rate.expect("from_args refuses a command line without")
    }

    fn direction(&self, direction: Direction, rate: Rate, seed: u64) -> LinkConfig {
        let mut named_loss = PacketNumbers::default();
        for named in self.drop.iter().filter(|named| named.direction == direction) {
            named_loss.merge(&named.numbers);
        }
        let applies = |ecn: &&EcnSetting| ecn.direction.is_none_or(|only| only == direction);
        let ecn = self.ecn.iter().rfind(applies).map(|ecn| ecn.handling).unwrap_or_default();
        LinkConfig {
            ecn,
            mtu_bytes: self.mtu,
            loss: self.loss,
            burst: self.burst_loss,
            policer: self.policer.filter(|_| direction == Direction::Down),
            named_loss,
            jitter: self.jitter,
            aggregation: match direction {
                Direction::Up => Duration::ZERO,
                Direction::Down => self.aggregation,
            },
            seed,
            changes: self.at.iter().map(|changes| self.change(direction, changes)).collect(),
            period: self.path_trace.as_ref().and_then(PathTrace::period),
            ..LinkConfig::new(rate, direction.delay(self.rtt()), self.buffer)
        }
    }

    fn change(&self, direction: Direction, changes: &Changes) -> Change {
        let both = match direction {
            Direction::Up if self.rate_up.is_some() => None,
            Direction::Up | Direction::Down => changes.rate,
        };
        let rate = match direction {
            Direction::Up => changes.rate_up.or(both),
            Direction::Down => both,
        };
        let delay = changes.rtt.map(|rtt| direction.delay(rtt));
        Change { at: changes.at, rate, delay, loss: changes.loss }
    }
}

impl Direction {
    /// Returns the direction's half of a round-trip time.
    fn delay(self, rtt: Duration) -> Duration {
        match self {
            // Half of an odd number of nanoseconds: together they are the whole.
            Self::Up => rtt - rtt / 2,
            Self::Down => rtt / 2,
        }
    }
}

/// Parses a rate in Mbit/s.
pub fn rate(text: &str) -> Result<Rate, String> {
    let mbit_per_s = text.parse().unwrap_or(f64::NAN);
    Rate::from_mbit_per_s(mbit_per_s).map_err(|error| error.to_string())
}

/// Parses a round-trip time in ms.
pub fn rtt(text: &str) -> Result<Duration, String> {
    ms(text).ok_or_else(|| format!("a round-trip time is 0 to {} ms", RTT_MAX.as_millis()))
}

fn jitter(text: &str) -> Result<Duration, String> {
    ms(text).ok_or_else(|| format!("a jitter is 0 to {} ms", RTT_MAX.as_millis()))
}

fn aggregation(text: &str) -> Result<Duration, String> {
    ms(text).ok_or_else(|| format!("an aggregation is 0 to {} ms", RTT_MAX.as_millis()))
}

fn ms(text: &str) -> Option<Duration> {
    let ms: f64 = text.parse().unwrap_or(f64::NAN);
    Duration::try_from_secs_f64(ms / 1e3).ok().filter(|time| *time <= RTT_MAX)
}

fn queue(text: &str) -> Result<Queueing, String> {
    Ok(Queueing::Shared(match text {
        "fq-codel" => return Ok(Queueing::PerClient),
        "drop-tail" => Queue::DropTail,
        "codel" => Queue::CoDel,
        "pie" => Queue::Pie,
        _ => {
            let mark_above = text.strip_prefix("step:").and_then(ms).ok_or_else(|| {
                format!(
                    "a queue is drop-tail, codel, fq-codel, pie or step:MS with 0 to {} ms, as in step:5",
                    RTT_MAX.as_millis()
                )
            })?;
            Queue::Step { mark_above }
        }
    }))
}

fn burst_loss(text: &str) -> Result<BurstLoss, String> {
    let shares: Vec<f64> =
        text.split(',').filter_map(|share| probability(share.trim()).ok()).collect();
    match (shares.as_slice(), text.split(',').count()) {
        (&[enter, leave, loss], 3) if leave > 0.0 => Ok(BurstLoss { enter, leave, loss }),
        _ => Err(format!("{}, as in 0.01,0.25,1", link::ConfigError::BurstLoss)),
    }
}

fn policer(text: &str) -> Result<Policer, String> {
    let parts = text.split_once(',');
    let bytes = parts.and_then(|(_, bytes)| bytes.trim().parse().ok());
    let (Some((mbit, _)), Some(burst_bytes)) = (parts, bytes) else {
        return Err("a policer is a rate in Mbit/s and a burst in bytes, as in 10,50000".into());
    };
    Ok(Policer { rate: rate(mbit)?, burst_bytes })
}

fn path_trace(file: &str) -> Result<PathTrace, String> {
    PathTrace::read(Path::new(file)).map_err(|error| error.to_string())
}

fn one_of(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "N must be 1 (all acknowledgements pass) or more".into())
}

/// Parses a probability, 0 to 1.
pub fn probability(text: &str) -> Result<f64, String> {
    let probability: Option<f64> = text.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    probability.ok_or_else(|| link::ConfigError::Loss.to_string())
}

fn idle(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s: f64| Duration::try_from_secs_f64(s).ok());
    let idle = seconds.filter(|idle| *idle >= Duration::from_millis(100));
    idle.ok_or_else(|| "must be at least 0.1 seconds".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &str) -> Result<Cli, Stop> {
        let base = "link-emulator --listen 127.0.0.1:0 --to 127.0.0.1:9 --rate 50 --rtt 25.000001 --buffer 9000";
        let args = format!("{base} {extra}");
        Cli::from_args(args.split_whitespace().map(Into::into))
    }

    #[test]
    fn directions_share_the_round_trip_time() {
        let cli = parse("").unwrap();
        assert_eq!(cli.up().delay + cli.down().delay, Duration::from_nanos(25_000_001));
        assert_eq!(cli.down().rate.bits_per_s(), 50_000_000);
        assert_eq!((cli.down().buffer_bytes, cli.down().mtu_bytes), (9_000, 1_500));
    }

    #[test]
    fn direction_may_have_its_own_rate_and_losses() {
        let cli = parse("--rate-up 5 --drop down:12-14 --drop up:1 --drop down:15").unwrap();
        assert_eq!(cli.up().rate.bits_per_s(), 5_000_000);
        assert_eq!(cli.up().named_loss, "1".parse().unwrap());
        assert_eq!(cli.down().named_loss, "12-15".parse().unwrap());
        assert_ne!(cli.up().seed, cli.down().seed);
    }

    #[test]
    fn changes_are_sorted_and_shared_by_directions() {
        let rate = |mbit_per_s| Some(Rate::from_mbit_per_s(mbit_per_s).unwrap());
        let at = |s, rate, delay_ms: Option<u64>, loss| Change {
            at: Duration::from_secs(s),
            rate,
            delay: delay_ms.map(Duration::from_millis),
            loss,
        };
        let schedule = "--at 9s:rate=5,rate-up=1 --at 3s:rate=10,rtt=80,loss=0.5";
        let down = [at(3, rate(10.0), Some(40), Some(0.5)), at(9, rate(5.0), None, None)];
        let up = [at(3, rate(10.0), Some(40), Some(0.5)), at(9, rate(1.0), None, None)];
        let cli = parse(schedule).unwrap();
        assert_eq!((cli.down().changes, cli.up().changes), (down.to_vec(), up.to_vec()));
        // A rate of its own is not changed by the other's.
        let up = [at(3, None, Some(40), Some(0.5)), at(9, rate(1.0), None, None)];
        let cli = parse(&format!("--rate-up 2 {schedule}")).unwrap();
        assert_eq!((cli.down().changes, cli.up().changes), (down.to_vec(), up.to_vec()));
    }

    /// Returns a folder with the trace, and the command line that plays it.
    fn with_trace(name: &str, text: &str, extra: &str) -> Result<Cli, Stop> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let base = "link-emulator --listen 127.0.0.1:0 --to 127.0.0.1:9 --buffer 9000";
        let args = format!("{base} {extra} --path-trace {}", file.display());
        Cli::from_args(args.split_whitespace().map(Into::into))
    }

    #[test]
    fn path_trace_is_the_schedule_of_both_directions() {
        let table = "time_ms,rate_mbps,rtt_ms,loss\n0,10,40,0\n500,2,80,0.1\n900,,,\n";
        let cli = with_trace("a.csv", table, "--rate-up 1").unwrap();
        let (up, down) = (cli.up(), cli.down());
        assert_eq!((down.rate.bits_per_s(), up.rate.bits_per_s()), (10_000_000, 1_000_000));
        assert_eq!((down.delay, down.period), (Duration::from_millis(20), up.period));
        assert_eq!(down.period, Some(Duration::from_millis(900)));
        assert_eq!((down.changes[1].loss, down.changes[1].delay), (Some(0.1), up.changes[1].delay));
        assert!(down.changes[1].rate.is_some() && up.changes[1].rate.is_none());
        let opportunities = with_trace("a.down", "1\n2\n", "--rtt 40").unwrap();
        assert_eq!(opportunities.down().changes[0].rate, opportunities.up().changes[0].rate);
    }

    #[test]
    fn path_trace_error_names_file_line_and_way_out() {
        for (name, text, extra, named) in [
            ("a.down", "1\nx\n", "--rtt 40", "a.down, line 2: \"x\" is no delivery opportunity"),
            ("a.down", "1\n", "", "--rtt is missing, and the file of --path-trace has no such"),
            ("a.csv", "time_ms,rtt_ms\n0,40\n", "", "--rate is missing"),
            ("a.down", "1\n", "--rtt 40 --at 5s:rate=1", "--at"),
        ] {
            let Err(Stop::Usage(line)) = with_trace(name, text, extra) else { panic!("{named}") };
            assert!(line.contains(named) && line.ends_with("--help"), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    }

    #[test]
    fn outage_ends_or_is_refused_in_one_line() {
        let cli = parse("--at 2s:rate=0 --at 3s:rate=50").unwrap();
        assert_eq!(cli.down().changes[0].rate, Some(Rate::ZERO));
        for (args, named) in [
            ("--at 2s:rate=0", "--at: the last rate is 0: say when the outage ends"),
            ("--at 2s:rate-up=0 --at 3s:rate=50,rate-up=0", "the last rate is 0"),
            ("--rate-up 0", "a rate is a number from 0.001"),
        ] {
            let Err(Stop::Usage(line)) = parse(args) else { panic!("{args}") };
            assert!(line.contains(named) && line.lines().count() == 1, "{line}");
        }
    }

    #[test]
    fn queue_and_jitter_apply_to_both_directions() {
        let plain = parse("").unwrap();
        let shared = Queueing::Shared;
        assert_eq!((plain.queue, plain.down().jitter), (shared(Queue::DropTail), Duration::ZERO));
        let cli = parse("--queue codel --jitter 2.5").unwrap();
        assert_eq!(cli.queue, shared(Queue::CoDel));
        for config in [cli.up(), cli.down()] {
            assert_eq!(config.jitter, Duration::from_micros(2_500));
        }
        assert_eq!(parse("--queue pie").unwrap().queue, shared(Queue::Pie));
        assert_eq!(parse("--queue fq-codel").unwrap().queue, Queueing::PerClient);
        let step = Queue::Step { mark_above: Duration::from_micros(1_500) };
        assert_eq!(parse("--queue step:1.5").unwrap().queue, shared(step));
    }

    #[test]
    fn bursts_apply_to_both_directions_policer_and_aggregation_to_one() {
        let cli = parse("--burst-loss 0.01,0.25,1 --policer 10,50000 --aggregation 4").unwrap();
        let four_ms = Duration::from_millis(4);
        assert_eq!((cli.up().aggregation, cli.down().aggregation), (Duration::ZERO, four_ms));
        let burst = Some(BurstLoss { enter: 0.01, leave: 0.25, loss: 1.0 });
        assert_eq!((cli.up().burst, cli.down().burst), (burst, burst));
        let rate = Rate::from_mbit_per_s(10.0).unwrap();
        let policer = Some(Policer { rate, burst_bytes: 50_000 });
        assert_eq!((cli.up().policer, cli.down().policer), (None, policer));
    }

    #[test]
    fn ecn_applies_to_one_direction_or_both() {
        let handlings = |args: &str| {
            let cli = parse(args).unwrap();
            (cli.up().ecn, cli.down().ecn)
        };
        for (word, handling) in [
            ("pass", EcnHandling::Pass),
            ("clear", EcnHandling::Bleach),
            ("ect1", EcnHandling::RemarkEct1),
            ("ce", EcnHandling::RemarkCe),
            ("drop", EcnHandling::BlackHole),
        ] {
            let pass = EcnHandling::Pass;
            assert_eq!(handlings(&format!("--ecn {word}")), (handling, handling));
            assert_eq!(handlings(&format!("--ecn up:{word}")), (handling, pass));
            assert_eq!(handlings(&format!("--ecn down:{word}")), (pass, handling));
        }
        let overridden = handlings("--ecn up:drop --ecn clear --ecn down:ce");
        assert_eq!(overridden, (EcnHandling::Bleach, EcnHandling::RemarkCe));
    }

    #[test]
    fn bad_values_are_named_with_what_would_do() {
        let cases = [
            ("--loss 2", "--loss", "0 to 1"),
            ("--drop 12", "--drop", "down:12-14"),
            ("--drop down:0", "--drop", "from 1"),
            ("--rate-up 0", "--rate-up", "0.001"),
            ("--rate-up x", "'x'", "0.001"),
            ("--burst-loss 0.1,0.5", "--burst-loss", "as in 0.01,0.25,1"),
            ("--burst-loss 0.1,0.5,2", "--burst-loss", "as in 0.01,0.25,1"),
            ("--policer 10", "--policer", "as in 10,50000"),
            ("--policer 0,5", "--policer", "0.001"),
            ("--mtu 0", "--mtu", "1.."),
            ("--idle 0", "--idle", "0.1"),
            ("--jitter 60001", "--jitter", "0 to 60000 ms"),
            ("--aggregation x", "--aggregation", "0 to 60000 ms"),
            ("--queue red", "'red'", "drop-tail, codel, fq-codel, pie or step:MS"),
            ("--queue step", "'step'", "step:MS with 0 to 60000 ms"),
            ("--queue step:-1", "'step:-1'", "as in step:5"),
            ("--ecn bleach", "'bleach'", "pass, clear, ect1, ce or drop"),
            ("--ecn left:clear", "'left:clear'", "as in up:clear"),
            ("--at 5:rate=1", "--at", "5s"),
            ("--ack-thinning 0", "--ack-thinning", "1 (all acknowledgements pass) or more"),
            ("--frobnicate", "--frobnicate", "--help"),
        ];
        for (args, names, way_out) in cases {
            let Err(Stop::Usage(line)) = parse(args) else { panic!("{args}") };
            assert!(line.contains(names) && line.contains(way_out), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    }

    #[test]
    fn missing_options_are_named() {
        let args = ["link-emulator", "--listen", "127.0.0.1:0"].map(Into::into);
        let Err(Stop::Usage(line)) = Cli::from_args(args) else { panic!("understood") };
        for flag in ["--to", "--rate", "--rtt", "--buffer"] {
            assert!(line.contains(flag), "{line}");
        }
    }
}
