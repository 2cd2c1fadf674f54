//! TLS settings, and what the server name (SNI) of a ClientHello selects: certificate and
//! congestion controller.

use anyhow::Context;
use boring::ssl::ClientHello;
use boring::ssl::NameType;
use boring::ssl::SelectCertError;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use log::debug;

use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;

/// Returns TLS settings with these certificates and controllers, for one worker.
///
/// # Errors
///
/// BoringSSL rejects a certificate.
pub fn tls(
    certificates: &Certificates,
    controllers: &HostControllers,
) -> anyhow::Result<SslContextBuilder> {
    let mut tls = SslContextBuilder::new(SslMethod::tls()).context("cannot set up TLS")?;
    certificates.configure(&mut tls)?;
    if certificates.is_by_name() || controllers.is_by_name() {
        let (certificates, controllers) = (certificates.clone(), controllers.clone());
        tls.set_select_certificate_callback(move |hello| {
            select(&certificates, &controllers, hello)
        });
    }
    Ok(tls)
}

/// Selects by the client's server name (RFC 6066, 3).
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
    let certificate = certificates.find(name);
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
