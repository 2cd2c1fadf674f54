//! Exchange of a request and its response on a TCP connection, logged and counted at its end.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use quiche::clock;

use crate::content::origin::forwarding::InterimResponse;
use crate::http::exchange::FinishedRequest;
use crate::http::exchange::Protocol;
use crate::http::exchange::ENDED_WITHOUT_RESPONSE;
use crate::http::origin_report::OriginReport;
use crate::http::request_summary::RequestSummary;
use crate::http::response::Response;
use crate::tcp::activity::ConnectionActivity;
use crate::tcp::peer::Peer;
use crate::tcp::send_buffer::SendBuffer;
use crate::telemetry::access_log::LogLine;
use crate::telemetry::access_log::LoggedConnection;

/// The most that a connection keeps of its requests' texts, in bytes, beyond which little of each is kept.
const SUMMARY_BYTES_MAX: usize = 32 << 10;

/// An exchange under way. It ends when it is dropped.
pub struct TcpExchange {
    peer: Arc<Peer>,
    protocol: Protocol,
    summary: RequestSummary,

    /// Client whose address a trusted proxy has told.
    client: Option<IpAddr>,
    started: (Instant, SystemTime),

    /// Absent until there is a response.
    status: Option<u16>,
    user: Option<Box<str>>,
    cache: Option<&'static str>,

    /// Absent unless an origin is to have the response.
    origin: Option<Arc<OriginReport>>,

    /// Time until the connection had the response's head.
    first_byte: Option<Duration>,
    bytes: u64,

    /// The connection has taken the whole response.
    complete: bool,

    /// The response waits for an origin.
    awaits_origin: bool,
}

impl TcpExchange {
    /// Begins the exchange of a request.
    pub fn begin(peer: &Arc<Peer>, protocol: Protocol, mut summary: RequestSummary) -> Self {
        let kept_bytes = peer.summary_bytes.load(Ordering::Relaxed);
        if kept_bytes + summary.whole().len() > SUMMARY_BYTES_MAX {
            summary.shorten();
        }
        peer.summary_bytes.fetch_add(summary.whole().len(), Ordering::Relaxed);
        let started = (clock::now(), clock::wall_now());
        peer.activity.on_begin(started.0);
        let peer = Arc::clone(peer);
        Self {
            peer,
            protocol,
            summary,
            client: None,
            started,
            status: None,
            user: None,
            cache: None,
            origin: None,
            first_byte: None,
            bytes: 0,
            complete: false,
            awaits_origin: false,
        }
    }

    /// Notes the response, and what of it the log has.
    pub fn on_response(&mut self, response: &mut Response) {
        self.status = Some(response.status);
        self.user = response.user.take();
        self.cache = response.cache;
        self.first_byte = Some(clock::now().saturating_duration_since(self.started.0));
    }

    /// Notes the client whose address a trusted proxy has told.
    pub fn on_client(&mut self, client: IpAddr) {
        self.client = Some(client);
    }

    /// Notes that an origin is to have the response.
    pub fn on_origin(&mut self, report: &Arc<OriginReport>) {
        self.origin = Some(Arc::clone(report));
    }

    /// Notes that content of the request has arrived.
    pub fn on_received(&self, bytes: u64) {
        self.peer.activity.on_moved(bytes);
    }

    /// Returns what the connection keeps of responses.
    pub fn send_buffer(&self) -> &Arc<SendBuffer> {
        &self.peer.send_buffer
    }

    /// Notes that the response waits for its rate until then.
    pub fn on_wait(&self, until: Instant) {
        self.peer.activity.on_wait(until, clock::now());
    }

    /// Notes whether the response waits for an origin, which is not the client's fault.
    pub fn set_awaiting_origin(&mut self, awaits_origin: bool) {
        let has_waited = std::mem::replace(&mut self.awaits_origin, awaits_origin);
        match (has_waited, awaits_origin) {
            (false, true) => self.peer.activity.on_origin_wait(),
            (true, false) => self.peer.activity.on_origin_wait_end(clock::now()),
            _ => (),
        }
    }

    /// Passes an interim response on, over HTTP/1.1 alone: hyper has no call for HTTP/2, and HTTP/1.0 has none.
    /// Returns once the connection has taken it, which is up to the client.
    pub async fn send_interim(&mut self, interim: &InterimResponse) {
        if self.protocol != Protocol::Http11 {
            return;
        }
        let awaits_origin = self.awaits_origin;
        self.set_awaiting_origin(false);
        self.peer.interim.write(interim).await;
        self.set_awaiting_origin(awaits_origin);
    }

    /// Waits until the connection has taken what it was given by [`send_interim()`](Self::send_interim()), should
    /// that have been dropped.
    pub async fn finish_interim(&self) {
        self.peer.interim.written().await;
    }

    /// Returns the activity of the connection.
    pub fn activity(&self) -> Arc<ConnectionActivity> {
        Arc::clone(&self.peer.activity)
    }

    /// Returns the version of HTTP.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Notes that the connection has taken more of the response, or all of it.
    pub fn on_sent(&mut self, bytes: u64, complete: bool) {
        self.bytes += bytes;
        self.complete = complete;
        self.peer.activity.on_moved(bytes);
    }
}

impl Drop for TcpExchange {
    fn drop(&mut self) {
        self.set_awaiting_origin(false);
        let Self { peer, protocol, summary, started: (instant, started), .. } = self;
        let now = clock::now();
        peer.activity.on_end(now);
        peer.summary_bytes.fetch_sub(summary.whole().len(), Ordering::Relaxed);
        let status = self.status.unwrap_or(ENDED_WITHOUT_RESPONSE);
        let request = FinishedRequest {
            protocol: *protocol,
            summary: std::mem::take(summary),
            client: self.client,
            is_early: false,
            user: self.user.take(),
            cache: self.cache,
            origin: self.origin.take().and_then(|report| report.times()).map(Box::new),
            started: *started,
            duration: now.saturating_duration_since(*instant),
            first_byte: self.first_byte,
            status,
            bytes: self.bytes,
            complete: self.complete,
        };
        peer.services.metrics.count_response(&request);
        if let Some(log) = &peer.services.access_log {
            let connection = LoggedConnection {
                client: peer.address,
                name: &peer.name,
                client_certificate: peer.client_certificate(),
                cc: None,
                ecn: None,
                resume: None,
            };
            log.write(&LogLine { connection, request: &request });
        }
    }
}
