//! HTTP/3 server on quinn and h3, written like their examples, on one thread.

use std::sync::Arc;

use bench_peers::requested_bytes;
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
            let length = requested_bytes(request.uri().path());
            let status = if length.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let mut left = length.unwrap_or_default();
            let head = Response::builder().status(status).header("content-length", left);
            stream.send_response(head.body(())?).await?;
            while left > 0 {
                let chunk = Bytes::from_static(&BODY[..left.min(BODY.len())]);
                left -= chunk.len();
                stream.send_data(chunk).await?;
            }
            stream.finish().await?;
            anyhow::Ok(())
        });
    }
    Ok(())
}
