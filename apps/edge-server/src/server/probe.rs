//! Command that requests a page and tells by its exit code whether it came (`edge-server probe`), for
//! health checks where there is no other client.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Take;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::net::ToSocketAddrs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use clap::Parser;
use hyper::Uri;
use quiche::clock;
use quiche::h3;
use quiche::h3::NameValue;
use quiche::ConnectionId;
use quiche::RecvInfo;

use crate::config::PROGRAM;

quiche::stand_ins!();

/// Authorities of servers' certificates: a variable that names their file, and the system's.
const AUTHORITIES: &str = "SSL_CERT_FILE";
const AUTHORITIES_OF_SYSTEM: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Errors of a handshake: alerts of TLS (RFC 9001, 4.8; RFC 8446, 6), and a server that refuses
/// (RFC 9000, 20.1).
const BAD_CERTIFICATE: u64 = 0x100 + 42;
const CERTIFICATE_EXPIRED: u64 = 0x100 + 45;
const UNKNOWN_CA: u64 = 0x100 + 48;
const CONNECTION_REFUSED: u64 = 2;

/// Most bytes of a packet, and of the header sections of responses.
const PACKET_BYTES_MAX: usize = 1500;
const HEADER_BYTES_MAX: u64 = 16 * 1024;

/// Flow-control window: what comes of the body is not read.
const WINDOW: u64 = 1 << 20;

/// Requests a page over HTTP/3 (https://…), or over plain HTTP/1.1 (http://…).
///
/// Prints the status. Exit codes: 0 the status is below 400, 1 it is not, or there is no response, 2
/// bad usage.
#[derive(Debug, Parser)]
#[command(name = "edge-server probe", bin_name = "edge-server probe")]
pub struct ProbeCli {
    /// Page to request, such as http://127.0.0.1:9100/readyz
    #[arg(value_parser = parse_url)]
    url: Uri,

    /// Address to connect to in place of that of the URL
    #[arg(long, value_name = "ADDR:PORT")]
    connect: Option<SocketAddr>,

    /// Accept any certificate
    #[arg(long)]
    insecure: bool,

    /// Longest time that the response may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u16).range(1..))]
    timeout: u16,
}

/// Runs the command, whose name is the first of `args`.
pub fn main(args: &[OsString]) -> ExitCode {
    let cli: ProbeCli = match command_line::parse(args) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    match probe(&cli) {
        Ok(status) if status < 400 => {
            PROGRAM.print(format_args!("{status}\n"));
            ExitCode::SUCCESS
        }
        Ok(status) => PROGRAM.fail(format_args!("{}: status {status}", cli.url)),
        Err(error) => PROGRAM.fail(format_args!("{}: {error:#}", cli.url)),
    }
}

fn parse_url(text: &str) -> Result<Uri, String> {
    let wanted = "write it as https://HOST[:PORT]/PATH or http://HOST[:PORT]/PATH";
    let url: Uri = text.parse().map_err(|e| format!("{e}; {wanted}"))?;
    let Some(authority) = url.authority().filter(|authority| !authority.as_str().contains('@'))
    else {
        return Err(wanted.to_owned());
    };
    // A port that is none reads as if there were none.
    let has_port = authority.as_str().len() > authority.host().len();
    match (url.scheme_str(), url.port_u16()) {
        (_, None | Some(0)) if has_port => Err("the port is a number from 1 to 65535".to_owned()),
        (Some("http" | "https"), _) => Ok(url),
        _ => Err(wanted.to_owned()),
    }
}

/// Returns the status of the response.
fn probe(cli: &ProbeCli) -> anyhow::Result<u16> {
    let deadline = clock::now() + Duration::from_secs(cli.timeout.into());
    let is_plain = cli.url.scheme_str() == Some("http");
    let address = match cli.connect {
        Some(address) => address,
        None => resolve(&cli.url, if is_plain { 80 } else { 443 })?,
    };
    let status = match is_plain {
        true => probe_tcp(&cli.url, address, deadline),
        false => probe_quic(cli, address, deadline),
    };
    status.map_err(explained)
}

fn resolve(url: &Uri, default_port: u16) -> anyhow::Result<SocketAddr> {
    let host = host(url);
    let found = (host, url.port_u16().unwrap_or(default_port)).to_socket_addrs();
    let mut found = found.with_context(|| format!("cannot resolve {host}"))?;
    found.next().with_context(|| format!("{host} has no address"))
}

/// Returns the host without the brackets of an IPv6 address.
fn host(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn authority(url: &Uri) -> &str {
    url.authority().map_or("", |authority| authority.as_str())
}

fn target(url: &Uri) -> &str {
    url.path_and_query().map_or("/", |target| target.as_str())
}

/// Returns the time that is left.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(clock::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

fn probe_tcp(url: &Uri, address: SocketAddr, deadline: Instant) -> anyhow::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
    let (target, authority) = (target(url), authority(url));
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream).take(HEADER_BYTES_MAX);
    loop {
        let status = read_status(&mut reader, deadline)?;
        // An interim response stands before the one that counts.
        if status >= 200 {
            return Ok(status);
        }
    }
}

/// Reads the header section of a response over HTTP/1.1. Returns its status.
fn read_status(reader: &mut Take<BufReader<TcpStream>>, deadline: Instant) -> anyhow::Result<u16> {
    let mut status = None;
    loop {
        reader.get_ref().get_ref().set_read_timeout(Some(left(deadline)?))?;
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        ensure!(!line.is_empty(), "the server has closed the connection without a response");
        let line = line.trim_ascii_end();
        match status {
            Some(status) if line.is_empty() || status >= 200 => return Ok(status),
            Some(_) => (),
            None => {
                status = Some(
                    status_of(line)
                        .context("the response is no HTTP/1.1; for HTTP/3, write https://")?,
                )
            }
        }
    }
}

