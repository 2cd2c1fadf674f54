//! Fill of a cached body: what the origin sends is kept, for as many as read it meanwhile.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::Version;
use log::debug;
use quiche::clock;
use tokio::time::timeout;

use crate::content::cache::body_rest::BodyRest;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::store::MemoryReservation;
use crate::content::cache::store::ResponseCache;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::server::OriginResponse;
use crate::content::origin::server::UpstreamExchange;
use crate::content::origin::vacancies::OriginPermit;
use crate::http::shared_body::SharedBodyWriter;

/// A body that comes.
pub struct Fill {
    pub cache: Arc<ResponseCache>,
    pub key: Arc<str>,
    pub kept: Arc<CachedResponse>,

    /// What was kept before, in whose place this is, and when its successor was asked for.
    pub older: Option<(Arc<CachedResponse>, InvalidationMark)>,
    pub writer: SharedBodyWriter,

    /// Length of the longest body that is kept, in bytes.
    pub bytes_max: u64,
    pub reserved: MemoryReservation,

    /// Mark of the response on disk, if it may be kept there.
    pub disk_mark: Option<InvalidationMark>,

    /// Absent if a body that breaks off stays so.
    pub rest: Option<Box<dyn BodyRest>>,
}

/// How a body ends.
enum FillEnd {
    Complete,
    Broken(String),
    Unneeded,
}

impl Fill {
    /// Reads the body to its end, or until nobody needs it.
    pub async fn run(
        mut self,
        response: OriginResponse,
        body_time: Duration,
        permit: OriginPermit,
    ) {
        let (mut outcome, mut filled) = self.receive(response, body_time, 0).await;
        drop(permit);
        let (rest, length) = (self.rest.take(), self.kept.body.length());
        if let Some(rest) = rest.filter(|_| outcome != OriginOutcome::Cancelled) {
            if let Some(fetched) = rest.fetch(filled).await {
                OriginOutcome::Broken.count();
                let _permit = fetched.permit;
                (outcome, filled) = self.receive(fetched.response, body_time, filled).await;
            }
            if outcome == OriginOutcome::Complete && Some(filled) != length {
                rest.give_up();
            }
        }
        let Self { cache, key, kept, older, writer, disk_mark, .. } = self;
        let is_complete = outcome == OriginOutcome::Complete && writer.finish();
        // One that is passed on is not kept any longer.
        match is_complete && kept.body.is_usable() {
            true => {
                cache.on_complete(&key);
                if let Some((disk, mark)) = cache.disk().zip(disk_mark) {
                    disk.write(&key, &kept, mark);
                }
            }
            false => {
                cache.remove(&key, &kept);
                // Half a response is no successor.
                let is_broken = !is_complete && outcome != OriginOutcome::Cancelled;
                let older = older.filter(|_| is_broken);
                older.iter().for_each(|(older, mark)| cache.put_back(&key, older, *mark));
            }
        }
        let is_short = outcome == OriginOutcome::Complete && !is_complete;
        if is_short { OriginOutcome::Broken } else { outcome }.count();
    }

    /// Receives a response, of whose body some bytes are there. Returns how it ended, and how many bytes are
    /// there then.
    async fn receive(
        &mut self,
        response: OriginResponse,
        body_time: Duration,
        mut filled: u64,
    ) -> (OriginOutcome, u64) {
        let OriginResponse { response, exchange } = response;
        let is_http2 = response.version() == Version::HTTP_2;
        let body = response.into_body();
        let outcome = match self.copy(body, is_http2, body_time, (&exchange, &mut filled)).await {
            FillEnd::Complete => {
                exchange.complete();
                OriginOutcome::Complete
            }
            FillEnd::Broken(why) => {
                debug!("{}: the response breaks off: {why}", self.key);
                exchange.break_off(&why);
                OriginOutcome::Broken
            }
            FillEnd::Unneeded => OriginOutcome::Cancelled,
        };
        (outcome, filled)
    }

    async fn copy(
        &mut self,
        mut content: Incoming,
        is_http2: bool,
        body_time: Duration,
        (exchange, filled): (&UpstreamExchange, &mut u64),
    ) -> FillEnd {
        loop {
            if self.writer.room().await.is_err() {
                return FillEnd::Unneeded;
            }
            let next = poll_fn(|cx| Pin::new(&mut content).poll_frame(cx));
            let broken = match timeout(body_time, next).await {
                // To hyper, a stream that is reset without an error has ended.
                Ok(None) if is_http2 && !content.is_end_stream() => {
                    "the stream is reset".to_owned()
                }
                Ok(None) => return FillEnd::Complete,
                Ok(Some(Ok(frame))) => {
                    exchange.on_received(&content);
                    // Trailers are left out.
                    if let Ok(data) = frame.into_data() {
                        *filled += data.len() as u64;
                        self.check_room(*filled, data.len() as u64);
                        self.writer.push(&data);
                    }
                    continue;
                }
                Ok(Some(Err(e))) => e.to_string(),
                Err(_) => "it stalls".to_owned(),
            };
            return FillEnd::Broken(broken);
        }
    }

    /// Has a body of unknown length passed on alone once it is too long, or there is no memory.
    fn check_room(&self, filled: u64, bytes: u64) {
        let has_length = self.reserved.bytes() > 0;
        if has_length || filled <= self.bytes_max && self.cache.has_room(bytes) {
            return;
        }
        if self.kept.body.is_usable() {
            self.writer.stop_keeping();
            self.cache.remove(&self.key, &self.kept);
            self.cache.note_unshared(&self.key, clock::now());
        }
    }
}
