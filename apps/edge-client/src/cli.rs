//! Command line of `edge-client`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use clap::Parser;
use command_line::EcnMode;
use command_line::Stop;

use crate::body;
use crate::ech::EchConfigs;
use crate::header_field::HeaderField;
use crate::load::paths::Paths;
use crate::sha256::Sha256;
use crate::target::Endpoint;
use crate::target::Target;

const AFTER_HELP: &str = "\
Without -o, the body is counted and discarded, and a summary line is printed.
--json prints one line per download, including failed ones: url, bytes, ttfb_ms
and ttlb_ms (first and last body byte, from the first packet sent), goodput_mbps,
min_rtt_ms, status (0: no response), ecn (state of the path, packets sent with a mark,
marks received, and marks that the server reports), and error if the download failed;
unknown values are null. The first failed download ends the run.

--requests loads a server instead: concurrent clients send requests until there
have been N, and one summary is printed: counts, rates, and times of handshakes
and requests. A failed request does not end the run.

Certificates are verified against SSL_CERT_FILE and SSL_CERT_DIR if set, otherwise
against the system's. RUST_LOG=debug logs what happens inside.

Exit codes: 0 done, 1 failed, 2 bad usage.";

/// HTTP/3 client that downloads a URL and measures how long it takes.
#[derive(Debug, Parser)]
#[command(name = "edge-client", version, after_help = AFTER_HELP)]
pub struct Cli {
    /// URL to download, for example https://localhost:4433/file
    #[arg(value_name = "URL")]
    pub target: Target,

    /// Address to connect to, instead of the one of the URL's host
    #[arg(long, value_name = "ADDR:PORT")]
    pub connect: Option<Endpoint>,

    /// Accept any certificate
    #[arg(long)]
    pub insecure: bool,

    /// Certificate to present if the server asks for one, PEM, with the chain behind it; may hold the
    /// key as well
    #[arg(short = 'E', long, value_name = "F")]
    pub cert: Option<PathBuf>,

    /// Private key of --cert, PEM [default: in the file of --cert]
    #[arg(long, value_name = "F", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Header field of the request; may be repeated, up to 10,000 bytes in all
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub header: Vec<HeaderField>,

    /// Number of downloads, each on a new connection
    #[arg(long, value_name = "N", default_value = "1")]
    pub repeat: NonZeroU32,

    /// Pause between two downloads, in seconds
    #[arg(long, value_name = "S", default_value = "0", value_parser = seconds)]
    pub interval: Duration,

    /// Present the address-validation token and the TLS session that the previous download
    /// received
    #[arg(long, group = "resumption")]
    pub reuse: bool,

    /// The same with those that F holds, if there is such a file; those received last are
    /// written to it
    #[arg(long, value_name = "F", group = "resumption")]
    pub session: Option<PathBuf>,

    /// Send the request before the handshake is complete, if the session allows it (0-RTT)
    #[arg(long, requires = "resumption")]
    pub early_data: bool,

    /// Key-exchange groups to offer, for example X25519:P-256
    #[arg(long, value_name = "LIST", value_parser = groups)]
    pub groups: Option<String>,

    /// Encrypt the server name with this configuration, the value of ech in a DNS record (RFC 9849)
    #[arg(long, value_name = "BASE64")]
    pub ech: Option<EchConfigs>,

    /// Mark packets as ECN-capable on paths that carry marks (RFC 9000, 13.4); l4s: with ECT(1) (RFC
    /// 9331)
    #[arg(
        long,
        value_enum,
        value_name = "on|off|l4s",
        default_value = "on",
        hide_possible_values = true
    )]
    pub ecn: EcnMode,

    /// Local address to send from
    #[arg(long, value_name = "ADDR")]
    pub local: Option<IpAddr>,

    /// File for the body, written when it is complete; - is standard output
    #[arg(short, long, value_name = "F")]
    pub output: Option<PathBuf>,

    /// Print one JSON line per download
    #[arg(long)]
    pub json: bool,

    /// Maximum duration of the handshake with one address, in seconds
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds_above_0)]
    pub connect_timeout: Duration,

    /// Time without packets after which a download fails, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds_above_0)]
    pub idle_timeout: Duration,

    #[command(flatten)]
    pub load: LoadOptions,
}

/// Load on a server: how many requests, and how many at a time.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadOptions {
    /// Send N requests on concurrent connections, and print one summary
    #[arg(long, value_name = "N", conflicts_with_all = ["repeat", "interval", "output", "resumption"])]
    pub requests: Option<NonZeroU32>,

    /// With --requests: number of concurrent connections
    #[arg(long, value_name = "N", default_value = "1", requires = "requests")]
    pub clients: NonZeroU32,

    /// With --requests: number of concurrent requests on each connection
    #[arg(long, value_name = "N", default_value = "1", requires = "requests")]
    pub streams: NonZeroU32,

    /// With --requests: number of requests after which a client opens a new connection
    /// [default: no limit]
    #[arg(long, value_name = "N", requires = "requests")]
    pub per_connection: Option<NonZeroU32>,

    /// With --requests: file with paths, one a line, that are requested in turn in place of the URL's
    #[arg(long, value_name = "F", requires = "requests", value_parser = Paths::read)]
    pub paths: Option<Paths>,

    /// With --requests: expected SHA-256 of every body, in hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "requests")]
    pub sha256: Option<Sha256>,
}

