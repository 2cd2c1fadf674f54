//! quinn and h3, in the way of their own examples, on one thread.

use std::sync::Arc;

use bench_peers::bytes_asked;
use bench_peers::Arguments;
use bench_peers::BODY;
use bytes::Bytes;
use http::Response;
use http::StatusCode;
use quinn::crypto::rustls::QuicServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::PrivateKeyDer;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let chain = CertificateDer::pem_file_iter(&arguments.cert)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&arguments.key)?;
    let mut tls = rustls::ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h3".into()];
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));

    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let endpoint = quinn::Endpoint::server(config, arguments.listen)?;
        eprintln!("listening on {}", endpoint.local_addr()?);
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(serve(incoming));
        }
        Ok(())
    })
}

async fn serve(incoming: quinn::Incoming) -> anyhow::Result<()> {
    let quic = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::<_, Bytes>::new(quic).await?;
    while let Some(resolver) = connection.accept().await? {
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            let asked = bytes_asked(request.uri().path());
            let status = if asked.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let mut left = asked.unwrap_or_default();
            let head = Response::builder().status(status).header("content-length", left);
            stream.send_response(head.body(())?).await?;
            while left > 0 {
                let piece = Bytes::from_static(&BODY[..left.min(BODY.len())]);
                left -= piece.len();
                stream.send_data(piece).await?;
            }
            stream.finish().await?;
            anyhow::Ok(())
        });
    }
    Ok(())
}
