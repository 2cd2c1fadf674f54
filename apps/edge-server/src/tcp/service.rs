//! Requests on a TCP connection: what HTTP/1.1 and HTTP/2 have of their own around a response.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::header::ALT_SVC;
use hyper::header::CONNECTION;
use hyper::header::CONTENT_LENGTH;
use hyper::header::DATE;
use hyper::header::HOST;
use hyper::header::TRANSFER_ENCODING;
use hyper::header::UPGRADE;
use hyper::HeaderMap;
use hyper::Version;
use log::debug;
use quiche::clock;
use tokio::sync::oneshot;

use crate::admission::file_limits::FileReaders;
use crate::content::access::password_checker::CheckWaiter;
use crate::content::client_context::ClientContext;
use crate::content::origin::fields::connection_options;
use crate::content::origin::forwarding::ForwardedRequest;
use crate::content::origin::forwarding::ForwardedResponse;
use crate::content::origin::forwarding::PendingForward;
use crate::content::speedtest;
use crate::content::Attempt;
use crate::content::Handling;
use crate::http::body_stream::StreamWriter;
use crate::http::date::http_date;
use crate::http::exchange::Protocol;
use crate::http::request;
use crate::http::request::FieldLine;
use crate::http::request::Request;
use crate::http::request::RequestError;
use crate::http::request_summary::RequestSummary;
use crate::http::response::ConnectionEffect;
use crate::http::response::Response;
use crate::resume::report::ConnectionReport;
use crate::tcp::activity::ConnectionActivity;
use crate::tcp::exchange::TcpExchange;
use crate::tcp::peer::Peer;
use crate::tcp::response_body::ResponseBody;
use crate::tcp::stage::TcpStage;

/// How long clients may remember that the server has HTTP/3, in seconds (RFC 7838, 3.1).
const ALT_SVC_MAX_AGE: u32 = 86_400;

/// Value of `Alt-Svc` that has clients forget (RFC 7838, 3).
const WITHDRAWN: &str = "clear";

/// Request that waits for its password to be checked.
struct TcpCheckWaiter(oneshot::Sender<()>);

impl CheckWaiter for TcpCheckWaiter {
    fn is_cancelled(&self) -> bool {
        self.0.is_closed()
    }

    fn wake(self: Box<Self>) {
        // Fails if the client has gone meanwhile.
        let _ = self.0.send(());
    }
}

