//! Cross-origin resource sharing (CORS, as the Fetch standard has it): which web pages of other
//! origins may read responses.

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;

use crate::config::file;
use crate::content::path_pattern::PathPattern;
use crate::content::url_path::UrlPath;
use crate::http::body::Body;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Response;

/// Methods that resources of the server support.
const METHODS: [&str; 3] = ["GET", "HEAD", "POST"];

/// Fields of a preflight response alone.
const PREFLIGHT_FIELDS: [&str; 3] =
    ["access-control-allow-methods", "access-control-allow-headers", "access-control-max-age"];

/// What begins the names of the fields of CORS.
const FIELDS: &str = "access-control-";

/// Rules of a host, at least one. The first that matches a path is for it.
#[derive(Clone, Debug)]
pub struct CorsRules(Vec<PathCors>);

#[derive(Clone, Debug)]
struct PathCors {
    path: PathPattern,

    /// Absent if pages of every origin may read responses.
    origins: Option<Vec<String>>,
    credentials: bool,

    /// Values of fields; an empty one is not sent.
    methods: String,
    headers: String,
    expose: String,
    max_age: Option<u32>,
}

impl CorsRules {
    /// Validates the rules of a host. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &file::Host) -> anyhow::Result<Option<Self>> {
        let rules = host.cors.iter().flatten();
        let rules = rules.map(|rule| PathCors::new(rule).context(rule.position));
        let rules: Vec<_> = rules.collect::<anyhow::Result<_>>()?;
        Ok((!rules.is_empty()).then_some(Self(rules)))
    }

    /// Returns the response to a preflight request: which methods and fields a page may use.
    pub fn preflight(&self, request: &Request<'_>) -> Option<Response> {
        let is_preflight = request.method == Method::Options
            && request.value("origin").is_some()
            && request.value("access-control-request-method").is_some();
        let rule = self.find(request).filter(|_| is_preflight)?;
        let mut response = Response::new(204, Body::empty());
        if rule.allows(request) {
            rule.describe(&mut response);
        }
        Some(response)
    }

    /// Adds the fields of the rule for the path of a request to its response. They replace those of
    /// other rules: browsers accept one alone.
    pub fn complete(&self, request: &Request<'_>, response: &mut Response) {
        let Some(rule) = self.find(request) else { return };
        let is_preflight = request.method == Method::Options && response.status == 204;
        let is_own = |name: &str| is_preflight && PREFLIGHT_FIELDS.contains(&name);
        response.fields.retain(|field| !field.name.starts_with(FIELDS) || is_own(&field.name));
        // Also without an origin: a cache may keep the response.
        if rule.origins.is_some() {
            response.add("vary", "origin");
        }
        let Some(origin) = request.value("origin").filter(|_| rule.allows(request)) else { return };
        let origin = if rule.origins.is_some() { origin } else { "*" };
        response.add("access-control-allow-origin", origin.to_owned());
        if rule.credentials {
            response.add("access-control-allow-credentials", "true");
        }
        if !rule.expose.is_empty() && !is_preflight {
            response.add("access-control-expose-headers", rule.expose.clone());
        }
    }

    fn find(&self, request: &Request<'_>) -> Option<&PathCors> {
        let path = UrlPath::parse(request.split_target().0)?.decoded();
        self.0.iter().find(|rule| rule.path.is_match(&path))
    }
}

