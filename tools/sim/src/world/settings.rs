//! Settings of QUIC, TLS and HTTP/3: those of edge-server and edge-client.
//! Each thread creates them once; what differs between flows is set before a
//! connection is created.

use std::net::SocketAddr;
use std::sync::OnceLock;

use anyhow::Context;
use boring::pkey::PKey;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::ssl::SslSignatureAlgorithm;
use boring::ssl::SslVerifyMode;
use boring::x509::X509;
use quiche::careful_resume::CarefulResumeConfig;
use quiche::h3;
use quiche::CongestionControlAlgorithm;
use quiche::ConnectionId;

use super::packets::PACKET_BYTES_MAX;
use super::plan::FlowPlan;
use crate::scenario::Controller;
use crate::scenario::Mode;

quiche::stand_ins!();

/// A connection without packets ends after this many milliseconds.
const IDLE_TIMEOUT_MS: u64 = 30_000;

/// Largest header section accepted, in bytes.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// The client's flow-control windows in bytes: larger than any path holds.
const CLIENT_WINDOW_BYTES: u64 = 1 << 30;

/// The server's windows, for requests alone.
const SERVER_WINDOW_BYTES: u64 = 1 << 20;
const SERVER_STREAM_WINDOW_BYTES: u64 = 1 << 16;

/// Control and QPACK streams, and some to spare.
const UNI_STREAMS_MAX: u64 = 16;

const REQUESTS_MAX: u64 = 128;
const CONNECTION_IDS_MAX: u64 = 4;

/// Settings of new connections.
pub struct Settings {
    server: quiche::Config,
    /// Neither L4S, which paces, nor Careful Resume can be taken out of settings again.
    l4s_server: quiche::Config,
    resuming_server: quiche::Config,
    client: quiche::Config,
    pub http: h3::Config,
}

impl Settings {
    /// # Errors
    ///
    /// None is expected.
    pub fn new() -> anyhow::Result<Self> {
        let mut http = h3::Config::new().context("cannot set up HTTP/3")?;
        http.set_max_field_section_size(HEADERS_BYTES_MAX);
        Ok(Self {
            server: server_config().context("cannot set up QUIC")?,
            l4s_server: server_config().context("cannot set up QUIC")?,
            resuming_server: server_config().context("cannot set up QUIC")?,
            client: client_config().context("cannot set up QUIC")?,
            http,
        })
    }

    /// Creates the server's end of a flow.
    ///
    /// # Errors
    ///
    /// The transport's.
    pub fn accept(
        &mut self,
        plan: &FlowPlan,
        id: &[u8],
        local: SocketAddr,
        peer: SocketAddr,
    ) -> quiche::Result<quiche::Connection> {
        let is_l4s = plan.ecn.is_some_and(|ecn| ecn.l4s);
        let config = match plan.mode {
            Mode::SlowStart if is_l4s => &mut self.l4s_server,
            Mode::SlowStart => &mut self.server,
            Mode::CarefulResume => {
                let FlowPlan { max_jump, after_jump, .. } = *plan;
                let resume = CarefulResumeConfig { max_jump, after_jump, ..Default::default() };
                self.resuming_server.set_careful_resume(resume)?;
                &mut self.resuming_server
            }
        };
        config.set_cc_algorithm(match plan.cc {
            Controller::Cubic => CongestionControlAlgorithm::CUBIC,
            Controller::Reno => CongestionControlAlgorithm::Reno,
            Controller::Bbr2 => CongestionControlAlgorithm::Bbr2Gcongestion,
        });
        config.set_initial_congestion_window_packets(plan.initial_window_packets);
        config.set_slow_start_exit(plan.slow_start_exit)?;
        config.set_ecn(plan.ecn);
        quiche::accept(&ConnectionId::from_ref(id), None, local, peer, config)
    }