/// Responds to a request of a peer.
pub async fn respond(
    peer: Arc<Peer>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<ResponseBody>, Infallible> {
    let (head, content) = request.into_parts();
    let protocol = protocol_of(head.version);
    let authority = authority_of(&head, &peer);
    let lines = header_section(&head, authority.as_deref());
    let summary = match peer.services.access_log {
        Some(_) => RequestSummary::read(lines.iter().copied()),
        None => RequestSummary::default(),
    };
    let mut exchange = TcpExchange::begin(&peer, protocol, summary);
    let with_content = !request::is_head(lines.iter().copied());
    let mut response = match has_unknown_coding(&head) {
        true => last(501),
        false => {
            let asked = (lines.as_slice(), asks_websocket(&head));
            respond_to(&peer, asked, content, &mut exchange).await
        }
    };
    exchange.on_response(&mut response);
    let is_last = response.effect == Some(ConnectionEffect::Close);
    let leaves = *peer.services.stage.borrow() != TcpStage::Serving;
    let mut response = with_head(response, with_content, &peer, exchange);
    match protocol {
        Protocol::Http2 if is_last => peer.closing.notify_one(),
        // A GOAWAY tells of the end.
        Protocol::Http2 => (),
        _ if is_last || leaves => {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => (),
    }
    Ok(response)
}

fn protocol_of(version: Version) -> Protocol {
    match version {
        Version::HTTP_2 => Protocol::Http2,
        Version::HTTP_11 => Protocol::Http11,
        _ => Protocol::Http10,
    }
}

/// Returns whether the content has a transfer coding that hyper does not remove (RFC 9112, 6.1). It has
/// removed one `chunked`, and refused what does not end with that.
fn has_unknown_coding(head: &hyper::http::request::Parts) -> bool {
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some()
}

/// Returns the authority that a request target has. HTTP/1.0 needs none; it is then for the address
/// that it came to.
fn authority_of(head: &hyper::http::request::Parts, peer: &Peer) -> Option<String> {
    let in_target = head.uri.authority().map(ToString::to_string);
    let is_old = head.version < Version::HTTP_11 && !head.headers.contains_key("host");
    in_target.or_else(|| is_old.then(|| peer.local.to_string()))
}

/// Returns the header section as later versions have it: with pseudo-header fields, and without
/// those of the connection, which HTTP/1.1 has handled.
fn header_section<'a>(
    head: &'a hyper::http::request::Parts,
    authority: Option<&'a str>,
) -> Vec<FieldLine<'a>> {
    let pseudo = |name: &'static str, value: &'a str| FieldLine {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    let mut lines = Vec::with_capacity(head.headers.len() + 4);
    lines.push(pseudo(":method", head.method.as_str()));
    lines.extend(authority.map(|authority| pseudo(":authority", authority)));
    if head.method != hyper::Method::CONNECT {
        lines.push(pseudo(":scheme", head.uri.scheme_str().unwrap_or("https")));
        lines.push(pseudo(":path", head.uri.path_and_query().map_or("/", |path| path.as_str())));
    }
    let options = match head.version {
        Version::HTTP_2 => Vec::new(),
        _ => connection_options(&head.headers),
    };
    let is_of_connection = |name: &str| {
        head.version != Version::HTTP_2
            && (name == "te" || request::CONNECTION_FIELDS.contains(&name.as_bytes()))
            // A request is for its host, whatever its connection.
            || name != HOST && options.iter().any(|option| option == name)
    };
    let regular = head.headers.iter().filter(|(name, _)| !is_of_connection(name.as_str()));
    lines.extend(regular.map(|(name, value)| FieldLine {
        name: name.as_str().as_bytes(),
        value: value.as_bytes(),
    }));
    lines
}

/// Returns whether a request asks for WebSocket (RFC 6455, 4.1), which HTTP/1.1 alone can. Other upgrades
/// may be left (RFC 9110, 7.8).
fn asks_websocket(head: &hyper::http::request::Parts) -> bool {
    let protocols = head.headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok());
    let mut protocols = protocols.flat_map(|value| value.split(','));
    head.version == Version::HTTP_11
        && protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
        && connection_options(&head.headers).iter().any(|option| option == "upgrade")
}

