//! HTTP/3 session of one connection (RFC 9114): reads requests, and writes responses as far
//! as the transport takes them.

mod deferred;
pub mod exchanges;
pub mod goaway;
pub mod priority;
mod request_body;
mod response_writer;
mod scheduler;
mod send_quota;
mod shrink;
mod stall_detector;
pub mod stalled;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use bytes::Bytes;
use foldhash::HashMap;
use log::debug;
use quiche::clock;
use quiche::h3;
use quiche::h3::NameValue;
use quiche::h3::WireErrorCode;
use quiche::ActivePath;
use quiche::PathStats;
use quiche::Shutdown;

use crate::admission::file_limits::FileAccount;
use crate::admission::file_limits::FileReaders;
use crate::config::limits::Limits;
use crate::content::access::basic_auth::PasswordCheck;
use crate::content::access::refusal::AccessRefusal;
use crate::content::client_context::ClientContext;
use crate::content::hosts::VirtualHosts;
use crate::content::origin::forwarding::ForwardedRequest;
use crate::content::read_pool::CheckTicket;
use crate::content::speedtest;
use crate::content::Attempt;
use crate::content::Handling;
use crate::content::VirtualHost;
use crate::h3::deferred::Awaited;
use crate::h3::deferred::ContentStage;
use crate::h3::deferred::DeferredRequest;
use crate::h3::deferred::DeferredRequests;
use crate::h3::exchanges::Exchanges;
use crate::h3::priority::Priority;
use crate::h3::request_body::Overflow;
use crate::h3::request_body::RequestBody;
use crate::h3::response_writer::ResponseWriter;
use crate::h3::response_writer::Step;
use crate::h3::scheduler::Scheduler;
use crate::h3::send_quota::SendQuota;
use crate::h3::stall_detector::StallDetector;
use crate::http::body::PendingChunk;
use crate::http::body_stream::StreamWriter;
use crate::http::exchange::Protocol;
use crate::http::request;
use crate::http::request::FieldLine;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::request::RequestError;
use crate::http::response::ConnectionEffect;
use crate::http::response::Field;
use crate::http::response::Response;
use crate::quic::Quic;
use crate::resume::report::ConnectionReport;
use crate::resume::summary::ResumeSummary;

quiche::stand_ins!();

/// The most that a response writes in one turn, in bytes: one that shares with others, and
/// one that goes first.
const SHARED_TURN_BYTES_MAX: usize = 32 << 10;
const TURN_BYTES_MAX: usize = 256 << 10;

/// The most of responses that waits in the transport to be sent, in bytes: more than is
/// ever due at once, so that the transport does not take the application for the
/// bottleneck, and less than would delay the first packet of a jump. The window is no
/// limit: packets that wait for their release time do not fill it, nor do lost ones.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// Malformed requests on one connection, and unfinished ones that the client cancels. More
/// are an attack, and each leaves its part behind in the library.
const MALFORMED_MAX: u32 = 100;

/// Requests on one connection that the client cancels before they are answered.
const CANCELLED_MAX: u32 = 10_000;

/// Events that are taken from the library before the first is handled.
const EVENTS_MAX: usize = 32;

/// A round trip so long that it matters little if ACKs gather for a moment.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(4);

/// Step from one request stream to the next (RFC 9000, 2.1).
const STREAM_ID_STEP: u64 = 4;

/// The HTTP/3 side of a connection.
pub struct Session {
    h3: h3::Connection,
    responses: Scheduler,

    /// Requests that have not ended. Bounded by the number that a client may have
    /// under way.
    request_bodies: HashMap<u64, RequestBody>,

    /// Requests that wait for the check of their password, or for an origin.
    deferred: DeferredRequests,

    /// Where the content of requests for origins goes, by stream, until it has ended.
    uploads: HashMap<u64, StreamWriter>,

    /// Streams with content that was left unread.
    unread: Vec<u64>,

    exchanges: Exchanges,

    /// The stream after the last one with a request.
    next_stream: u64,

    /// Stream ID of the last GOAWAY: requests on it and later streams are rejected.
    goaway_id: Option<u64>,

    malformed: u32,
    cancelled: u32,

    stall_detector: StallDetector,
    send_quota: SendQuota,

    /// Bytes of responses that the transport has taken.
    written_bytes: u64,

    /// Bytes of content that have arrived.
    received_bytes: u64,