/// Returns the status that a status line has (RFC 9112, 4).
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?;
    let (digits, rest) = rest.split_at_checked(3)?;
    let is_whole = rest.first().is_none_or(|next| *next == b' ');
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_whole && (100..600).contains(&status)).then_some(status)
}

fn probe_quic(cli: &ProbeCli, address: SocketAddr, deadline: Instant) -> anyhow::Result<u16> {
    let mut config = quic_config(cli)?;
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    let info = RecvInfo { from: address, to: socket.local_addr()? };
    let name = host(&cli.url);
    let name = name.parse::<std::net::IpAddr>().is_err().then_some(name);
    let id = ConnectionId::default();
    let mut connection = quiche::connect(name, &id, info.to, address, &mut config)?;
    let mut session = None;
    let mut packet = [0; PACKET_BYTES_MAX];
    loop {
        while let Ok((length, _)) = connection.send(&mut packet) {
            socket.send(&packet[..length])?;
        }
        let timeout = left(deadline)?.min(connection.timeout().unwrap_or(Duration::MAX));
        socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        match socket.recv(&mut packet) {
            // What cannot be read is not from the server.
            Ok(length) => drop(connection.recv(&mut packet[..length], info)),
            Err(e) if is_timeout(&e) => connection.on_timeout(),
            Err(e) => return Err(e.into()),
        }
        if connection.is_closed() || connection.is_draining() {
            bail!(reason_of_end(&connection));
        }
        if session.is_none() && connection.is_established() {
            session = Some(request(&mut connection, &cli.url)?);
        }
        let status =
            session.as_mut().map(|session| status(session, &mut connection)).transpose()?;
        if let Some(status) = status.flatten() {
            let _ = connection.close(true, h3::WireErrorCode::NoError as u64, b"");
            while let Ok((length, _)) = connection.send(&mut packet) {
                socket.send(&packet[..length])?;
            }
            return Ok(status);
        }
    }
}

fn quic_config(cli: &ProbeCli) -> anyhow::Result<quiche::Config> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_uni(16);
    config.set_max_idle_timeout(u64::from(cli.timeout) * 1000);
    config.verify_peer(!cli.insecure);
    if cli.insecure {
        return Ok(config);
    }
    let is_address = host(&cli.url).parse::<std::net::IpAddr>().is_ok();
    ensure!(
        !is_address,
        "certificates are for names: write one, and --connect ADDR:PORT, or --insecure"
    );
    let named = std::env::var_os(AUTHORITIES).map(PathBuf::from);
    let of_system = || AUTHORITIES_OF_SYSTEM.map(PathBuf::from).into_iter().find(|f| f.exists());
    let file = named.or_else(of_system).context(
        "there are no authorities to check certificates with; install ca-certificates, or set \
         SSL_CERT_FILE",
    )?;
    fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?;
    config.load_verify_locations_from_file(&file.to_string_lossy())?;
    Ok(config)
}

fn request(connection: &mut quiche::Connection, url: &Uri) -> anyhow::Result<h3::Connection> {
    let mut session = h3::Connection::with_transport(connection, &h3::Config::new()?)?;
    let field = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    let fields = [
        field(":method", "GET"),
        field(":scheme", "https"),
        field(":authority", authority(url)),
        field(":path", target(url)),
        field("user-agent", "edge-server probe"),
    ];
    session.send_request(connection, &fields, true)?;
    Ok(session)
}

/// Returns the status of the response, if it is there.
fn status(
    session: &mut h3::Connection,
    connection: &mut quiche::Connection,
) -> anyhow::Result<Option<u16>> {
    loop {
        match session.poll(connection) {
            Ok((_, h3::Event::Headers { list, .. })) => {
                let status = list.iter().find(|field| field.name() == b":status");
                let status = status.and_then(|field| std::str::from_utf8(field.value()).ok());
                let status: u16 = status.context("no status")?.parse()?;
                // An interim response stands before the one that counts.
                if status >= 200 {
                    return Ok(Some(status));
                }
            }
            Ok((_, h3::Event::Reset(code))) => {
                bail!("the server has reset the request (0x{code:x})")
            }
            Ok(_) => (),
            Err(h3::Error::Done) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

fn reason_of_end(connection: &quiche::Connection) -> String {
    if let Some(error) = connection.local_error() {
        return match error.error_code {
            UNKNOWN_CA => "the certificate is of an unknown authority; name its file by \
                           SSL_CERT_FILE, or add --insecure"
                .to_owned(),
            BAD_CERTIFICATE => {
                "the certificate is not for this name; write one of its names, or add --insecure"
                    .to_owned()
            }
            CERTIFICATE_EXPIRED => "the certificate has expired; renew it".to_owned(),
            code => format!("the handshake has failed (0x{code:x})"),
        };
    }
    match connection.peer_error() {
        Some(error) if error.error_code == CONNECTION_REFUSED => {
            "the server takes no new connections: it ends, or has as many as it may have".to_owned()
        }
        Some(error) => format!("the server has closed the connection (0x{:x})", error.error_code),
        None => "no response in time".to_owned(),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Replaces an error of the system by what the operator can do.
fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<io::Error>() {
        Some(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("nobody listens there; start the server")
        }
        Some(e) if is_timeout(e) => anyhow::anyhow!("no response in time"),
        _ => error,
    }
}