impl PathCors {
    fn new(rule: &file::CorsRule) -> anyhow::Result<Self> {
        let file::CorsRule { path, origins, methods, headers, expose, credentials, .. } = rule;
        ensure!(!origins.is_empty(), "cors: path = '{path}': name origins, or \"*\" for all");
        ensure!(!methods.is_empty(), "cors: methods = [] allows none; name one, or leave it out");
        let is_open = origins.iter().any(|origin| origin == "*");
        ensure!(!is_open || origins.len() == 1, "cors: origins has \"*\" and others; keep one");
        if !is_open {
            origins.iter().try_for_each(|origin| check_origin(origin))?;
        }
        for (key, list) in [("origins", origins), ("headers", headers), ("expose", expose)] {
            let is_any = list.iter().any(|item| item == "*");
            ensure!(
                !(*credentials && is_any),
                "cors: {key} = \"*\" and credentials = true: browsers refuse both together; name each"
            );
        }
        for method in methods {
            let is_known = METHODS.contains(&method.as_str());
            ensure!(is_known, "cors: methods: '{method}' is not supported; use GET, HEAD or POST");
        }
        check_names("headers", headers)?;
        check_names("expose", expose)?;
        Ok(Self {
            path: PathPattern::new("cors", path)?,
            origins: (!is_open).then(|| origins.clone()),
            credentials: *credentials,
            methods: methods.join(", "),
            headers: headers.join(", "),
            expose: expose.join(", "),
            max_age: rule.max_age,
        })
    }

    /// Returns whether a page of the origin of a request may read responses.
    fn allows(&self, request: &Request<'_>) -> bool {
        let Some(origins) = &self.origins else { return true };
        let mut given = request.values("origin");
        let origin = given.next().filter(|_| given.next().is_none());
        origin.is_some_and(|origin| origins.iter().any(|allowed| allowed == origin))
    }

    /// Adds the fields of a preflight response.
    fn describe(&self, response: &mut Response) {
        response.add("access-control-allow-methods", self.methods.clone());
        if !self.headers.is_empty() {
            response.add("access-control-allow-headers", self.headers.clone());
        }
        if let Some(max_age) = self.max_age {
            response.add("access-control-max-age", max_age.to_string());
        }
    }
}

/// Checks that an origin is as browsers write it.
fn check_origin(origin: &str) -> anyhow::Result<()> {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte);
    let Some(host) = host.filter(|host| !host.is_empty() && host.bytes().all(is_plain)) else {
        bail!(
            "cors: origins: '{origin}' is no origin; write \"*\", or https://host in lower case without \
             a path"
        );
    };
    let default = if origin.starts_with("https:") { ":443" } else { ":80" };
    let Some(short) = host.strip_suffix(default) else { return Ok(()) };
    let scheme = &origin[..origin.len() - host.len()];
    bail!("cors: origins: '{origin}': browsers leave the default port out; write {scheme}{short}");
}

fn check_names(key: &str, names: &[String]) -> anyhow::Result<()> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    for name in names {
        let is_valid = !name.is_empty() && name.bytes().all(is_token);
        ensure!(is_valid, "cors: {key}: '{name}' is not the name of a field");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("origins = []", "cors: path = '**': name origins"),
            ("origins = ['*', 'https://a.example']", "cors: origins has \"*\" and others"),
            ("origins = ['*']\ncredentials = true", "cors: origins = \"*\" and credentials"),
            ("origins = ['https://a.example/']", "'https://a.example/' is no origin"),
            ("origins = ['https://A.example']", "'https://A.example' is no origin"),
            ("origins = ['a.example']", "'a.example' is no origin"),
            ("origins = ['null']", "'null' is no origin"),
            (
                "origins = ['https://a.example:443']",
                "leave the default port out; write https://a.example",
            ),
            ("origins = ['*']\nmethods = ['PUT']", "cors: methods: 'PUT'"),
            ("origins = ['*']\nmethods = []", "cors: methods = [] allows none"),
            ("origins = ['*']\nheaders = ['a b']", "cors: headers: 'a b'"),
            ("origins = ['*']\nexpose = ['']", "cors: expose: ''"),
            ("origins = ['*']\npath = 'a/b'", "cors: path = 'a/b'"),
            (
                "origins = ['https://a.example']\nheaders = ['*']\ncredentials = true",
                "cors: headers = \"*\" and credentials",
            ),
        ] {
            let rule: file::CorsRule = toml::from_str(toml).unwrap();
            let error = PathCors::new(&rule).expect_err(toml).to_string();
            assert!(error.contains(named) && !error.contains('\n'), "{toml}: {error}");
        }
    }
}
