//! TLS settings, and what the server name (SNI) of a ClientHello selects: certificate and
//! congestion controller.

use anyhow::Context;
use boring::ssl::ClientHello;
use boring::ssl::NameType;
use boring::ssl::SelectCertError;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use log::debug;

use crate::config::tls::TlsOptions;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::offered_signatures::OfferedSignatures;

/// Returns TLS settings with these options, certificates and controllers, for one worker.
///
/// # Errors
///
/// BoringSSL rejects a certificate.
pub fn tls(
    options: &TlsOptions,
    certificates: &Certificates,
    controllers: &HostControllers,
) -> anyhow::Result<SslContextBuilder> {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).context("cannot set up TLS")?;
    if let Some(groups) = &options.tls_groups {
        tls.set_curves_list(groups).context("cannot set --tls-groups")?;
    }
    certificates.configure(&mut tls)?;
    if certificates.is_by_client() || controllers.is_by_name() {
        let (certificates, controllers) = (certificates.clone(), controllers.clone());
        tls.set_select_certificate_callback(move |hello| {
            select(&certificates, &controllers, hello)
        });
    }
    Ok(tls)
}

/// Selects by the client's server name (RFC 6066, 3) and the signatures that it verifies.
///
/// # Errors
///
/// BoringSSL rejects the certificate.
pub fn select(
    certificates: &Certificates,
    controllers: &HostControllers,
    mut hello: ClientHello<'_>,
) -> Result<(), SelectCertError> {
    let name = hello.servername(NameType::HOST_NAME);
    let certificate = certificates.find(name, &OfferedSignatures::read(&hello));
    let controller = controllers.find(name);
    let ssl = hello.ssl_mut();
    if let Some(certificate) = certificate {
        certificate.configure_connection(ssl).map_err(|e| {
            debug!("cannot use a certificate: {e}");
            SelectCertError::ERROR
        })?;
    }
    if let Some(controller) = controller {
        <quiche::Connection>::set_cc_algorithm_in_handshake(ssl, controller.into()).map_err(
            |e| {
                debug!("cannot select {}: {e}", controller.name());
                SelectCertError::ERROR
            },
        )?;
    }
    Ok(())
}
