//! Source of the responses that the cache fetches: an origin, for one client.

use std::net::IpAddr;
use std::sync::Arc;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::header::AGE;
use hyper::header::AUTHORIZATION;
use hyper::header::CACHE_CONTROL;
use hyper::header::COOKIE;
use hyper::header::EXPIRES;
use hyper::header::SET_COOKIE;
use hyper::header::TRANSFER_ENCODING;
use hyper::header::VARY;
use hyper::HeaderMap;
use hyper::Request;
use hyper::Response;
use hyper::Version;
use log::debug;
use quiche::clock;

use crate::content::cache::entry::ReceivedHead;
use crate::content::cache::freshness::ExchangeTimes;
use crate::content::cache::storability::Credentials;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::fields::from_origin;
use crate::content::origin::fields::leaves_out;
use crate::content::origin::server::OriginResponse;
use crate::content::origin::server::OriginServer;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::vacancies::OriginPermit;
use crate::http::origin_report::OriginReport;

/// Fields that say who may get a response, and for how long.
const RULES: [HeaderName; 6] =
    [CACHE_CONTROL, HeaderName::from_static("cdn-cache-control"), EXPIRES, SET_COOKIE, VARY, AGE];

/// Response of an origin that has begun.
pub struct Fetched {
    pub head: ReceivedHead,
    pub response: OriginResponse,
    pub permit: OriginPermit,
}

impl Fetched {
    /// Ends a response without content.
    pub fn into_head(self: Box<Self>) -> ReceivedHead {
        self.response.exchange.complete();
        OriginOutcome::Complete.count();
        self.head
    }
}

/// Where and for whom a response is fetched.
#[derive(Clone)]
pub struct FetchSource {
    pub origin: Arc<OriginServer>,
    pub client: IpAddr,
    pub report: Arc<OriginReport>,
}

impl FetchSource {
    /// Returns the same for requests of which nobody tells.
    pub fn unreported(&self) -> Self {
        Self { report: Arc::default(), ..self.clone() }
    }

    /// Fetches a response, if the origin has a vacancy.
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn fetch(
        &self,
        request: Request<OriginContent>,
    ) -> Result<Box<Fetched>, OriginError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let sent = clock::wall_now();
        let fetched = match self.origin.take_vacancy(self.client) {
            Some(permit) => {
                let fetched = self.origin.fetch(request, &self.report).await;
                fetched.map(|response| (response, permit))
            }
            None => Err(OriginError::Busy),
        };
        let (response, permit) = fetched.inspect_err(|error| {
            debug!("{method} {uri}: {error}");
            error.outcome().count();
        })?;
        let OriginResponse { response: received, .. } = &response;
        let (fields, date) = from_origin(received.headers(), received.version());
        let head = ReceivedHead {
            status: received.status().as_u16(),
            fields,
            date,
            times: ExchangeTimes { sent, received: clock::wall_now() },
            lacks_rules: leaves_out(received.headers(), &RULES),
        };
        Ok(Box::new(Fetched { head, response, permit }))
    }
}

/// Returns whether a body that is cut off can be told from a whole one: over HTTP/1.1, the end of the
/// connection may be either (RFC 9112, 6.3).
pub fn tells_its_end(response: &Response<Incoming>) -> bool {
    response.version() == Version::HTTP_2
        || response.body().size_hint().exact().is_some()
        || response.headers().contains_key(TRANSFER_ENCODING)
}

/// Returns what of a request may have made its response that of one client.
pub fn credentials_of(headers: &HeaderMap) -> Credentials {
    let has = |name| headers.contains_key(name);
    Credentials { has_authorization: has(AUTHORIZATION), has_cookie: has(COOKIE) }
}
