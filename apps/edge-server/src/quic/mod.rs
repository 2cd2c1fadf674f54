//! QUIC settings and identifiers of a worker; each worker has its own quiche configuration.

mod address;
pub mod certificate;
mod client_authorities;
pub mod client_certificate;
pub mod client_hello;
pub mod client_shards;
pub mod connection_id;
pub mod controllers;
mod ech;
pub mod ech_config;
pub mod handle;
pub mod header;
mod offered_signatures;
pub mod quic_lb;
pub mod quic_lb_set;
pub mod random;
pub mod secrets;
pub mod session_ticket;
pub mod stateless_reset;
pub mod token;
pub mod worker_octet;
mod x509;

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use command_line::OnOff;
use quiche::careful_resume::CarefulResumeConfig;
use quiche::h3;
use quiche::BufFactory;

use crate::config::limits::Limits;
use crate::config::limits::CONNECTION_WINDOW_BYTES;
use crate::config::limits::DECODED_HEADERS_MULTIPLE;
use crate::config::limits::PACKET_BYTES_MAX;
use crate::config::limits::UPLOAD_WINDOW_BYTES_MAX;
use crate::config::listener::Listener;
use crate::config::Cli;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets::SharedSecrets;

quiche::stand_ins!();

/// Largest UDP payload sent without path MTU discovery, in bytes: leaves space in an Ethernet
/// frame for the headers of common tunnels.
const SAFE_PACKET_BYTES: usize = 1350;

/// Initial window in bytes before path MTU discovery. Responses that fit in it gain nothing from
/// saved parameters or from larger packets.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * quiche::MIN_CLIENT_INITIAL_LEN as u64;

/// Largest UDP payload accepted, in bytes.
const RECEIVED_BYTES_MAX: usize = 65_527;

/// Flow-control window of a stream, in bytes.
const STREAM_WINDOW_BYTES: u64 = 1 << 16;

/// Limit on unidirectional streams of the client: control, QPACK and some reserved types.
const CLIENT_STREAMS_MAX: u64 = 16;

/// Limit on connection IDs of a connection; a client needs unused ones to migrate.
const CONNECTION_IDS_MAX: u64 = 4;

/// QUIC connection that sends response bodies without copying them.
pub type Quic = quiche::Connection<Buffers>;

/// Factory of the buffers that hold stream data until it is acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Buffers;

impl BufFactory for Buffers {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    fn dgram_buf_from_slice(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

/// Configuration of new connections.
pub struct Transport {
    pub quic: quiche::Config,
    pub http: h3::Config,
    pub secrets: SharedSecrets,

    /// What clients may rely on in early data: that of a session with anything else is refused.
    pub early_data_context: Vec<u8>,
}

impl Transport {
    /// Builds the configuration of a listener from the command line, certificates, controllers and
    /// secrets.
    ///
    /// # Errors
    ///
    /// A certificate or an option is unusable.
    pub fn new(
        cli: &Cli,
        listener: &Listener,
        certificates: &Certificates,
        controllers: &HostControllers,
        secrets: SharedSecrets,
    ) -> anyhow::Result<Self> {
        let mut tls = client_hello::tls(&cli.tls, certificates, controllers)?;
        session_ticket::configure(&mut tls, secrets.clone());
        let mut quic = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)
            .context("cannot set up QUIC")?;
        quic.set_application_protos(h3::APPLICATION_PROTOCOL).context("cannot set up QUIC")?;
        quic.set_sws_avoidance(true);
        quic.set_spurious_loss_evidence(true);
        quic.set_hystart_samples_per_ack(true);
        quic.set_coalesce_streams(true);
        quic.set_cc_algorithm(controllers.default_or(cli.controller_of(listener)).into());
        quic.set_custom_bbr_params(quiche::bbr2_params());
        quic.set_bbr2_batches(true);
        quic.set_slow_start_exit(cli.slow_start_exit).context("cannot set --slow-start-exit")?;
        quic.set_ecn(cli.ecn());
        let pmtud = cli.pmtud == OnOff::On;
        quic.discover_pmtu(pmtud);
        quic.set_pmtud_start_after(INITIAL_WINDOW_BYTES);
        quic.set_max_send_udp_payload_size(match pmtud {
            true => PACKET_BYTES_MAX,
            false => SAFE_PACKET_BYTES,
        });
        set_limits(&mut quic, &cli.limits, cli.speedtest);
        if cli.early_data == OnOff::On {
            quic.enable_early_data();
        }
        if cli.resumes() {
            quic.set_careful_resume(resume_config(cli)).context("cannot enable --resume")?;
        }

        let mut http = h3::Config::new().context("cannot set up HTTP/3")?;
        http.set_max_field_section_size(field_section_bytes_max(&cli.limits));
        let early_data_context = early_data_context(&cli.limits, cli.speedtest);
        Ok(Self { quic, http, secrets, early_data_context })
    }
}

fn resume_config(cli: &Cli) -> CarefulResumeConfig {
    CarefulResumeConfig {
        max_jump: cli.limits.max_jump as usize,
        lifetime: Duration::from_secs(cli.path_lifetime.into()),
        after_jump: cli.after_jump,
        early_jump: cli.early_jump == OnOff::On,
        ..Default::default()
    }
}

/// Returns the transport parameters and settings that a client remembers with its session, and that must
/// not be less if its early data is accepted (RFC 9000, 7.4.1; RFC 9114, 7.2.4.2).
fn early_data_context(limits: &Limits, uploads: bool) -> Vec<u8> {
    let remembered = [
        CONNECTION_WINDOW_BYTES,
        request_window(uploads),
        STREAM_WINDOW_BYTES,
        limits.requests_max.into(),
        CLIENT_STREAMS_MAX,
        CONNECTION_IDS_MAX,
        field_section_bytes_max(limits),
    ];
    remembered.into_iter().flat_map(u64::to_be_bytes).collect()
}

fn field_section_bytes_max(limits: &Limits) -> u64 {
    DECODED_HEADERS_MULTIPLE * u64::from(limits.header_bytes_max)
}

/// An upload is one stream, and has the whole window.
fn request_window(uploads: bool) -> u64 {
    if uploads {
        CONNECTION_WINDOW_BYTES
    } else {
        STREAM_WINDOW_BYTES
    }
}

fn set_limits(quic: &mut quiche::Config, limits: &Limits, uploads: bool) {
    quic.set_max_recv_udp_payload_size(RECEIVED_BYTES_MAX);
    quic.set_max_idle_timeout(limits.idle_time().as_millis() as u64);
    quic.set_initial_max_data(CONNECTION_WINDOW_BYTES);
    let window_max = |initial: u64| if uploads { UPLOAD_WINDOW_BYTES_MAX } else { initial };
    quic.set_max_connection_window(window_max(CONNECTION_WINDOW_BYTES));
    quic.set_initial_max_stream_data_bidi_remote(request_window(uploads));
    quic.set_initial_max_stream_data_uni(STREAM_WINDOW_BYTES);
    quic.set_max_stream_window(window_max(STREAM_WINDOW_BYTES));
    quic.set_initial_max_streams_bidi(limits.requests_max.into());
    quic.set_initial_max_streams_uni(CLIENT_STREAMS_MAX);
    quic.set_active_connection_id_limit(CONNECTION_IDS_MAX);
}