    /// Creates the client's end of a flow.
    ///
    /// # Errors
    ///
    /// The transport's.
    pub fn connect(
        &mut self,
        plan: &FlowPlan,
        id: &[u8],
        local: SocketAddr,
        peer: SocketAddr,
    ) -> quiche::Result<quiche::Connection> {
        let window_bytes = plan.client_window_bytes.unwrap_or(CLIENT_WINDOW_BYTES);
        let config = &mut self.client;
        config.set_initial_max_data(window_bytes);
        config.set_initial_max_stream_data_bidi_local(window_bytes);
        config.set_initial_max_stream_data_uni(window_bytes);
        config.set_max_connection_window(window_bytes);
        config.set_max_stream_window(window_bytes);
        config.set_ecn(plan.ecn);
        quiche::connect(Some("localhost"), &ConnectionId::from_ref(id), local, peer, config)
    }
}

fn server_config() -> anyhow::Result<quiche::Config> {
    let certificate = Certificate::of_this_process()?;
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    let leaf = X509::from_der(&certificate.der)?;
    tls.set_certificate(&leaf)?;
    let key = PKey::private_key_from_der(&certificate.key_der)?;
    tls.set_private_key(&key)?;

    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_sws_avoidance(true);
    config.set_spurious_loss_evidence(true);
    config.set_hystart_samples_per_ack(true);
    config.set_custom_bbr_params(quiche::bbr2_params());
    config.set_bbr2_batches(true);
    config.set_max_send_udp_payload_size(PACKET_BYTES_MAX);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_initial_max_data(SERVER_WINDOW_BYTES);
    config.set_max_connection_window(SERVER_WINDOW_BYTES);
    config.set_initial_max_stream_data_bidi_remote(SERVER_STREAM_WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(SERVER_STREAM_WINDOW_BYTES);
    config.set_max_stream_window(SERVER_STREAM_WINDOW_BYTES);
    config.set_initial_max_streams_bidi(REQUESTS_MAX);
    config.set_initial_max_streams_uni(UNI_STREAMS_MAX);
    config.set_active_connection_id_limit(CONNECTION_IDS_MAX);
    config.set_disable_active_migration(true);
    Ok(config)
}

fn client_config() -> anyhow::Result<quiche::Config> {
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    tls.set_verify(SslVerifyMode::NONE);
    tls.set_verify_algorithm_prefs(&[SslSignatureAlgorithm::ED25519])?;

    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_streams_uni(UNI_STREAMS_MAX);
    config.set_max_idle_timeout(IDLE_TIMEOUT_MS);
    config.set_disable_active_migration(true);
    Ok(config)
}

/// PKCS #8 of an Ed25519 key (RFC 8410, 7), up to the key itself.
const KEY_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Nobody is to be kept out of a simulation.
const KEY: [u8; 32] = [7; 32];

/// A certificate that is always the same. Signatures of Ed25519 all have one
/// length, unlike those of ECDSA, and are made in no time, unlike those of RSA.
struct Certificate {
    der: Vec<u8>,
    key_der: Vec<u8>,
}

impl Certificate {
    fn of_this_process() -> anyhow::Result<&'static Self> {
        static MADE: OnceLock<Certificate> = OnceLock::new();
        if let Some(made) = MADE.get() {
            return Ok(made);
        }
        let made = Self::make().context("cannot create a certificate")?;
        Ok(MADE.get_or_init(|| made))
    }

    fn make() -> anyhow::Result<Self> {
        let key_der = [&KEY_PREFIX[..], &KEY].concat();
        let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(
            &key_der.as_slice().into(),
            &rcgen::PKCS_ED25519,
        )?;
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()])?;
        params.serial_number = Some(1_u64.into());
        let cert = params.self_signed(&key)?;
        Ok(Self { der: cert.der().to_vec(), key_der })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_is_always_the_same() {
        assert_eq!(Certificate::make().unwrap().der, Certificate::make().unwrap().der);
    }
}