/// Reads the command line.
///
/// # Errors
///
/// It asks for help or the version, or makes no sense.
pub fn parse(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Stop> {
    let cli: Cli = command_line::parse(args)?;
    if cli.json && body::is_stdout(cli.output.as_deref()) {
        let both = "--json and -o - both need standard output; write the body to a file, or leave \
                    -o out";
        return Err(Stop::Usage(both.to_owned()));
    }
    let bytes: usize = cli.header.iter().map(HeaderField::bytes).sum();
    if bytes > HEADER_BYTES_MAX {
        return Err(Stop::Usage(format!(
            "--header: {bytes} bytes in all; write at most {HEADER_BYTES_MAX}, which the first window \
             of a connection holds"
        )));
    }
    Ok(cli)
}

/// The largest header fields: a header section is sent at once, and an initial window of ten packets
/// has to hold it (RFC 9002, 7.2).
const HEADER_BYTES_MAX: usize = 10_000;

fn groups(text: &str) -> Result<String, String> {
    let tls = SslContextBuilder::new(SslMethod::tls());
    match tls.and_then(|mut tls| tls.set_curves_list(text)) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err("not a list of groups that BoringSSL has, separated by colons".to_owned()),
    }
}

/// The longest time that an option takes: a day.
const SECONDS_MAX: f64 = 86_400.0;

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|s| (0.0..=SECONDS_MAX).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("not a number of seconds from 0 to {SECONDS_MAX}"))
}

fn seconds_above_0(text: &str) -> Result<Duration, String> {
    // The transport counts milliseconds, and 0 means never.
    match seconds(text)? {
        s if s < Duration::from_millis(1) => Err("must be at least 0.001 seconds".to_owned()),
        s => Ok(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse_words(line: &str) -> Result<Cli, Stop> {
        parse(line.split(' '))
    }

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_parsed() {
        let line = "edge-client https://h/x --connect 127.0.0.1:4433 --insecure \
                    --repeat 3 --interval 0.5 --reuse --early-data --local 127.0.2.1 -o out --json \
                    --connect-timeout 2 --idle-timeout 1.5 --groups X25519:P-256 --ecn off \
                    --cert c.pem --key k.pem";
        let cli = parse_words(line).unwrap();
        assert_eq!(cli.connect.unwrap().to_string(), "127.0.0.1:4433");
        assert!(cli.insecure);
        assert_eq!(cli.repeat.get(), 3);
        assert_eq!(cli.interval, Duration::from_millis(500));
        assert!(cli.reuse && cli.early_data);
        assert_eq!(cli.local.unwrap().to_string(), "127.0.2.1");
        assert_eq!(cli.output.as_deref(), Some("out".as_ref()));
        assert!(cli.json);
        assert_eq!(cli.connect_timeout, Duration::from_secs(2));
        assert_eq!(cli.idle_timeout, Duration::from_millis(1500));
        assert_eq!(cli.groups.as_deref(), Some("X25519:P-256"));
        assert_eq!(cli.ecn, EcnMode::Off);
        assert_eq!(cli.cert.as_deref(), Some("c.pem".as_ref()));
        assert_eq!(cli.key.as_deref(), Some("k.pem".as_ref()));
    }

    #[test]
    fn header_fields_fit_into_a_window() {
        let line = format!("edge-client https://h/ -H y:z -H x:{}", "a".repeat(9_997));
        assert!(parse_words(&line).is_ok());
        let Err(Stop::Usage(error)) = parse_words(&format!("{line}a")) else { panic!("too long") };
        assert!(error.contains("10001 bytes"), "{error}");
    }

    #[test]
    fn body_is_discarded_by_default() {
        let cli = parse_words("edge-client https://h/x").unwrap();
        assert_eq!(cli.output, None);
        assert!(!cli.reuse && !cli.early_data);
        assert_eq!(cli.idle_timeout, Duration::from_secs(30));
        assert_eq!(cli.ecn, EcnMode::On);
    }

    #[test]
    fn bad_usage_is_one_line_that_names_the_input() {
        let table = [
            ("edge-client", "<URL>"),
            ("edge-client http://h/", "'http://h/'"),
            ("edge-client https://h/ --frobnicate", "'--frobnicate'"),
            ("edge-client https://h/ --repeat 0", "'0'"),
            ("edge-client https://h/ --interval -1", "'-1'"),
            ("edge-client https://h/ --interval inf", "'inf'"),
            ("edge-client https://h/ --idle-timeout 0", "'0'"),
            ("edge-client https://h/ --early-data", "--reuse"),
            ("edge-client https://h/ --reuse --session f", "--session"),
            ("edge-client https://h/ --groups P-255", "'P-255'"),
            ("edge-client https://h/ --key k.pem", "--cert"),
            ("edge-client https://h/ --ech *", "'*'"),
            ("edge-client https://h/ --ecn maybe", "'maybe'"),
            ("edge-client https://h/ --local localhost", "'localhost'"),
            ("edge-client https://h/ --connect nowhere", "'nowhere'"),
            ("edge-client https://h/ --json -o -", "--json and -o -"),
            ("edge-client https://h/ https://i/", "'https://i/'"),
            ("edge-client https://h/ --clients 5", "--requests"),
            ("edge-client https://h/ --requests 0", "'0'"),
            ("edge-client https://h/ --requests 5 --repeat 2", "--repeat"),
            ("edge-client https://h/ --requests 5 --reuse", "--reuse"),
            ("edge-client https://h/ --requests 5 --sha256 12", "64 hexadecimal"),
            ("edge-client https://h/ --requests 5 --sha256 é", "64 hexadecimal"),
        ];
        for (line, named) in table {
            let Err(Stop::Usage(error)) = parse_words(line) else { panic!("{line}") };
            assert!(error.contains(named), "{line}: {error}");
            assert!(!error.contains('\n'), "{line}: {error}");
        }
    }
}
