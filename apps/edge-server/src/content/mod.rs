//! Content of a virtual host: turns a request into a response, independent of the HTTP version.

pub mod access;
mod access_gaps;
pub mod cache;
pub mod client_context;
pub mod compression;
pub mod early_hints;
pub mod file_identity;
pub mod file_lookup;
pub mod hosts;
mod lookup_cache;
mod media_types;
pub mod open_files;
pub mod origin;
mod origin_gaps;
mod path_pattern;
mod present;
pub mod read_pool;
pub mod root;
pub mod rules;
pub mod speedtest;
mod try_files;
pub mod url_path;

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Once;
use std::time::SystemTime;

use ab_test::ClientUnit;
use ipnet::IpNet;
use log::debug;
use log::warn;
use rustix::io::Errno;

use crate::admission::file_limits::FileLimiter;
use crate::admission::file_limits::FilePermit;
use crate::admission::file_limits::FileReaders;
use crate::admission::file_limits::SubnetLimitReached;
use crate::config::file::Host;
use crate::content::access::basic_auth::PasswordCheck;
use crate::content::access::cors::CorsRules;
use crate::content::access::refusal::AccessRefusal;
use crate::content::access::resources::AccessResources;
use crate::content::access::signed_urls;
use crate::content::access::AccessGrant;
use crate::content::access::AccessPath;
use crate::content::access::AccessRules;
use crate::content::access::Denial;
use crate::content::cache::compression::AnswerCompression;
use crate::content::cache::lookup::look_up;
use crate::content::cache::lookup::CacheLookup;
use crate::content::cache::purge;
use crate::content::cache::reference::own_target;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::rules::PathCaches;
use crate::content::cache::status::CacheStatus;
use crate::content::cache::store::ResponseCache;
use crate::content::client_context::ClientContext;
use crate::content::compression::CompressionSource;
use crate::content::compression::Compressor;
use crate::content::early_hints::EarlyHints;
use crate::content::file_lookup::KeptLookup;
use crate::content::file_lookup::Lookup;
use crate::content::file_lookup::Representation;
use crate::content::lookup_cache::LookupCache;
use crate::content::origin::error::OriginError;
use crate::content::origin::fields;
use crate::content::origin::fields::ForwardedClient;
use crate::content::origin::forwarding::ForwardedRequest;
use crate::content::origin::forwarding::ForwardedResponse;
use crate::content::origin::reply::ForwardReply;
use crate::content::origin::server::OriginServer;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::HostOrigins;
use crate::content::present::present;
use crate::content::root::Root;
use crate::content::rules::encode;
use crate::content::rules::Rules;
use crate::content::url_path::UrlPath;
use crate::http::body::Body;
use crate::http::content_coding;
use crate::http::content_coding::Coding;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Field;
use crate::http::response::Response;
use crate::http::response::ALLOWED;
use crate::http::response_rate::ResponseRate;

/// What becomes of a request.
#[derive(Debug)]
pub enum Handling {
    Respond(Response),

    /// The response to this user comes at the end of the content, which may have so many bytes.
    Upload {
        bytes_max: u64,
        user: Option<Box<str>>,
    },

    /// The request is to be handled again after this.
    Check(Box<PasswordCheck>),

    /// An origin has the response, which is to be [completed](VirtualHost::complete).
    Forward(Box<ForwardedRequest>),
}

/// Cache of a request for an origin.
struct TargetCache {
    cache: Arc<ResponseCache>,
    settings: Arc<CacheSettings>,
    key: Arc<str>,
}

/// What a request that is handled has waited for.
#[derive(Debug)]
pub enum Attempt {
    First,
    AfterCheck,
    Forwarded(Box<ForwardedResponse>),
}

/// Reason why the host itself has no response to a request.
enum Diversion {
    Denied(Denial),
    Origin(OriginTarget),
}

impl From<Denial> for Diversion {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

/// Where an origin has what a request is for.
struct OriginTarget {
    origin: Arc<OriginServer>,

    /// Encoded path and query.
    target: String,

    /// Absent if responses are not kept.
    cache: Option<TargetCache>,
}

/// Response without configured fields.
struct FoundResponse {
    response: Response,

    /// Path of the file that it is for.
    file: Option<PathBuf>,

