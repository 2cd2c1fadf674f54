//! QUIC and TLS settings of the client.

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use command_line::EcnMode;
use quiche::ecn::EcnConfig;
use quiche::ConnectionId;
use url::Host;

use crate::cli::Cli;
use crate::client_certificate;
use crate::failure::Failure;

quiche::stand_ins!();

/// Flow-control windows of the connection and of its streams, in bytes. The body is read as it
/// arrives, so that this only limits what may arrive out of order: more than any path holds.
const WINDOW: u64 = 1 << 30;

/// Unidirectional streams that the server may open: more than its control and QPACK streams.
const SERVER_STREAMS: u64 = 16;

/// Why the server's certificate was refused, written during the handshake.
pub type Refusal = Arc<Mutex<Option<String>>>;

/// Settings for connections to one host, one connection at a time.
pub struct Transport {
    pub config: quiche::Config,
    refusal: Refusal,
}

impl Transport {
    /// Creates the settings. Acknowledgements are those of quiche: sent after every batch of
    /// packets, never delayed, with the protocol's default `max_ack_delay`.
    pub fn new(cli: &Cli) -> Result<Self, Failure> {
        let (host, insecure, idle_timeout) = (&cli.target.host, cli.insecure, cli.idle_timeout);
        let refusal = Refusal::default();
        let mut tls = tls_settings(host, insecure, &refusal)?;
        if let Some(groups) = &cli.groups {
            tls.set_curves_list(groups).map_err(tls_failure)?;
        }
        if let Some(cert) = &cli.cert {
            client_certificate::configure(&mut tls, cert, cli.key.as_deref())
                .map_err(Failure::failed)?;
        }
        let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)
            .and_then(|mut config| {
                config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
                Ok(config)
            })
            .map_err(|e| Failure::failed(format!("cannot set up QUIC: {e}")))?;

        config.set_initial_max_data(WINDOW);
        config.set_initial_max_stream_data_bidi_local(WINDOW);
        config.set_initial_max_stream_data_uni(WINDOW);
        config.set_max_connection_window(WINDOW);
        config.set_max_stream_window(WINDOW);
        config.set_initial_max_streams_uni(SERVER_STREAMS);
        config.set_max_idle_timeout(u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX));
        config.set_disable_active_migration(true);
        // As browsers do (RFC 9000, 13).
        config.set_coalesce_streams(true);
        let l4s = cli.ecn == EcnMode::L4s;
        config.set_ecn((cli.ecn != EcnMode::Off).then(|| EcnConfig { l4s, ..Default::default() }));
        if cli.early_data {
            config.enable_early_data();
        }

        Ok(Self { config, refusal })
    }

    /// Returns why the last server's certificate was refused, if it was.
    pub fn take_refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the name for the handshake: none for an address (RFC 6066, 3).
pub fn server_name(host: &Host) -> Option<&str> {
    match host {
        Host::Domain(name) => Some(name),
        Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

/// Returns the connection ID of every connection: none. Each has a socket of its own, which tells
/// its packets apart (RFC 9000, 5.1), and each packet to us has room for more data.
pub fn connection_id() -> ConnectionId<'static> {
    ConnectionId::default()
}

fn tls_failure(error: ErrorStack) -> Failure {
    Failure::failed(format!("cannot set TLS up: {error}"))
}

fn tls_settings(
    host: &Host,
    insecure: bool,
    refusal: &Refusal,
) -> Result<SslContextBuilder, Failure> {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).map_err(tls_failure)?;
    if insecure {
        tls.set_verify(SslVerifyMode::NONE);
        return Ok(tls);
    }

    load_authorities(&mut tls)?;
    // quiche requests the check of a host name, but not that of an address.
    let ip: Option<IpAddr> = match host {
        Host::Domain(_) => None,
        Host::Ipv4(ip) => Some((*ip).into()),
        Host::Ipv6(ip) => Some((*ip).into()),
    };
    if let Some(ip) = ip {
        tls.cert_store_mut().verify_param_mut().set_ip(ip).map_err(tls_failure)?;
    }

    let refusal = Arc::clone(refusal);
    tls.set_verify_callback(SslVerifyMode::PEER, move |trusted, context| {
        if let Err(e) = context.verify_result() {
            let mut reason = refusal.lock().unwrap_or_else(PoisonError::into_inner);
            reason.get_or_insert_with(|| e.error_string().to_owned());
        }
        trusted
    });
    Ok(tls)
}

/// Trusts SSL_CERT_FILE and SSL_CERT_DIR if either is set, else the system's certificates.
fn load_authorities(tls: &mut SslContextBuilder) -> Result<(), Failure> {
    let (file, dir) = (env::var_os("SSL_CERT_FILE"), env::var_os("SSL_CERT_DIR"));
    if file.is_some() || dir.is_some() {
        return load_given(tls, file, dir);
    }

    let system = openssl_probe::probe();
    let mut loaded = false;
    if let Some(file) = system.cert_file {
        loaded |= load(tls, Some(&file), None).is_ok();
    }
    for dir in system.cert_dir {
        loaded |= load(tls, None, Some(&dir)).is_ok();
    }
    match loaded {
        true => Ok(()),
        false => Err(Failure::failed(
            "this system has no CA certificates to check the server with; \
             install ca-certificates, set SSL_CERT_FILE, or skip the check with \
             --insecure",
        )),
    }
}

fn load_given(
    tls: &mut SslContextBuilder,
    file: Option<OsString>,
    dir: Option<OsString>,
) -> Result<(), Failure> {
    let unusable = |variable: &str, path: &Path, reason: String| {
        Failure::failed(format!(
            "cannot use {variable}={}: {reason}; correct or unset it, or skip \
             the check with --insecure",
            path.display()
        ))
    };
    if let Some(file) = file.as_deref().map(Path::new) {
        load(tls, Some(file), None).map_err(|reason| unusable("SSL_CERT_FILE", file, reason))?;
    }
    if let Some(dir) = dir.as_deref().map(Path::new) {
        load(tls, None, Some(dir)).map_err(|reason| unusable("SSL_CERT_DIR", dir, reason))?;
    }
    Ok(())
}

fn load(
    tls: &mut SslContextBuilder,
    file: Option<&Path>,
    dir: Option<&Path>,
) -> Result<(), String> {
    // BoringSSL's message for a missing file is about its BIO layer.
    for path in file.iter().chain(&dir) {
        std::fs::metadata(path).map_err(|e| e.to_string())?;
    }
    tls.load_verify_locations(file, dir)
        .map_err(|_| "it holds no certificate in PEM form".to_owned())
}