    /// All streams before this one are closed.
    closed_below: u64,

    /// Requests that the client may have under way.
    requests_max: u64,

    /// From when on the rate of a response allows more of it, if one waits for that.
    limited_until: Option<Instant>,

    /// Effects on the connection of requests since the last turn.
    effects: Vec<ConnectionEffect>,
}

/// Resources of the worker that responses need.
pub struct RequestContext<'a> {
    pub virtual_hosts: &'a VirtualHosts,
    pub limits: &'a Limits,

    /// Files that the connection has open.
    pub files: &'a FileAccount,

    /// Memory for what clients upload.
    pub scratch: &'a mut [u8],

    pub now: Instant,
    pub wall_now: SystemTime,

    /// Absent where Careful Resume is off.
    pub resume: Option<&'a ResumeSummary>,

    /// Begins to read from disk for the response on a stream, whose result goes to
    /// [`Session::on_fetched`], or to wait for more of it, whose end goes to [`Session::on_woken`].
    pub fetch: &'a mut dyn FnMut(u64, PendingChunk),

    /// Begins to check the password of the request on a stream. Its end goes to
    /// [`Session::on_woken`].
    pub check: &'a dyn Fn(u64, PasswordCheck) -> Result<CheckTicket, AccessRefusal>,

    /// Returns the waker of the request on a stream. Wakes go to [`Session::on_woken`].
    pub waker: &'a dyn Fn(u64) -> Waker,
}

impl<'a> From<&'a h3::Header> for FieldLine<'a> {
    fn from(header: &'a h3::Header) -> Self {
        Self { name: header.name(), value: header.value() }
    }
}

impl Session {
    /// Starts HTTP/3 on an established connection. Summaries of requests are kept if they
    /// are to be `logged`.
    ///
    /// # Errors
    ///
    /// The transport refuses a stream.
    pub fn new(
        quic: &mut Quic,
        config: &h3::Config,
        limits: &Limits,
        logged: bool,
        now: Instant,
    ) -> Result<Self, h3::Error> {
        let h3 = h3::Connection::with_transport(quic, config)?;
        Ok(Self {
            h3,
            responses: Scheduler::default(),
            request_bodies: HashMap::default(),
            deferred: DeferredRequests::default(),
            uploads: HashMap::default(),
            unread: Vec::new(),
            exchanges: Exchanges::new(logged),
            next_stream: 0,
            goaway_id: None,
            malformed: 0,
            cancelled: 0,
            stall_detector: StallDetector::new(limits.stall_time(), now),
            send_quota: SendQuota::new(limits.send_buffer()),
            written_bytes: 0,
            received_bytes: 0,
            closed_below: 0,
            requests_max: limits.requests_max.into(),
            limited_until: None,
            effects: Vec::new(),
        })
    }

    /// Returns the number of requests under way.
    pub fn requests(&self) -> usize {
        self.exchanges.len()
    }

    /// Returns the bytes of responses that the transport has taken so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns the bytes of responses that are kept until the client acknowledges them.
    pub fn kept_bytes(&self, quic: &Quic) -> u64 {
        let fetched: u64 = self.responses.iter().map(ResponseWriter::fetched_bytes).sum();
        unacknowledged_bytes(&self.exchanges, quic) + fetched
    }

    /// Returns the number of requests that the client has cancelled.
    pub fn cancelled(&self) -> u32 {
        self.cancelled
    }

    /// Returns the bytes that are kept of requests: headers whose end has not arrived, and
    /// exchanges under way.
    pub fn kept_request_bytes(&self) -> u64 {
        let of_requests = self.exchanges.kept_bytes() + self.deferred.kept_bytes();
        let of_uploads: u64 = self.uploads.values().map(StreamWriter::queued_bytes).sum();
        self.h3.unfinished_frame_bytes() as u64 + of_requests + of_uploads
    }