    /// What the rules for that file grant.
    grant: AccessGrant,
}

impl From<Response> for FoundResponse {
    fn from(response: Response) -> Self {
        Self { response, file: None, grant: AccessGrant::default() }
    }
}

/// Virtual host: a folder and the rules by which it is served.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    root: Root,
    rules: Rules,

    /// Absent if everything is for everybody.
    access: Option<AccessRules>,

    early_hints: EarlyHints,
    origins: HostOrigins,
    caches: PathCaches,

    /// Cache of the origins of all hosts, if there is one.
    response_cache: Option<Arc<ResponseCache>>,

    /// Absent if web pages of other origins read nothing.
    cors: Option<CorsRules>,
    speedtest: bool,
    server_timing: bool,

    /// Cache of all hosts, if there is one, and the number of this host in it.
    cache: Option<(Arc<LookupCache>, u32)>,

    /// Compressor of all hosts, if there is one.
    compressor: Option<Arc<Compressor>>,
}

impl VirtualHost {
    /// Serves the folder `root` by the rules of `host`.
    ///
    /// # Errors
    ///
    /// One line that names the unusable key.
    pub fn new(
        root: Root,
        host: &Host,
        speedtest: bool,
        resources: &mut AccessResources,
    ) -> anyhow::Result<Self> {
        let rules = Rules::new(host)?;
        let access = AccessRules::new(host, resources)?;
        Ok(Self {
            root,
            rules,
            access,
            early_hints: EarlyHints::new(host)?,
            origins: HostOrigins::new(host, resources.prefix_lengths)?,
            caches: PathCaches::new(host)?,
            response_cache: None,
            cors: CorsRules::new(host)?,
            speedtest,
            server_timing: host.server_timing.unwrap_or(false),
            cache: None,
            compressor: None,
        })
    }

    /// Has lookups kept in a cache of all hosts, in which this one has this number.
    pub fn with_cache(self, cache: &Arc<LookupCache>, number: u32) -> Self {
        Self { cache: Some((Arc::clone(cache), number)), ..self }
    }

    /// Has files compressed by the compressor of all hosts, unless the rules say otherwise.
    pub fn with_compressor(self, compressor: &Arc<Compressor>) -> Self {
        let compressor = self.rules.compression.is_on.then(|| Arc::clone(compressor));
        Self { compressor, ..self }
    }

    /// Has responses of origins kept in the cache of all hosts, where the rules say so.
    pub fn with_response_cache(self, cache: &Arc<ResponseCache>) -> Self {
        Self { response_cache: Some(Arc::clone(cache)), ..self }
    }

    /// Handles a request, which `is_early` if an attacker may have replayed it.
    pub fn handle(
        &self,
        request: &Request<'_>,
        is_early: bool,
        client: &ClientContext<'_>,
    ) -> Handling {
        let mut handling = self.decide(request, is_early, client);
        if let (Some(cors), Handling::Respond(response)) = (&self.cors, &mut handling) {
            cors.complete(request, response);
        }
        handling
    }

    /// Returns the response to a request that an origin has had.
    pub fn complete(
        &self,
        request: &Request<'_>,
        forwarded: ForwardedResponse,
        client: &ClientContext<'_>,
    ) -> Response {
        let mut response = self.complete_reply(request, forwarded, client);
        if let Some(cors) = &self.cors {
            cors.complete(request, &mut response);
        }
        response
    }

    /// Returns the response without what other origins may read of it.
    fn complete_reply(
        &self,
        request: &Request<'_>,
        forwarded: ForwardedResponse,
        client: &ClientContext<'_>,
    ) -> Response {
        let ForwardedResponse { result, grant, cache_status } = forwarded;
        let mut response = match result {
            Ok(ForwardReply::Passed(response)) => {
                self.invalidate(request, &response);
                self.with_rules(response, request)
            }
            Ok(ForwardReply::Cached(answer)) => {
                let compression = self.compressor.as_deref();
                let compression = compression.map(|compressor| AnswerCompression {
                    compressor,
                    policy: &self.rules.compression,
                });
                self.with_rules(answer.present(request, client.wall_now, compression), request)
            }
            Err(e) => self.origin_error(&e, request, client),
        };
        if let Some(status) = cache_status {
            response.add("cache-status", status.value(None));
            response.cache = Some(status.name());
        }
        self.apply_grants(&mut response, [grant, AccessGrant::default()], request, client);
        response
    }