/// Returns the response to the request with this header section, which may ask for WebSocket.
async fn respond_to(
    peer: &Peer,
    (lines, asks_upgrade): (&[FieldLine<'_>], bool),
    content: Incoming,
    exchange: &mut TcpExchange,
) -> Response {
    let mut content = Some(content);
    let mut attempt = Attempt::First;
    loop {
        match handle(peer, lines, attempt, exchange) {
            Handling::Respond(response) => return response,
            Handling::Upload { bytes_max, user } => {
                let Some(content) = content.take() else { return last(500) };
                let response = receive(content, bytes_max, exchange).await;
                return Response { user, ..response };
            }
            Handling::Check(check) => {
                let (sender, checked) = oneshot::channel();
                if let Err(refusal) = check.start(Box::new(TcpCheckWaiter(sender))) {
                    let response = Response::error(refusal.status());
                    return refusal.complete(response);
                }
                let _ = checked.await;
                attempt = Attempt::AfterCheck;
            }
            Handling::Forward(forwarded) if asks_upgrade => {
                attempt = Attempt::Forwarded(forwarded.refuse_upgrade().into());
            }
            Handling::Forward(forwarded) => {
                let has_body = forwarded.request.method() != hyper::Method::HEAD;
                let mut response = forward(*forwarded, content.take(), exchange).await;
                // A connection that ends is all that could tell of a broken body.
                if has_body && exchange.protocol() != Protocol::Http2 {
                    exchange.set_awaiting_origin(true);
                    response.await_first_byte().await;
                    exchange.set_awaiting_origin(false);
                }
                attempt = Attempt::Forwarded(response);
            }
        }
    }
}

/// Forwards a request with its content, and waits for the response. The origin may have that before all
/// of the content has come.
async fn forward(
    mut forwarded: ForwardedRequest,
    content: Option<Incoming>,
    exchange: &mut TcpExchange,
) -> Box<ForwardedResponse> {
    exchange.on_origin(&forwarded.report);
    let content = content.filter(|content| !content.is_end_stream() && !forwarded.is_safe());
    let Some(content) = content else {
        exchange.set_awaiting_origin(true);
        let response = await_response(&mut forwarded.send(), exchange).await;
        exchange.set_awaiting_origin(false);
        return response.into();
    };
    let upload = forwarded.upload(content.size_hint().exact());
    let mut copying = Box::pin(copy(content, upload, exchange.activity()));
    let mut pending = forwarded.send();
    tokio::select! {
        biased;
        response = await_response(&mut pending, exchange) => {
            tokio::spawn(copying);
            return response.into();
        }
        () = &mut copying => (),
    }
    exchange.set_awaiting_origin(true);
    let response = await_response(&mut pending, exchange).await;
    exchange.set_awaiting_origin(false);
    response.into()
}

/// Waits for the response of an origin, and passes on those before it.
async fn await_response(
    pending: &mut PendingForward,
    exchange: &mut TcpExchange,
) -> ForwardedResponse {
    // The content may have ended while an interim response was being passed on.
    exchange.finish_interim().await;
    loop {
        let next = std::future::poll_fn(|cx| {
            if let Poll::Ready(Some(interim)) = pending.poll_interim(cx) {
                return Poll::Ready(Err(interim));
            }
            Pin::new(&mut *pending).poll(cx).map(Ok)
        });
        match next.await {
            Ok(response) => return response,
            Err(interim) => exchange.send_interim(&interim).await,
        }
    }
}

/// Copies content to an origin as far as there is room for it. What comes later than the origin wants it
/// is left out.
async fn copy(mut content: Incoming, upload: StreamWriter, activity: Arc<ConnectionActivity>) {
    while upload.room().await.is_ok() {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut content).poll_frame(cx));
        match frame.await {
            None => return upload.finish(),
            // The stream is broken.
            Some(Err(_)) => return,
            Some(Ok(frame)) => {
                let Ok(bytes) = frame.into_data() else { continue };
                activity.on_moved(bytes.len() as u64);
                upload.push(bytes);
            }
        }
    }
}

/// Returns what becomes of the request with this header section.
fn handle(
    peer: &Peer,
    lines: &[FieldLine<'_>],
    attempt: Attempt,
    exchange: &mut TcpExchange,
) -> Handling {
    let config = Arc::clone(&peer.services.config.borrow());
    let bytes_max = config.limits.header_bytes_max as usize;
    if request::section_bytes(lines.iter().copied()) > bytes_max {
        return Handling::Respond(Response::error(431));
    }
    let request = match Request::read(lines.iter().copied()) {
        Ok(request) => request,
        Err(RequestError::Refused(status)) => return Handling::Respond(Response::error(status)),
        Err(RequestError::Malformed(why)) => {
            debug!("{}: malformed request: {why}", peer.name);
            return Handling::Respond(last(400));
        }
    };
    let files_max = config.limits.open_files();
    let permit = |readers: &FileReaders| peer.files.try_read(readers, files_max);
    let peers = || vec![peer.address.ip()];
    let told = config.virtual_hosts.trusted_proxies.client_of(&request, peers);
    told.iter().for_each(|client| exchange.on_client(*client));
    let client = ClientContext {
        addresses: &|| vec![told.unwrap_or(peer.address.ip())],
        permit: &permit,
        report: &|| ConnectionReport::new(peer.name.clone(), None, None, None),
        protocol: exchange.protocol(),
        has_waited: !matches!(attempt, Attempt::First),
        now: clock::now(),
        wall_now: clock::wall_now(),
    };
    let host = config.virtual_hosts.find(request.host);
    match attempt {
        Attempt::Forwarded(forwarded) => {
            Handling::Respond(host.complete(&request, *forwarded, &client))
        }
        Attempt::First | Attempt::AfterCheck => host.handle(&request, request.was_early(), &client),
    }
}

/// Returns an error after which the connection ends: what follows may be meant as a part of the request.
fn last(status: u16) -> Response {
    Response::error(status).with_effect(Some(ConnectionEffect::Close))
}

/// Receives an upload, which is counted and not kept.
async fn receive(mut content: Incoming, bytes_max: u64, exchange: &TcpExchange) -> Response {
    let mut received_bytes = 0;
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut content).poll_frame(cx)).await {
        let Ok(frame) = frame else { return Response::error(400) };
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        exchange.on_received(bytes);
        received_bytes += bytes;
        if received_bytes > bytes_max {
            return Response::error(413);
        }
    }
    speedtest::uploaded(received_bytes)
}

