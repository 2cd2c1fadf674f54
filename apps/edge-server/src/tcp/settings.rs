//! Configuration of the TCP side, which a reload replaces.

use anyhow::Context;
use boring::ssl::select_next_proto;
use boring::ssl::AlpnError;
use boring::ssl::SslContext;

use crate::acme::challenges;
use crate::acme::challenges::ALPN_PROTOCOL;
use crate::acme::challenges::ALPN_PROTOCOL_LIST;
use crate::config::acme::AcmeFiles;
use crate::config::limits::Limits;
use crate::config::Cli;
use crate::content::hosts::VirtualHosts;
use crate::quic::certificate::Certificates;
use crate::quic::client_hello;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets::SharedSecrets;
use crate::quic::session_ticket;

/// Protocols by preference, as ALPN has them (RFC 7301, 3.1).
const PROTOCOLS: &[u8] = b"\x02h2\x08http/1.1";

/// Ciphers of TLS 1.2: those with forward secrecy and authenticated encryption alone, as HTTP/2
/// requires (RFC 9113, 9.2.2).
const TLS12_CIPHERS: &str = "ECDHE+AESGCM:ECDHE+CHACHA20";

/// Configuration from the start or a reload to the next.
pub struct TcpConfig {
    pub tls: SslContext,
    pub virtual_hosts: VirtualHosts,
    pub limits: Limits,

    /// Responses to an ACME authority's challenges.
    pub challenges: Option<AcmeFiles>,
}

impl TcpConfig {
    /// Returns the configuration.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects a certificate.
    pub fn new(
        cli: &Cli,
        virtual_hosts: &VirtualHosts,
        certificates: &Certificates,
        secrets: &SharedSecrets,
    ) -> anyhow::Result<Self> {
        let controllers = HostControllers::default();
        let mut tls = client_hello::tls(&cli.tls, certificates, &controllers)?;
        let challenges = cli.acme.files();
        if let Some(files) = challenges.clone() {
            let certificates = certificates.clone();
            tls.set_select_certificate_callback(move |mut hello| {
                challenges::respond_in_handshake(&files, &mut hello)
                    .unwrap_or_else(|| client_hello::select(&certificates, &controllers, hello))
            });
        }
        session_ticket::configure(&mut tls, secrets.clone());
        tls.set_min_proto_version(Some(cli.tls.tls_min.into())).context("cannot set up TLS")?;
        tls.set_cipher_list(TLS12_CIPHERS).context("cannot set up TLS")?;
        let answers_challenges = challenges.is_some();
        tls.set_alpn_select_callback(move |_, offered| {
            // The certificate is the response, if it has come to this.
            if answers_challenges && offered == ALPN_PROTOCOL_LIST {
                return Ok(ALPN_PROTOCOL);
            }
            select_next_proto(PROTOCOLS, offered).ok_or(AlpnError::ALERT_FATAL)
        });
        Ok(Self {
            tls: tls.build(),
            virtual_hosts: virtual_hosts.clone(),
            limits: cli.limits.clone(),
            challenges,
        })
    }
}