    /// Forgets what is kept of a URL that a request has changed (RFC 9111, 4.4).
    fn invalidate(&self, request: &Request<'_>, response: &Response) {
        let is_unsafe = !request.method.is_safe() && request.method != Method::Options;
        let Some(cache) = self.response_cache.as_ref().filter(|_| is_unsafe) else { return };
        if !(200..400).contains(&response.status) {
            return;
        }
        let related = response.fields.iter();
        let related = related
            .filter(|field| ["location", "content-location"].contains(&field.name.as_ref()))
            .filter_map(|field| own_target(request.authority, request.target, &field.value));
        for target in related.chain([request.target.to_owned()]) {
            let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
            let Some(url_path) = UrlPath::parse(path) else { continue };
            let decoded = url_path.decoded();
            if let Some(settings) = self.caches.find(&decoded) {
                let target = encode(&decoded) + &settings.query(query);
                cache.invalidate(&purge::key_of(request.authority, &target));
            }
        }
    }

    fn decide(
        &self,
        request: &Request<'_>,
        is_early: bool,
        client: &ClientContext<'_>,
    ) -> Handling {
        // RFC 8470, 3.
        if is_early && !request.method.is_safe() {
            return Handling::Respond(self.refuse(425, request));
        }
        // Browsers send no credentials with it.
        if let Some(response) = self.cors.as_ref().and_then(|cors| cors.preflight(request)) {
            return Handling::Respond(match self.check_client(request, client) {
                Ok(()) => self.with_fields(response, request, None),
                Err(refusal) => self.refuse_access(refusal, request, client),
            });
        }
        let grant = match self.check_access(request, client) {
            Ok(grant) => grant,
            Err(denial) => return self.deny(denial, request, client),
        };
        if !self.accepts_upload(request) {
            return self.respond(request, is_early, client, grant);
        }
        match request.content_length.unwrap_or(0) <= speedtest::BYTES_MAX {
            true => Handling::Upload { bytes_max: speedtest::BYTES_MAX, user: grant.user },
            false => Handling::Respond(self.refuse(413, request)),
        }
    }