/// Returns the response with the fields that every one has.
fn with_head(
    response: Response,
    with_content: bool,
    peer: &Peer,
    exchange: TcpExchange,
) -> hyper::Response<ResponseBody> {
    let Response { status, fields, is_without_alt_svc, body, rate, date, .. } = response;
    let length = body.length().filter(|_| !body.has_trailers());
    let mut sent = hyper::Response::new(ResponseBody::new(body, rate, with_content, exchange));
    // The server's own statuses are valid.
    *sent.status_mut() = status.try_into().unwrap_or_default();
    let headers = sent.headers_mut();
    for field in &fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value.as_bytes());
        match name.ok().zip(value.ok()) {
            Some((name, value)) => drop(headers.append(name, value)),
            None => debug!("{} = {:?} is no field of HTTP/1.1 and 2", field.name, field.value),
        }
    }
    let mut insert = |name, value: String| {
        // Text of the server itself.
        headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
    };
    insert(DATE, date.map_or_else(|| http_date(clock::wall_now()), String::from));
    // RFC 9110, 8.6: a 304 has the length of the representation, or none; a 204 has none.
    if let Some(length) = length.filter(|_| ![204, 304].contains(&status)) {
        insert(CONTENT_LENGTH, length.to_string());
    }
    if !is_without_alt_svc {
        announce_http3(headers, *peer.services.stage.borrow(), peer.local.port());
    }
    sent
}

/// Adds `Alt-Svc`, unless a rule of the host has. A server that leaves withdraws that, too.
fn announce_http3(headers: &mut HeaderMap, stage: TcpStage, port: u16) {
    let own = alt_svc(stage, port);
    if headers.contains_key(ALT_SVC) && own != WITHDRAWN {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(own) {
        headers.insert(ALT_SVC, value);
    }
}

/// Returns the value of `Alt-Svc` (RFC 7838, 3), which is withdrawn from clients of a server that
/// leaves.
fn alt_svc(stage: TcpStage, port: u16) -> String {
    match stage {
        TcpStage::Serving | TcpStage::HandedOver { .. } => {
            format!("h3=\":{port}\"; ma={ALT_SVC_MAX_AGE}")
        }
        TcpStage::Draining { .. } | TcpStage::Closing => WITHDRAWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http3_is_withdrawn_from_clients_of_a_server_that_ends() {
        let until = clock::now();
        for (stage, expected) in [
            (TcpStage::Serving, "h3=\":443\"; ma=86400"),
            (TcpStage::HandedOver { until }, "h3=\":443\"; ma=86400"),
            (TcpStage::Draining { until, is_handed_over: false }, "clear"),
            (TcpStage::Draining { until, is_handed_over: true }, "clear"),
            (TcpStage::Closing, "clear"),
        ] {
            assert_eq!(alt_svc(stage, 443), expected, "{stage:?}");
        }
    }

    #[test]
    fn field_of_a_rule_is_the_only_one() {
        for (of_rule, stage, expected) in [
            (None, TcpStage::Serving, "h3=\":443\"; ma=86400"),
            (Some("h3=\":8443\""), TcpStage::Serving, "h3=\":8443\""),
            (Some("h3=\":8443\""), TcpStage::Closing, "clear"),
        ] {
            let mut headers = HeaderMap::new();
            let of_rule = of_rule.map(|value| (ALT_SVC, HeaderValue::from_static(value)));
            headers.extend(of_rule);
            announce_http3(&mut headers, stage, 443);
            let found: Vec<_> = headers.get_all(ALT_SVC).iter().collect();
            assert_eq!(found, [expected], "{stage:?}");
        }
    }
}
