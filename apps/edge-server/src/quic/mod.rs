//! Settings of QUIC and HTTP/3. A worker has its own: settings are not shared
//! by threads.

mod address;
pub mod certificate;
pub mod connection_id;
pub mod handle;
pub mod random;
pub mod secrets;
mod session_ticket;
pub mod stateless_reset;
pub mod token;

use crate::config::limits::PACKET_BYTES_MAX;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use quiche::careful_resume::CarefulResumeConfig;
use quiche::h3;
use quiche::hooks;
use quiche::BufFactory;
use quiche::CongestionControlAlgorithm;

use crate::config::limits::Limits;
use crate::config::Cli;
use crate::config::CongestionController;
use crate::config::OnOff;
use crate::quic::certificate::Certificates;
use crate::quic::secrets::SharedSecrets;

/// Largest UDP payload sent elsewhere, in bytes: fits every path that carries
/// Ethernet frames, as a rule tunnelled ones included.
const SAFE_PACKET_BYTES: usize = 1350;

/// The initial window in bytes while what a path takes is not known. A response must be
/// larger for a saved path, or for longer packets, to gain anything.
pub const INITIAL_WINDOW_BYTES: u64 = 10 * quiche::MIN_CLIENT_INITIAL_LEN as u64;

/// Largest UDP payload accepted, in bytes.
const RECEIVED_BYTES_MAX: usize = 65_527;

/// Clients send requests only: these windows, in bytes, hold many of them.
const CONNECTION_WINDOW_BYTES: u64 = 1 << 20;
const STREAM_WINDOW_BYTES: u64 = 1 << 16;

/// What the windows may grow to for uploads, in bytes: the most that is under way on
/// paths that the server is for. What comes is dropped at once.
const UPLOAD_WINDOW_BYTES_MAX: u64 = 24 << 20;

/// Control and QPACK streams of the client, and some to spare.
const CLIENT_STREAMS_MAX: u64 = 16;

/// Connection IDs for one client, so that it can change to a fresh one.
const CONNECTION_IDS_MAX: u64 = 4;

/// The largest header section that is read, as a multiple of the largest that is answered:
/// beyond the one the client is told why, beyond the other the connection is closed.
const HEADERS_READ: u64 = 2;

/// A connection of QUIC, which sends what it is given without copying it first.
pub type Quic = quiche::Connection<Buffers>;

/// Makes what a connection keeps until the client has it.
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

/// What new connections are made with.
pub struct Transport {
    pub quic: quiche::Config,
    pub http: h3::Config,
    pub secrets: SharedSecrets,
}

impl Transport {
    /// The settings that a command line asks for, with these certificates and secrets.
    ///
    /// # Errors
    ///
    /// A certificate or an option cannot be used.
    pub fn new(
        cli: &Cli,
        certificates: &Certificates,
        secrets: SharedSecrets,
    ) -> anyhow::Result<Self> {
        let mut tls = certificates.tls()?;
        session_ticket::share(&mut tls, secrets.clone());
        let mut quic = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)
            .context("cannot set up QUIC")?;
        quic.set_application_protos(h3::APPLICATION_PROTOCOL).context("cannot set up QUIC")?;
        hooks::set_sws_avoidance(&mut quic, true);
        hooks::set_spurious_loss_evidence(&mut quic, true);
        hooks::set_hystart_samples_per_ack(&mut quic, true);
        hooks::set_persistent_congestion(&mut quic, true);
        hooks::set_coalesce_streams(&mut quic, true);
        quic.set_cc_algorithm(match cli.cc {
            CongestionController::Cubic => CongestionControlAlgorithm::CUBIC,
            CongestionController::Reno => CongestionControlAlgorithm::Reno,
        });
        hooks::set_slow_start_exit(&mut quic, cli.slow_start_exit)
            .context("cannot set --slow-start-exit")?;
        let discovers = cli.pmtud == OnOff::On;
        quic.discover_pmtu(discovers);
        hooks::set_pmtud_start_after(&mut quic, INITIAL_WINDOW_BYTES);
        quic.set_max_send_udp_payload_size(match discovers {
            true => PACKET_BYTES_MAX,
            false => SAFE_PACKET_BYTES,
        });
        set_limits(&mut quic, &cli.limits, cli.speedtest);
        if cli.early_data == OnOff::On {
            quic.enable_early_data();
        }
        if cli.resumes() {
            hooks::set_careful_resume(&mut quic, resume_config(cli))
                .context("cannot enable --resume")?;
        }

        let mut http = h3::Config::new().context("cannot set up HTTP/3")?;
        http.set_max_field_section_size(HEADERS_READ * u64::from(cli.limits.header_bytes_max));
        Ok(Self { quic, http, secrets })
    }
}

fn resume_config(cli: &Cli) -> CarefulResumeConfig {
    CarefulResumeConfig {
        max_jump: cli.limits.max_jump as usize,
        lifetime: Duration::from_secs(cli.path_lifetime.into()),
        after_jump: cli.after_jump,
        ..Default::default()
    }
}

fn set_limits(quic: &mut quiche::Config, limits: &Limits, uploads: bool) {
    quic.set_max_recv_udp_payload_size(RECEIVED_BYTES_MAX);
    quic.set_max_idle_timeout(limits.idle_time().as_millis() as u64);
    quic.set_initial_max_data(CONNECTION_WINDOW_BYTES);
    let grown = |least: u64| if uploads { UPLOAD_WINDOW_BYTES_MAX } else { least };
    quic.set_max_connection_window(grown(CONNECTION_WINDOW_BYTES));
    quic.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW_BYTES);
    quic.set_initial_max_stream_data_uni(STREAM_WINDOW_BYTES);
    quic.set_max_stream_window(grown(STREAM_WINDOW_BYTES));
    quic.set_initial_max_streams_bidi(limits.requests_max.into());
    quic.set_initial_max_streams_uni(CLIENT_STREAMS_MAX);
    quic.set_active_connection_id_limit(CONNECTION_IDS_MAX);
}
