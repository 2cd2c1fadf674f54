//! Judgement of a load's responses: bytes, versions, errors, and requests that are lost.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::catalogue::CachePolicy;
use super::catalogue::Catalogue;
use super::catalogue::LoadObject;
use super::connection::LoadAnswer;
use super::connection::LoadOutcome;
use super::connection::LoadRequest;
use super::connection::LoadVersion;
use super::connection::RequestKind;

/// Time after a response for which the server still has it, as little as it may keep of all.
const KEPT_TIME: Duration = Duration::from_secs(2);

/// `Age` is in whole seconds.
const AGE_UNIT: Duration = Duration::from_secs(1);

/// Faults that are told.
const FAULTS_MAX: usize = 20;

/// A span of time, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

/// What may go wrong without a fault of the server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    /// The origin is dead, or responds with errors.
    Origin,

    /// A server is killed, until the next one serves; or has ended after its drain.
    Kill,
    Restart,
}

/// A request and its time.
#[derive(Clone, Copy, Debug)]
pub struct LoadExchange<'a> {
    pub request: &'a LoadRequest,
    pub version: LoadVersion,
    pub span: Span,

    /// When its connection began.
    pub connected: u64,

    /// Number of the server, if that is certain.
    pub server: Option<u64>,
}

/// Judge of all clients.
pub struct Judge {
    counts: Mutex<BTreeMap<String, usize>>,
    outages: Mutex<Vec<(Outage, Span)>>,

    /// Faults unless there was an outage at their time.
    suspects: Mutex<Vec<Suspect>>,
    faults: Mutex<Vec<String>>,

    /// Last request for which an object was in the cache, by object.
    kept: Vec<Mutex<KeptEvidence>>,
}

/// Request for which an object was in the cache.
#[derive(Clone, Debug, Default)]
struct KeptEvidence {
    server: Option<u64>,
    span: Span,
    cache_status: String,
}

struct Suspect {
    text: String,
    span: Span,
    excuses: Vec<Outage>,
}