    /// Returns the bytes of responses that the transport has not taken yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.responses.unsent_bytes()
    }

    /// Returns those that the rates of responses allow to be sent now.
    pub fn sendable_bytes(&self, now: Instant) -> u64 {
        self.responses.sendable_bytes(now)
    }

    /// Returns from when on the rate of a response allows more of it, if one waits for that.
    pub fn limited_until(&self) -> Option<Instant> {
        self.limited_until
    }

    /// Returns the round trip in which ACKs will open the window for more of a response, if it
    /// is so long that it matters little when exactly.
    pub fn awaits_acks(&self, quic: &Quic, now: Instant) -> Option<Duration> {
        if self.sendable_bytes(now) == 0 {
            return None;
        }
        let path = quic.active_path()?;
        Some(path.rtt).filter(|round_trip| *round_trip >= LONG_ROUND_TRIP)
    }

    /// Reads requests, and begins their responses. Returns whether anything was read.
    pub fn read_requests(&mut self, quic: &mut Quic, context: &mut RequestContext<'_>) -> bool {
        self.exchanges.finish_acknowledged(quic, context.now);
        self.cancel_stopped(quic);
        let mut any = self.handle_deferred(quic, context);
        for stream in std::mem::take(&mut self.unread) {
            self.on_data(quic, stream, context);
        }
        let mut events = Vec::new();
        loop {
            self.poll_ahead(quic, &mut events);
            if events.is_empty() {
                return any;
            }
            any = true;
            for (stream, event) in events.drain(..) {
                self.on_event(quic, stream, event, context);
            }
        }
    }

    /// Takes up to [`EVENTS_MAX`] events before any is handled, so that the library's code and
    /// ours do not evict each other from the instruction cache.
    fn poll_ahead(&mut self, quic: &mut Quic, events: &mut Vec<(u64, h3::Event)>) {
        while events.len() < EVENTS_MAX {
            let Some((stream, event)) = self.next_event(quic) else { return };
            // The response may leave the rest unread.
            let has_rest = matches!(event, h3::Event::Headers { more_frames: true, .. });
            events.push((stream, event));
            if has_rest {
                return;
            }
        }
    }

    fn on_event(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        event: h3::Event,
        context: &mut RequestContext<'_>,
    ) {
        match event {
            // RFC 9114, 4.1: further headers are the request's trailers.
            h3::Event::Headers { list, .. } if self.request_bodies.contains_key(&stream) => {
                if list.iter().any(|field| field.name().starts_with(b":")) {
                    self.abort(quic, stream, "a pseudo-header field in trailers");
                }
            }
            h3::Event::Headers { list, more_frames } => {
                self.on_request(quic, stream, &list, more_frames, context);
            }
            h3::Event::Data => self.on_data(quic, stream, context),
            h3::Event::Finished => self.on_end(quic, stream, context),
            h3::Event::Reset(_) => self.on_reset(quic, stream),
            h3::Event::PriorityUpdate => self.on_priority_update(quic, stream),
            h3::Event::GoAway => (),
        }
    }

    fn next_event(&mut self, quic: &mut Quic) -> Option<(u64, h3::Event)> {
        match self.h3.poll(quic) {
            Ok(polled) => Some(polled),
            Err(h3::Error::Done) => None,
            Err(e) => {
                // The library has closed the connection with the code.
                debug!("{}: HTTP/3 failed: {e}", quic.trace_id());
                None
            }
        }
    }

    fn on_request(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        list: &[h3::Header],
        more_frames: bool,
        context: &RequestContext<'_>,
    ) {
        if self.goaway_id.is_some_and(|id| id <= stream) {
            return self.reject(quic, stream);
        }
        self.next_stream = self.next_stream.max(stream + STREAM_ID_STEP);
        self.exchanges.begin(stream, list, (context.now, context.wall_now));
        let is_too_long = request::section_bytes(list) > context.limits.header_bytes_max as usize;
        let request = match Request::read(list) {
            Ok(_) if is_too_long => Err(RequestError::Refused(431)),
            read => read,
        };
        let request = match request {
            Ok(request) => request,
            Err(RequestError::Malformed(why)) => return self.abort(quic, stream, why),
            Err(RequestError::Refused(status)) => {
                let with_body = !request::is_head(list);
                let response = Response::error(status);
                let body = RequestBody::new(None, None, Priority::DEFAULT);
                self.respond(stream, response, with_body, body, context.wall_now);
                return self.stop_request(quic, stream);
            }
        };
        if !more_frames && request.content_length.is_some_and(|length| length > 0) {
            return self.abort(quic, stream, "less content than Content-Length");
        }
        let field = request.value("priority").map(str::as_bytes);
        // RFC 9218, 7.1: an update, even one that came first, overrides the field.
        let priority = match self.h3.take_last_priority_update(stream) {
            Ok(update) => Priority::read(&update),
            Err(_) => Priority::read(field.unwrap_or_default()),
        };
        let stage = if more_frames { ContentStage::More } else { ContentStage::Last };
        let body = RequestBody::new(request.content_length, None, priority);
        self.handle(quic, stream, (&request, list), (body, stage), Attempt::First, context);
    }

    /// Handles a request, with its header section and what there is of its content.
    fn handle(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        (request, list): (&Request<'_>, &[h3::Header]),
        (mut body, stage): (RequestBody, ContentStage),
        attempt: Attempt,
        context: &RequestContext<'_>,
    ) {
        let virtual_host = context.virtual_hosts.find(request.host);
        // Until the handshake is complete, requests may be replayed.
        let is_early_data = !quic.is_established();
        if is_early_data {
            self.exchanges.on_early(stream);
        }
        let is_early = is_early_data || request.was_early();
        let files_max = context.limits.open_files();
        let proxies = &context.virtual_hosts.trusted_proxies;
        let told = proxies.client_of(request, || client_addresses(quic));
        told.iter().for_each(|client| self.exchanges.on_client(stream, *client));
        let client = ClientContext {
            addresses: &|| told.map_or_else(|| client_addresses(quic), |client| vec![client]),
            permit: &|readers: &FileReaders| context.files.try_read(readers, files_max),
            report: &|| report(quic, context.resume),
            protocol: Protocol::Http3,
            has_waited: !matches!(attempt, Attempt::First),
            now: context.now,
            wall_now: context.wall_now,
        };
        let handling = match attempt {
            Attempt::Forwarded(forwarded) => {
                Handling::Respond(virtual_host.complete(request, *forwarded, &client))
            }
            Attempt::First | Attempt::AfterCheck => virtual_host.handle(request, is_early, &client),
        };
        let awaited = match handling {
            Handling::Check(check) => (context.check)(stream, *check).map(Awaited::Check),
            Handling::Forward(forwarded) => {
                Ok(self.forward(stream, request, *forwarded, stage, context))
            }
            Handling::Respond(response) => {
                return self.respond_at(quic, stream, request, response, (body, stage), context);
            }
            Handling::Upload { bytes_max, user } => {
                self.exchanges.on_user(stream, user);
                let body = body.with_limit(bytes_max);
                return self.begin_upload(quic, stream, request, (body, stage), context);
            }
        };
        match awaited {
            Ok(awaited) => {
                // A stream gets no second one.
                body.continued |=
                    !body.continued && self.send_hints(quic, stream, virtual_host, request);
                let is_awaited = request.expects_continue() && self.uploads.contains_key(&stream);
                body.continued |= is_awaited && self.send_continue(quic, stream);
                self.defer(stream, list, awaited, (body, stage));
            }
            Err(refusal) => {
                let response = virtual_host.refuse_access(refusal, request, &client);
                self.respond_at(quic, stream, request, response, (body, stage), context);
            }
        }
    }

    /// Sends a request to its origin, and its content as that comes.
    fn forward(
        &mut self,
        stream: u64,
        request: &Request<'_>,
        mut forwarded: ForwardedRequest,
        stage: ContentStage,
        context: &RequestContext<'_>,
    ) -> Awaited {
        self.exchanges.on_origin(stream, &forwarded.report);
        if stage == ContentStage::More && !request.method.is_safe() {
            self.uploads.insert(stream, forwarded.upload(request.content_length));
        }
        // Its first look registers the waker.
        (context.waker)(stream).wake();
        Awaited::Origin(forwarded.send())
    }

    /// Keeps a request until it need not wait any longer.
    fn defer(
        &mut self,
        stream: u64,
        list: &[h3::Header],
        awaited: Awaited,
        (body, stage): (RequestBody, ContentStage),
    ) {
        let ended = (stage == ContentStage::Complete).then_some(body);
        let (list, priority) = (list.to_vec(), body.priority);
        self.deferred.insert(stream, DeferredRequest { list, priority, awaited, ended });
        if ended.is_none() {
            self.request_bodies.insert(stream, body);
        }
    }

    /// Begins the response to a request, of whose content there may be more.
    fn respond_at(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        request: &Request<'_>,
        response: Response,
        (body, stage): (RequestBody, ContentStage),
        context: &RequestContext<'_>,
    ) {
        let effect = response.effect.filter(|effect| !self.effects.contains(effect));
        self.effects.extend(effect);
        let is_error = response.status >= 400;
        let with_body = request.method != Method::Head;
        self.respond(stream, response, with_body, body, context.wall_now);
        match stage {
            ContentStage::More if is_error && !self.is_taken(stream) => {
                self.stop_request(quic, stream);
            }
            ContentStage::More => drop(self.request_bodies.insert(stream, body)),
            ContentStage::Last | ContentStage::Complete => (),
        }
    }

    /// Returns whether an origin still takes the content of a request.
    fn is_taken(&self, stream: u64) -> bool {
        self.uploads.get(&stream).is_some_and(|upload| !upload.is_abandoned())
    }

    /// Begins to receive an upload, or responds if all of it has come.
    fn begin_upload(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        request: &Request<'_>,
        (mut body, stage): (RequestBody, ContentStage),
        context: &RequestContext<'_>,
    ) {
        if body.receive(0).is_err() {
            self.respond_to_upload(stream, Response::error(413), body, context.wall_now);
            return self.stop_request(quic, stream);
        }
        let uploaded = body.uploaded().filter(|_| stage == ContentStage::Complete);
        if let Some(bytes) = uploaded {
            let response = speedtest::uploaded(bytes);
            return self.respond_to_upload(stream, response, body, context.wall_now);
        }
        let is_awaited = stage == ContentStage::More && request.expects_continue();
        body.continued = is_awaited && self.send_continue(quic, stream);
        self.request_bodies.insert(stream, body);
    }

    /// Notes that a request or a response need not wait any longer. The client may have cancelled
    /// it meanwhile.
    pub fn on_woken(&mut self, stream: u64) {
        match self.responses.get_mut(stream) {
            Some(response) => response.on_woken(),
            None => self.deferred.on_ready(stream),
        }
        if self.uploads.contains_key(&stream) {
            self.unread.push(stream);
        }
    }

    /// Handles the requests again that need not wait any longer. Returns whether there were any.
    fn handle_deferred(&mut self, quic: &mut Quic, context: &RequestContext<'_>) -> bool {
        let ready = self.deferred.take_ready();
        for stream in &ready {
            self.send_interim(quic, *stream, context);
            let Some(attempt) = self.next_attempt(*stream, context) else { continue };
            let Some(waiting) = self.deferred.remove(*stream) else { continue };
            let DeferredRequest { list, priority, ended, .. } = waiting;
            // As it was before.
            let Ok(request) = Request::read(&list) else { continue };
            let open = self.request_bodies.remove(stream);
            let stage = if open.is_some() { ContentStage::More } else { ContentStage::Complete };
            let body = open.or(ended);
            let mut body = body.unwrap_or(RequestBody::new(None, None, priority));
            body.priority = priority;
            self.handle(quic, *stream, (&request, &list), (body, stage), attempt, context);
            if stage == ContentStage::More {
                self.unread.push(*stream);
            }
        }
        !ready.is_empty()
    }

    /// Cancels requests at origins whose responses the client does not want any longer.
    fn cancel_stopped(&mut self, quic: &mut Quic) {
        for stream in self.deferred.awaiting_origin() {
            if quic.stream_capacity(stream).is_err() {
                // Fails, and frees the stream's state in the library.
                let head = [h3::Header::new(b":status", b"500")];
                let _ = self.h3.send_response(quic, stream, &head, true);
                self.on_reset(quic, stream);
            }
        }
    }

    /// Passes on interim responses of an origin (RFC 9110, 15.2), as far as the stream has room at once.
    fn send_interim(&mut self, quic: &mut Quic, stream: u64, context: &RequestContext<'_>) {
        let waker = (context.waker)(stream);
        let mut cx = Context::from_waker(&waker);
        while let Some(DeferredRequest { awaited: Awaited::Origin(pending), ended, .. }) =
            self.deferred.get_mut(stream)
        {
            let Poll::Ready(Some(interim)) = pending.poll_interim(&mut cx) else { return };
            let body = self.request_bodies.get_mut(&stream).or(ended.as_mut());
            let Some(body) = body else { return };
            let mut head = vec![Field::new(":status", interim.status.to_string())];
            head.extend(interim.fields);
            let sent = match body.continued {
                false => self.h3.send_response(quic, stream, &head, false),
                true => self.h3.send_additional_headers(quic, stream, &head, false, false),
            };
            body.continued |= sent.is_ok();
        }
    }

    /// Returns what a deferred request has waited for, unless it still does.
    fn next_attempt(&mut self, stream: u64, context: &RequestContext<'_>) -> Option<Attempt> {
        match &mut self.deferred.get_mut(stream)?.awaited {
            Awaited::Check(_) => Some(Attempt::AfterCheck),
            Awaited::Origin(pending) => {
                let waker = (context.waker)(stream);
                match Pin::new(pending).poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(forwarded) => Some(Attempt::Forwarded(forwarded.into())),
                    Poll::Pending => None,
                }
            }
        }
    }

    /// Takes the effects that requests have on the connection.
    pub fn take_effects(&mut self) -> Vec<ConnectionEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Begins the response on a stream.
    fn respond(
        &mut self,
        stream: u64,
        mut response: Response,
        with_body: bool,
        body: RequestBody,
        wall_now: SystemTime,
    ) {
        self.exchanges.on_user(stream, response.user.take());
        self.exchanges.on_cache(stream, response.cache);
        self.exchanges.on_response(stream, response.status);
        let writer = ResponseWriter::new(stream, response, with_body, body.priority, wall_now);
        self.responses.insert(writer.after_interim(body.continued).into());
    }

    /// Reads content of a request, which is counted, and kept for an origin alone. What comes while a
    /// password is checked stays unread: an origin may be to have it.
    fn on_data(&mut self, quic: &mut Quic, stream: u64, context: &mut RequestContext<'_>) {
        if self.deferred.awaits_check(stream) {
            return;
        }
        while self.has_room(stream, context) {
            let Ok(count) = self.h3.recv_body(quic, stream, context.scratch) else { return };
            self.received_bytes += count as u64;
            let Some(body) = self.request_bodies.get_mut(&stream) else { continue };
            match body.receive(count as u64) {
                Ok(()) => {
                    let bytes = || Bytes::copy_from_slice(&context.scratch[..count]);
                    self.uploads.get(&stream).into_iter().for_each(|upload| upload.push(bytes()));
                }
                Err(Overflow::ContentLength) => {
                    return self.abort(quic, stream, "more content than Content-Length");
                }
                Err(Overflow::Limit) => {
                    let body = *body;
                    self.respond_to_upload(stream, Response::error(413), body, context.wall_now);
                    return self.stop_request(quic, stream);
                }
            }
        }
    }

    /// Returns whether content of a request can be read. If not, the stream is woken then.
    fn has_room(&self, stream: u64, context: &RequestContext<'_>) -> bool {
        let Some(upload) = self.uploads.get(&stream) else { return true };
        !upload.is_full() || {
            let waker = (context.waker)(stream);
            upload.poll_room(&mut Context::from_waker(&waker)).is_ready()
        }
    }

    /// Handles the end of a request.
    fn on_end(&mut self, quic: &mut Quic, stream: u64, context: &RequestContext<'_>) {
        let Some(body) = self.request_bodies.remove(&stream) else { return };
        if !body.is_complete() {
            return self.abort(quic, stream, "less content than Content-Length");
        }
        if let Some(upload) = self.uploads.remove(&stream) {
            upload.finish();
        }
        if let Some(waiting) = self.deferred.get_mut(stream) {
            waiting.ended = Some(body);
            return;
        }
        if let Some(bytes) = body.uploaded() {
            let response = speedtest::uploaded(bytes);
            self.respond_to_upload(stream, response, body, context.wall_now);
        }
    }

    /// Begins the response to an upload.
    fn respond_to_upload(
        &mut self,
        stream: u64,
        response: Response,
        body: RequestBody,
        wall_now: SystemTime,
    ) {
        self.respond(stream, response, true, body, wall_now);
    }

    /// Sends a 103 while the response is prepared, if the host has one for the request (RFC 8297).
    /// Returns whether it did. A stream gets no second one.
    fn send_hints(
        &mut self,
        quic: &mut Quic,
        stream: u64,
        virtual_host: &VirtualHost,
        request: &Request<'_>,
    ) -> bool {
        let fields = virtual_host.early_fields(request);
        if fields.is_empty() {
            return false;
        }
        let mut head = vec![Field::new(":status", "103")];
        head.extend(fields);
        self.h3.send_response(quic, stream, &head, false).is_ok()
    }

    /// Sends a 100 (RFC 9110, 10.1.1). Returns whether it could be sent; if not, the client
    /// sends its content after a while.
    fn send_continue(&mut self, quic: &mut Quic, stream: u64) -> bool {
        let head = [h3::Header::new(b":status", b"100")];
        self.h3.send_response(quic, stream, &head, false).is_ok()
    }

    /// Applies a PRIORITY_UPDATE to a response under way (RFC 9218, 7). The library keeps one
    /// that arrives before its request, and drops one for a response that the transport has
    /// taken whole.
    fn on_priority_update(&mut self, quic: &mut Quic, stream: u64) {
        let is_known = self.request_bodies.contains_key(&stream)
            || self.deferred.contains(stream)
            || self.responses.contains(stream);
        if !is_known {
            return;
        }
        let Ok(update) = self.h3.take_last_priority_update(stream) else { return };
        let priority = Priority::read(&update);
        if let Some(body) = self.request_bodies.get_mut(&stream) {
            body.priority = priority;
        }
        if let Some(waiting) = self.deferred.get_mut(stream) {
            waiting.priority = priority;
        }
        self.responses.prioritize(stream, priority);
        priority.apply(quic, stream);
    }

    /// Gives responses their turns until all are blocked or limited, or enough waits to be sent.
    /// Returns whether anything was written.
    pub fn write(&mut self, quic: &mut Quic, context: &mut RequestContext<'_>) -> bool {
        let mut any = false;
        let mut room = UNSENT_BYTES_MAX.saturating_sub(quic.stream_bytes_unsent());
        // Those before it are blocked, or wait for their rates.
        let mut next = 0;
        let mut limited = Vec::new();
        self.limited_until = None;
        while room > 0 {
            let quota = self.quota_left(quic);
            if quota == 0 {
                break;
            }
            let shared = self.responses.is_shared(next);
            let turn_bytes_max = if shared { SHARED_TURN_BYTES_MAX } else { TURN_BYTES_MAX };
            let turn_bytes_max = turn_bytes_max.min(quota as usize).min(room);
            if self.responses.waits_behind(&limited, next) {
                next += 1;
                continue;
            }
            let Some(response) = self.responses.at(next) else { break };
            let (stream, sent_before) = (response.stream, response.sent_bytes());
            let had_head = response.has_sent_head();
            let step =
                response.step(&mut self.h3, quic, turn_bytes_max, context.now, context.fetch);
            let sent = response.sent_bytes();
            if !had_head && response.has_sent_head() {
                self.exchanges.on_head(stream, clock::now());
            }
            let taken = sent - sent_before;
            self.send_quota.consume(taken);
            self.written_bytes += taken;
            room = room.saturating_sub(taken as usize);
            any |= !matches!(step, Ok(Step::Blocked | Step::Fetching | Step::Limited(_)));
            match step {
                Ok(Step::Blocked | Step::Fetching) => next += 1,
                Ok(Step::Limited(until)) => {
                    let earliest = self.limited_until.map_or(until, |earliest| earliest.min(until));
                    self.limited_until = Some(earliest);
                    limited.push(next);
                    next += 1;
                }
                Ok(Step::Wrote) => self.responses.end_turn(next),
                Ok(Step::Finished) => {
                    self.responses.remove_at(next);
                    self.exchanges.on_written(stream, sent);
                }
                Err(code) => {
                    self.responses.remove_at(next);
                    self.on_write_error(quic, (stream, sent), code, context.now);
                }
            }
        }
        any
    }

    /// Ends a response that cannot be finished, of which so many bytes were sent. Resets its stream, if
    /// there is a `code` for that.
    fn on_write_error(
        &mut self,
        quic: &mut Quic,
        (stream, sent): (u64, u64),
        code: Option<WireErrorCode>,
        now: Instant,
    ) {
        self.exchanges.on_abort(stream, Some(sent), now);
        if let Some(code) = code {
            let _ = quic.stream_shutdown(stream, Shutdown::Write, code as u64);
        }
        // The client has stopped reading what it requested. If its request was complete, the stream is
        // gone at once.
        if !matches!(code, Some(WireErrorCode::InternalError)) {
            self.cancelled += 1;
            self.limit_abuse(quic);
        }
    }

    /// Returns how much may be written before the client acknowledges more.
    fn quota_left(&mut self, quic: &Quic) -> u64 {
        self.send_quota.left(|| unacknowledged_bytes(&self.exchanges, quic))
    }

    /// Takes a chunk of a response that has been read from disk. The client may have
    /// cancelled the request meanwhile.
    pub fn on_fetched(&mut self, stream: u64, bytes: io::Result<Bytes>) {
        if let Some(response) = self.responses.get_mut(stream) {
            response.on_fetched(bytes);
        }
    }

    /// Handles a request that the client has cancelled.
    fn on_reset(&mut self, quic: &mut Quic, stream: u64) {
        let read = self.request_bodies.remove(&stream).is_some()
            || self.deferred.contains(stream)
            || self.responses.contains(stream);
        self.cancelled += u32::from(read);
        self.malformed += u32::from(!read);
        self.cancel(quic, stream, WireErrorCode::NoError);
        self.limit_abuse(quic);
    }

    /// Aborts a malformed request, which is a stream error (RFC 9114, 4.1.2).
    fn abort(&mut self, quic: &mut Quic, stream: u64, why: &str) {
        debug!("{}: stream {stream}: {why}", quic.trace_id());
        self.malformed += 1;
        self.stop_reading(quic, stream, WireErrorCode::MessageError);
        self.cancel(quic, stream, WireErrorCode::MessageError);
        self.limit_abuse(quic);
    }

    /// Closes the connection of a client that makes the server work for nothing (RFC 9114,
    /// 10.5).
    fn limit_abuse(&self, quic: &mut Quic) {
        if self.malformed > MALFORMED_MAX || self.cancelled > CANCELLED_MAX {
            let _ = quic.close(
                true,
                WireErrorCode::ExcessiveLoad as u64,
                b"too many requests for nothing",
            );
        }
    }

    /// Stops reading a request, whose rest does not change its response (RFC 9114, 4.1).
    fn stop_request(&mut self, quic: &mut Quic, stream: u64) {
        self.stop_reading(quic, stream, WireErrorCode::NoError);
    }

    fn stop_reading(&mut self, quic: &mut Quic, stream: u64, code: WireErrorCode) {
        self.request_bodies.remove(&stream);
        self.uploads.remove(&stream);
        if !quic.stream_finished(stream) {
            let _ = quic.stream_shutdown(stream, Shutdown::Read, code as u64);
        }
    }

    /// Cancels an exchange.
    fn cancel(&mut self, quic: &mut Quic, stream: u64, code: WireErrorCode) {
        let sent = self.responses.remove(stream).map(|response| response.sent_bytes());
        self.deferred.remove(stream);
        self.uploads.remove(&stream);
        self.exchanges.on_abort(stream, sent, clock::now());
        let _ = quic.stream_shutdown(stream, Shutdown::Write, code as u64);
    }
}