    /// Asks the access rules for the path of a preflight.
    fn check_client(
        &self,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Result<(), AccessRefusal> {
        let url_path = UrlPath::parse(request.split_target().0);
        let Some((access, url_path)) = self.access.as_ref().zip(url_path) else { return Ok(()) };
        access.check_client(AccessPath { path: &url_path.decoded(), asked: None }, client)
    }

    /// Asks the access rules for the path of a request.
    fn check_access(
        &self,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Result<AccessGrant, Denial> {
        let Some(access) = &self.access else { return Ok(AccessGrant::default()) };
        // A malformed path leads to nothing.
        let Some(url_path) = UrlPath::parse(request.split_target().0) else {
            return Ok(AccessGrant::default());
        };
        let path = AccessPath { path: &url_path.decoded(), asked: None };
        access.check(path, request, client)
    }

    /// Asks the access rules for the file that the path of a request leads to.
    fn check_file(
        &self,
        path: &str,
        file: &Path,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Result<AccessGrant, Denial> {
        let Some(access) = &self.access else { return Ok(AccessGrant::default()) };
        let file = format!("/{}", file.display());
        let path = AccessPath { path: &file, asked: Some(path) };
        access.check(path, request, client)
    }

    fn deny(&self, denial: Denial, request: &Request<'_>, client: &ClientContext<'_>) -> Handling {
        match denial {
            Denial::Unchecked(check) => Handling::Check(check),
            Denial::Refused(refusal) => {
                Handling::Respond(self.refuse_access(refusal, request, client))
            }
        }
    }

    /// Returns the response to a request that access rules refuse.
    pub fn refuse_access(
        &self,
        refusal: AccessRefusal,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Response {
        let response = self.error_response(refusal.status(), client.permit);
        self.with_fields(refusal.complete(response), request, None)
    }

    /// Returns whether a request is an upload of the speed test, which gets its response at the
    /// end of its content.
    fn accepts_upload(&self, request: &Request<'_>) -> bool {
        let is_post = self.speedtest && request.method == Method::Post;
        is_post && request.split_target().0 == speedtest::UPLOAD
    }

    /// Returns the response to a request that the rules for its path grant.
    fn respond(
        &self,
        request: &Request<'_>,
        is_early: bool,
        client: &ClientContext<'_>,
        grant: AccessGrant,
    ) -> Handling {
        let found = match self.find_response(request, client, &grant) {
            Ok(found) => found,
            Err(Diversion::Denied(denial)) => return self.deny(denial, request, client),
            Err(Diversion::Origin(target)) => {
                return self.forward(target, request, is_early, client, grant);
            }
        };
        let mut response = self.with_fields(found.response, request, found.file.as_deref());
        self.apply_grants(&mut response, [grant, found.grant], request, client);
        Handling::Respond(response)
    }

    /// Changes a response as the access rules grant it.
    fn apply_grants(
        &self,
        response: &mut Response,
        [grant, more]: [AccessGrant; 2],
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) {
        if grant.is_private || more.is_private {
            access::make_private(response);
        }
        response.user = grant.user.or(more.user);
        let buckets = grant.buckets.into_iter().chain(more.buckets).collect();
        response.rate = ResponseRate::new(buckets, client.now);
        // Pages of other origins learn nothing of the client's path.
        if self.server_timing && request.is_same_origin() {
            response.add("server-timing", (client.report)().server_timing());
        }
    }

    /// Returns the response that is kept, or the request that the origin gets.
    fn forward(
        &self,
        target: OriginTarget,
        request: &Request<'_>,
        is_early: bool,
        client: &ClientContext<'_>,
        grant: AccessGrant,
    ) -> Handling {
        if fields::is_loop(request) {
            OriginError::Loop.outcome().count();
            return Handling::Respond(self.origin_error(&OriginError::Loop, request, client));
        }
        if request.content_length.is_some_and(|length| length > target.origin.content_bytes_max) {
            return Handling::Respond(self.refuse(413, request));
        }
        let lookup = target.cache.as_ref().map(|TargetCache { cache, settings, key }| {
            let now = (client.now, client.wall_now);
            look_up(cache, settings, Arc::clone(key), request, now)
        });
        let is_authenticated = grant.user.is_some();
        let forwarded = || self.forwarded(&target, request, is_early, client, is_authenticated);
        let (cached, cache_status) = match lookup {
            None => (None, None),
            Some(CacheLookup::Fetch(fetch)) => {
                let is_alone = target.origin.is_behind(request);
                (Some(if is_alone { fetch.alone() } else { fetch }), None)
            }
            Some(CacheLookup::Bypass(reason)) => (None, Some(CacheStatus::forwarded(reason))),
            Some(CacheLookup::OnlyIfCached) => return Handling::Respond(self.refuse(504, request)),
            Some(CacheLookup::Hit(answer, fetch)) => {
                let again = fetch.and_then(|fetch| {
                    Some(ForwardedRequest { cached: Some(fetch), ..forwarded()? })
                });
                // Its response is for later requests.
                again.into_iter().for_each(|again| drop(again.send()));
                let result = Ok(ForwardReply::Cached(answer));
                let answered = ForwardedResponse { result, grant, cache_status: None };
                return Handling::Respond(self.complete_reply(request, answered, client));
            }
        };
        let Some(forwarded) = forwarded() else {
            return Handling::Respond(self.refuse(400, request));
        };
        Handling::Forward(Box::new(ForwardedRequest { cached, cache_status, grant, ..forwarded }))
    }

    /// Returns the request that the origin gets, unless it can be none.
    fn forwarded(
        &self,
        OriginTarget { origin, target, .. }: &OriginTarget,
        request: &Request<'_>,
        is_early: bool,
        client: &ClientContext<'_>,
        is_authenticated: bool,
    ) -> Option<ForwardedRequest> {
        let address = *(client.addresses)().first()?;
        let protocol = client.protocol;
        let forwarded_client = ForwardedClient { address, protocol, is_early, is_authenticated };
        let mut forwarded = hyper::Request::new(OriginContent::default());
        *forwarded.uri_mut() = uri_of(&fields::normalized(request.authority), target)?;
        *forwarded.headers_mut() = fields::to_origin(request, forwarded_client);
        // It is one of those that are forwarded.
        *forwarded.method_mut() = request.method_name.parse().unwrap_or_default();
        Some(ForwardedRequest {
            origin: Arc::clone(origin),
            request: forwarded,
            client: address,
            report: Arc::default(),
            grant: AccessGrant::default(),
            cached: None,
            cache_status: None,
        })
    }

    /// Returns the response to a request without one of its origin.
    fn origin_error(
        &self,
        error: &OriginError,
        request: &Request<'_>,
        client: &ClientContext<'_>,
    ) -> Response {
        let mut response = self.error_response(error.status(), client.permit);
        if error.status() == 503 {
            response.add("retry-after", "1");
        }
        self.with_fields(response, request, None)
    }

    /// Changes the fields of an origin's response as the rules for its path say.
    fn with_rules(&self, mut response: Response, request: &Request<'_>) -> Response {
        let has_rules = self.rules.has_fields(true);
        let (path, _) = request.split_target();
        if let Some(url_path) = has_rules.then(|| UrlPath::parse(path)).flatten() {
            let path = url_path.decoded();
            self.rules.change(&mut response.fields, &path, true);
            response.is_without_alt_svc = self.rules.unset_alt_svc(&path, true);
        }
        if [200, 304].contains(&response.status) {
            response.fields.append(&mut self.hints(request));
        }
        response
    }

    /// Returns the response to a request that the host does not serve.
    fn refuse(&self, status: u16, request: &Request<'_>) -> Response {
        self.with_fields(Response::error(status), request, None)
    }

    /// Adds the configured fields to the response with a file, or without one.
    fn with_fields(
        &self,
        mut response: Response,
        request: &Request<'_>,
        file: Option<&Path>,
    ) -> Response {
        if let Some(file) = file.filter(|_| response.status != 412 && response.status != 416) {
            if self.is_negotiated() {
                response.add("vary", "accept-encoding");
            }
            if self.rules.has_fields(true) {
                let path = format!("/{}", file.display());
                response.fields.extend(self.rules.fields(&path, true));
                response.is_without_alt_svc = self.rules.unset_alt_svc(&path, true);
            }
            if [200, 304].contains(&response.status) {
                response.fields.append(&mut self.hints(request));
            }
            return response;
        }
        if !self.rules.has_fields(false) {
            return response;
        }
        let (path, _) = request.split_target();
        let decoded = UrlPath::parse(path).map(|url_path| url_path.decoded().to_string());
        let path = decoded.as_deref().unwrap_or(path);
        // A policy of the host's pages beside that of the server's own page would break that.
        let mut fields = self.rules.fields(path, false);
        fields.retain(|field| response.fields.iter().all(|own| own.name != field.name));
        response.fields.append(&mut fields);
        response.is_without_alt_svc = self.rules.unset_alt_svc(path, false);
        response
    }

    /// Returns the fields that a browser may have of a page before the response is there (RFC 8297).
    pub fn early_fields(&self, request: &Request<'_>) -> Vec<Field> {
        match early_hints::is_navigation(request) {
            true => self.hints(request),
            false => Vec::new(),
        }
    }

    fn hints(&self, request: &Request<'_>) -> Vec<Field> {
        if self.early_hints.is_empty() {
            return Vec::new();
        }
        let url_path = UrlPath::parse(request.split_target().0);
        url_path.map(|path| self.early_hints.fields(&path.decoded())).unwrap_or_default()
    }

    /// Returns the key by which the cache has the response for an encoded path and a query.
    pub fn cache_key(&self, authority: &str, path: &str, query: &str) -> String {
        let decoded = UrlPath::parse(path).map(|path| path.decoded()).unwrap_or_default();
        let settings = self.caches.find(&decoded);
        let query = settings.map_or(query.into(), |settings| settings.query(query));
        purge::key_of(authority, &(encode(&decoded) + &query))
    }

    /// Returns the response without configured fields.
    ///
    /// # Errors
    ///
    /// Access rules deny the file that the path leads to, or an origin has it.
    fn find_response(
        &self,
        request: &Request<'_>,
        client: &ClientContext<'_>,
        grant: &AccessGrant,
    ) -> Result<FoundResponse, Diversion> {
        let ClientContext { permit, wall_now, report, .. } = *client;
        let (path, query) = request.split_target();
        let unsigned = grant.is_signed.then(|| signed_urls::without_signature(query));
        let query = unsigned.as_deref().unwrap_or(query);
        if self.speedtest {
            if let Some(response) = speedtest::respond(path, query, request, wall_now, report) {
                return Ok(response.into());
            }
        }
        let url_path = UrlPath::parse(path);
        let decoded = url_path.as_ref().map(UrlPath::decoded);
        let origin = decoded.as_deref().and_then(|decoded| self.origins.find(decoded));
        let origin = origin.filter(|_| origin::is_forwarded(request.method_name));
        match request.method {
            _ if origin.is_some() => (),
            Method::Get | Method::Head => (),
            Method::Unknown => return Ok(self.error_response(501, permit).into()),
            _ => return Ok(Response::method_not_allowed(ALLOWED).into()),
        }
        let Some((url_path, decoded)) = url_path.zip(decoded) else {
            return Ok(self.error_response(400, permit).into());
        };
        if let Some((status, to)) = self.rules.redirect(&decoded, query) {
            return Ok(Response::redirect(status, to).into());
        }
        if let Some(origin) = origin {
            let origin = Arc::clone(origin);
            let settings = self.response_cache.as_ref().zip(self.caches.find(&decoded));
            let query = settings.map_or(query.into(), |(_, settings)| settings.query(query));
            let target = encode(&decoded) + &query;
            let cache = settings.map(|(cache, settings)| TargetCache {
                cache: Arc::clone(cache),
                settings: Arc::clone(settings),
                key: purge::key_of(request.authority, &target).into(),
            });
            return Err(Diversion::Origin(OriginTarget { origin, target, cache }));
        }
        let accepted = match self.is_negotiated() {
            true => content_coding::accepted(request.values("accept-encoding")),
            false => Vec::new(),
        };
        match self.look_up(&url_path, &decoded, &accepted, permit, wall_now) {
            Ok(Lookup::Folder) => {
                let to = format!("{}/{query}", rules::encode(&decoded));
                Ok(Response::redirect(301, to).into())
            }
            Ok(Lookup::File(representation, relative)) => {
                let grant = self.check_file(&decoded, &relative, request, client)?;
                let representation = self.compressed(representation, &relative, &accepted, request);
                let response = present(representation, request, wall_now);
                Ok(FoundResponse { response, file: Some(relative), grant })
            }
            Err(e) => {
                debug!("{path}: {e}");
                let status = status_of(&e);
                if status == 503 {
                    warn_of_files(&e);
                }
                Ok(self.error_response(status, permit).into())
            }
        }
    }

    /// Returns whether files have several representations, of which `accept-encoding` selects one.
    fn is_negotiated(&self) -> bool {
        self.rules.precompressed || self.compressor.is_some()
    }

    /// Returns the compressed variant of a file without a sibling, if there is one. Otherwise returns
    /// the file, and has it compressed if it is worth it.
    fn compressed(
        &self,
        mut plain: Representation,
        relative: &Path,
        accepted: &[Coding],
        request: &Request<'_>,
    ) -> Representation {
        let (Some(compressor), Some(identity)) = (&self.compressor, plain.identity) else {
            return plain;
        };
        let is_plain = plain.coding.is_none() && !accepted.is_empty();
        if !is_plain || !self.rules.compression.applies_to(&plain.content_type, plain.length) {
            return plain;
        }
        // The same request may get the file now, the variant later, and then the file again.
        plain.validators.is_date_weak = true;
        // A client that has the file, or a part of it, goes on with that.
        if plain.validators.are_named_by(request) {
            return plain;
        }
        let source = CompressionSource::File { root: &self.root, relative, identity };
        match compressor.find(&source, accepted) {
            Some((coding, variant)) => plain.encoded(coding, variant),
            None => plain,
        }
    }

    /// Finds what a path names, or was found to name a moment ago.
    fn look_up(
        &self,
        url_path: &UrlPath,
        decoded: &str,
        accepted: &[Coding],
        permit: &dyn Fn(&FileReaders) -> Option<FilePermit>,
        wall_now: SystemTime,
    ) -> io::Result<Lookup> {
        let (root, rules) = (&self.root, &self.rules);
        let Some((cache, number)) = &self.cache else {
            return file_lookup::find_or_else(root, rules, url_path, accepted, permit);
        };
        let kept = cache.get(*number, decoded, accepted, wall_now);
        if let Some(found) = kept.and_then(|kept| kept.found(root, rules, permit)) {
            return found;
        }
        let mut found = file_lookup::find_or_else(root, rules, url_path, accepted, permit);
        if let Some(kept) = KeptLookup::of(&mut found) {
            cache.insert(*number, decoded, accepted, kept, wall_now);
        }
        found
    }

    /// Returns an error response, with the host's error page if there is one.
    fn error_response(
        &self,
        status: u16,
        permit: &dyn Fn(&FileReaders) -> Option<FilePermit>,
    ) -> Response {
        let page = self.rules.error_page(status).and_then(|path| {
            let page = self.error_page(path, permit);
            page.inspect_err(|e| debug!("{path}: {e}")).ok()
        });
        match page {
            Some(page) => Response::new(status, Body::of(page.source, 0..page.length))
                .with("content-type", page.content_type),
            None => Response::error(status),
        }
    }

    /// Opens the error page at a path.
    fn error_page(
        &self,
        path: &str,
        permit: &dyn Fn(&FileReaders) -> Option<FilePermit>,
    ) -> io::Result<Representation> {
        let url_path = UrlPath::parse(path).ok_or(io::ErrorKind::InvalidInput)?;
        match file_lookup::find(&self.root, &self.rules, &url_path, &[], permit)? {
            Lookup::File(page, _) => Ok(page),
            Lookup::Folder => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// Returns a line for each error page that does not exist.
    pub fn missing_error_pages(&self) -> Vec<String> {
        let line = |(status, path)| {
            let problem = self.problem_of(path)?;
            Some(format!("error {status} = '{path}': {problem}"))
        };
        self.rules.error_pages().filter_map(line).collect()
    }

    /// Returns a line for each file that `try-files` names and that does not exist.
    pub fn missing_try_files(&self) -> Vec<String> {
        let files = self.rules.try_files.files();
        let problem = |path: String| {
            let problem = self.problem_of(&encode(&path))?;
            Some(format!("try-files: '{path}': {problem}"))
        };
        files.filter_map(problem).collect()
    }

    /// Returns why the file at a path cannot be served, and the way out.
    fn problem_of(&self, path: &str) -> Option<String> {
        let subnet = IpNet::default();
        let files = FileLimiter::default().account(subnet, ClientUnit::of(subnet.addr()));
        let permit = |readers: &FileReaders| files.try_read(readers, u64::MAX);
        let error = self.error_page(path, &permit).err()?;
        let root = self.root.path().display();
        Some(match error.kind() {
            io::ErrorKind::NotFound => format!("no such file in {root}; create it there"),
            _ => format!("{error} in {root}; name a readable file"),
        })
    }
}

/// Returns the URI of an encoded path and a query, if it is one.
fn uri_of(authority: &str, target: &str) -> Option<hyper::Uri> {
    let uri = hyper::Uri::builder().scheme("https").authority(authority);
    uri.path_and_query(target).build().ok()
}

/// Warns once of each reason why requests can open no file.
fn warn_of_files(error: &io::Error) {
    static SUBNET: Once = Once::new();
    static PROCESS: Once = Once::new();
    match is_subnet_limit(error) {
        true => SUBNET.call_once(|| {
            warn!(
                "requests get 503: {error}; raise that, whose default follows from the limit of open \
                 files, if these are honest clients"
            );
        }),
        false => PROCESS.call_once(|| {
            warn!(
                "requests get 503: {error}; raise the limit of open files (LimitNOFILE, ulimit -n)"
            );
        }),
    }
}

fn is_subnet_limit(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|reason| reason.is::<SubnetLimitReached>())
}

fn status_of(error: &io::Error) -> u16 {
    if is_subnet_limit(error) {
        return 503;
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO) => 404,
        Some(Errno::ACCESS | Errno::PERM) => 403,
        Some(Errno::MFILE | Errno::NFILE) => 503,
        _ => 500,
    }
}

#[cfg(test)]
mod tests;