impl Span {
    fn overlaps(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

impl Judge {
    pub fn new(objects: usize) -> Self {
        Self {
            counts: Mutex::default(),
            outages: Mutex::default(),
            suspects: Mutex::default(),
            faults: Mutex::default(),
            kept: (0..objects).map(|_| Default::default()).collect(),
        }
    }

    /// Counts something.
    pub fn count(&self, what: impl Into<String>) {
        *self.counts.lock().unwrap().entry(what.into()).or_default() += 1;
    }

    /// Returns the sum of the counts whose names begin so.
    pub fn sum(&self, start: &str) -> usize {
        let counts = self.counts.lock().unwrap();
        counts.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
    }

    /// Returns all counts.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.counts.lock().unwrap().clone()
    }

    pub fn add_outage(&self, outage: Outage, span: Span) {
        self.outages.lock().unwrap().push((outage, span));
    }

    pub fn add_fault(&self, text: String) {
        self.faults.lock().unwrap().push(text);
    }

    /// Notes something that is a fault unless there was one of these outages.
    pub fn suspect(&self, text: String, span: Span, excuses: &[Outage]) {
        self.suspects.lock().unwrap().push(Suspect { text, span, excuses: excuses.to_vec() });
    }

    /// Returns the faults. Called once the outages are known.
    pub fn faults(&self) -> Vec<String> {
        let outages = self.outages.lock().unwrap();
        let mut faults = self.faults.lock().unwrap().clone();
        for Suspect { text, span, excuses } in self.suspects.lock().unwrap().iter() {
            let is_excuse =
                |(outage, own): &(Outage, Span)| excuses.contains(outage) && own.overlaps(span);
            if !outages.iter().any(is_excuse) {
                let before = outages.iter().map(|(_, own)| span.from.saturating_sub(own.to));
                let before = before.filter(|us| *us > 0).min();
                faults.push(format!("{text}, {before:?} us after an outage"));
            }
        }
        let more = faults.len().saturating_sub(FAULTS_MAX);
        faults.truncate(FAULTS_MAX);
        faults.extend((more > 0).then(|| format!("and {more} more")));
        faults
    }

    /// Judges what has become of a request.
    pub fn judge(&self, exchange: &LoadExchange<'_>, outcome: &LoadOutcome, catalogue: &Catalogue) {
        let LoadExchange { request, version, span, connected, .. } = *exchange;
        let object = &catalogue.objects[request.object];
        let shown =
            |what: &str| format!("{} {:?} over {version:?}: {what}", object.path, request.kind);
        let since_connected = Span { from: connected, ..span };
        match outcome {
            LoadOutcome::Answer(answer) => {
                self.count(format!("response over {version:?}"));
                if let Err(what) = self.check(exchange, object, answer) {
                    self.add_fault(shown(&format!("{what}; {}", shown_answer(answer))));
                }
            }
            LoadOutcome::Broken => {
                self.count("unanswered: broken");
                let excuses = match object.policy {
                    CachePolicy::File => &[Outage::Kill][..],
                    _ => &[Outage::Origin, Outage::Kill],
                };
                self.suspect(shown("breaks off"), since_connected, excuses);
            }
            LoadOutcome::NotProcessed => self.count("unanswered: sent again"),
            LoadOutcome::Lost(why) => {
                self.count("unanswered: lost");
                self.suspect(shown(&format!("lost: {why}")), since_connected, &[Outage::Kill]);
            }
        }
    }

    fn check(
        &self,
        exchange: &LoadExchange<'_>,
        object: &LoadObject,
        answer: &LoadAnswer,
    ) -> Result<(), String> {
        let cache_status = answer.fields.get("cache-status").map_or("", String::as_str);
        if answer.status >= 500 {
            return self.check_error(exchange, object, answer);
        }
        let version = check_bytes(exchange.request, object, answer)?;
        let cache_status = cache_status.trim_start_matches("edge-server; ");
        let parts: Vec<_> =
            cache_status.split("; ").filter(|part| !part.starts_with("ttl=")).collect();
        self.count(format!("cache: {}", parts.join("; ")));
        if object.policy == CachePolicy::File {
            return if cache_status.is_empty() {
                Ok(())
            } else {
                Err("a file from the cache".into())
            };
        }
        let age = answer.fields.get("age").and_then(|age| age.parse().ok());
        self.check_age(exchange, object, version, &parts, age.unwrap_or(0))?;
        // Without a body, the response may be one whose body is still on its way, and breaks off.
        let is_whole = matches!(exchange.request.kind, RequestKind::Get);
        let is_kept = is_whole && ["hit", "stored"].iter().any(|part| parts.contains(part));
        if is_kept && exchange.server.is_some() && !cache_status.contains("detail") {
            let cache_status = cache_status.to_owned();
            let (server, span) = (exchange.server, exchange.span);
            let evidence = KeptEvidence { server, span, cache_status };
            *self.kept[exchange.request.object].lock().unwrap() = evidence;
        }
        Ok(())
    }

    /// Checks that a version is no older than its policy allows. A response was current when the origin sent it,
    /// which was at most so long before the request. Those that have waited for it get it however long it took.
    fn check_age(
        &self,
        exchange: &LoadExchange<'_>,
        object: &LoadObject,
        version: u64,
        cache_status: &[&str],
        age: u64,
    ) -> Result<(), String> {
        let [mut lifetime, while_revalidate, if_error] = object.policy.times();
        let has = |part| cache_status.contains(&part);
        if has("collapsed") && !lifetime.is_zero() {
            lifetime = lifetime.max(Duration::from_secs(age) + AGE_UNIT);
        }
        let (is_revalidated, is_for_error) =
            (has("detail=stale-while-revalidate"), has("detail=stale-if-error"));
        let staleness = match (is_revalidated, is_for_error) {
            (true, _) => while_revalidate,
            (_, true) => if_error,
            _ => Duration::ZERO,
        };
        if (is_revalidated || is_for_error) && staleness.is_zero() {
            return Err("stale, and must not be".to_owned());
        }
        if is_for_error {
            let text = format!("{}: stale for an error that was none: {exchange:?}", object.path);
            self.suspect(text, exchange.span, &[Outage::Origin]);
        }
        let (from, to) = object.current(version);
        let oldest = exchange.span.from.saturating_sub((lifetime + staleness).as_micros() as u64);
        if to < oldest {
            return Err(format!("version {version} is too old by {} us", oldest - to));
        }
        match from > exchange.span.to {
            true => Err(format!("version {version} does not exist yet")),
            false => Ok(()),
        }
    }

    /// Checks that there was an error, and that nothing was kept that could have been used.
    fn check_error(
        &self,
        exchange: &LoadExchange<'_>,
        object: &LoadObject,
        answer: &LoadAnswer,
    ) -> Result<(), String> {
        let LoadExchange { request, span, server, .. } = *exchange;
        self.count(format!("unanswered: status {}", answer.status));
        if object.policy == CachePolicy::File {
            return Err("an error for a file".to_owned());
        }
        let text = format!("{}: {} without an error: {exchange:?}", object.path, answer.status);
        self.suspect(text, span, &[Outage::Origin]);
        let [_, _, if_error] = object.policy.times();
        let is_covered = answer.status != 503 || object.policy.covers_errors();
        let kept = self.kept[request.object].lock().unwrap().clone();
        let kept_for = span.to.saturating_sub(kept.span.from);
        let is_kept = kept.server.is_some()
            && kept.server == server
            && kept.span.to <= span.from
            && kept_for < KEPT_TIME.min(if_error).as_micros() as u64;
        match is_kept && is_covered {
            true => Err(format!(
                "{:?}, an error {kept_for} us after '{}'",
                object.policy, kept.cache_status
            )),
            false => Ok(()),
        }
    }
}

/// Compares all that a response has with the version that it names, and returns that.
fn check_bytes(
    request: &LoadRequest,
    object: &LoadObject,
    answer: &LoadAnswer,
) -> Result<u64, String> {
    let field = |name: &str| answer.fields.get(name).map(String::as_str);
    if object.policy == CachePolicy::File {
        return check_body(request, object, 0, answer).map(|()| 0);
    }
    let etag = field("etag").and_then(|etag| etag.trim_matches('"').parse::<u64>().ok());
    let version = etag.ok_or("no entity tag")?;
    if answer.status == 304 {
        let is_wanted = request.kind == RequestKind::Unless(version);
        return if is_wanted { Ok(version) } else { Err("a 304 that was not asked for".into()) };
    }
    if field("x-version").and_then(|own| own.parse().ok()) != Some(version) {
        return Err("fields of several versions".to_owned());
    }
    check_body(request, object, version, answer).map(|()| version)
}

fn check_body(
    request: &LoadRequest,
    object: &LoadObject,
    version: u64,
    answer: &LoadAnswer,
) -> Result<(), String> {
    let body = object.body(version);
    let length = answer.fields.get("content-length").and_then(|own| own.parse::<usize>().ok());
    let expected = match (&request.kind, answer.status) {
        (RequestKind::Head, 200) => {
            return match length.is_none_or(|own| own == body.len()) {
                true if answer.body.is_empty() => Ok(()),
                _ => Err("a HEAD with another length".to_owned()),
            };
        }
        (RequestKind::Range(first, last), 206) => {
            let last = (*last).min(body.len() - 1);
            let expected = format!("bytes {first}-{last}/{}", body.len());
            if answer.fields.get("content-range") != Some(&expected) {
                return Err(format!("another range than {expected}"));
            }
            &body[*first..=last]
        }
        (_, 200) => &body[..],
        (_, status) => return Err(format!("status {status}")),
    };
    if length.is_some_and(|own| own != expected.len()) {
        return Err("another length".to_owned());
    }
    if answer.body == expected {
        return Ok(());
    }
    let at = answer.body.iter().zip(expected).position(|(own, expected)| own != expected);
    Err(format!("wrong bytes of version {version}, from {at:?} on"))
}

fn shown_answer(answer: &LoadAnswer) -> String {
    format!("{} {:?}, {} bytes", answer.status, answer.fields, answer.body.len())
}