/// Returns the address that the client has now. Until it has proved that it is there (RFC 9000, 8.2),
/// it may be elsewhere, and get the response where it was before: that address counts, too.
fn client_addresses(quic: &Quic) -> Vec<IpAddr> {
    let is_validated =
        |path: &PathStats| quic.is_path_validated(path.local_addr, path.peer_addr).unwrap_or(false);
    let paths: Vec<_> = quic.path_stats().collect();
    let is_proved = paths.iter().any(|path| path.active && is_validated(path));
    let counts = |path: &&PathStats| path.active || !is_proved && is_validated(path);
    paths.iter().filter(counts).map(|path| path.peer_addr.ip()).collect()
}

/// Returns what the client may know of its connection.
fn report(quic: &Quic, resume: Option<&ResumeSummary>) -> ConnectionReport {
    let path = quic.active_path();
    let rtt = path.as_ref().filter(|path| path.min_rtt.is_some()).map(|path| path.rtt);
    let min_rtt = path.as_ref().and_then(|path| path.min_rtt);
    ConnectionReport::new(quic.trace_id().to_owned(), resume, rtt, min_rtt)
}

/// Returns the bytes of responses that the transport keeps until they are acknowledged.
fn unacknowledged_bytes(exchanges: &Exchanges, quic: &Quic) -> u64 {
    exchanges.streams().map(|stream| quic.stream_unacknowledged(stream)).sum()
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
