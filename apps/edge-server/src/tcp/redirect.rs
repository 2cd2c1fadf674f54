//! Redirect from plain HTTP to HTTPS, and responses to challenges of ACME.

use std::convert::Infallible;
use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::header::CONTENT_TYPE;
use hyper::header::HOST;
use hyper::header::LOCATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::StatusCode;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use log::debug;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::acme::challenges::http_response;
use crate::http::request::host_of;
use crate::tcp::peer::TcpServices;

/// Port of HTTPS, which URLs leave out.
const HTTPS_PORT: u16 = 443;

/// Tells a client where to go, or an ACME authority what it asks. The connection ends with its response.
pub async fn serve(stream: TcpStream, peer: SocketAddr, services: &TcpServices, https_port: u16) {
    let limit = services.config.borrow().limits.stall_time();
    let files = services.config.borrow().challenges.clone();
    let respond = |request: hyper::Request<Incoming>| {
        let challenge = files.as_ref().and_then(|files| http_response(files, request.uri().path()));
        challenge.map_or_else(|| redirect(&request, https_port), challenge_response)
    };
    let service = service_fn(|request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(limit, connection).await {
        Ok(Ok(())) => (),
        Ok(Err(why)) => debug!("{peer}: {why}"),
        Err(_) => debug!("{peer}: a plain request stalls"),
    }
}

fn redirect(request: &hyper::Request<Incoming>, https_port: u16) -> hyper::Response<String> {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let location = host.and_then(|host| location(host, path, https_port));
    let location = location.and_then(|location| HeaderValue::try_from(location).ok());
    let mut response = hyper::Response::new(String::new());
    match location {
        Some(location) => {
            *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
            response.headers_mut().insert(LOCATION, location);
        }
        None => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

/// Returns the response to an ACME authority (RFC 8555, 8.3).
fn challenge_response(key_authorization: String) -> hyper::Response<String> {
    let mut response = hyper::Response::new(key_authorization);
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Returns the URL of `path` over HTTPS, unless the authority is invalid.
fn location(authority: &str, path: &str, https_port: u16) -> Option<String> {
    let host = host_of(authority)?;
    // host_of() leaves out the brackets of an IPv6 address.
    let host = if authority.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    (path.starts_with('/') && !host.is_empty()).then(|| match https_port {
        HTTPS_PORT => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_has_the_port_of_https() {
        for (authority, path, port, expected) in [
            ("a.example", "/x?y", 443, Some("https://a.example/x?y")),
            ("a.example:80", "/", 8443, Some("https://a.example:8443/")),
            ("[2001:db8::1]:80", "/", 443, Some("https://[2001:db8::1]/")),
            ("192.0.2.1", "/", 443, Some("https://192.0.2.1/")),
            ("a.example", "*", 443, None),
            ("a example", "/", 443, None),
            ("", "/", 443, None),
        ] {
            let found = location(authority, path, port);
            assert_eq!(found.as_deref(), expected, "{authority} {path}");
        }
    }
}
