//! Target of a download: the parsed and checked URL.

use std::fmt;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::str::FromStr;

use url::Host;
use url::Position;
use url::Url;

use crate::failure::Failure;

/// Parts of an https URL that a request needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The URL as the user wrote it.
    pub url: String,

    /// The host that the server's certificate must be for.
    pub host: Host,

    /// Host, and the port unless it is 443: the `:authority` of the request.
    pub authority: String,

    /// Path and query: the `:path` of the request.
    pub path: String,

    /// UDP port of the server.
    pub port: u16,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "write it as https://HOST[:PORT]/PATH";
        let url = Url::parse(text).map_err(|e| format!("{e}; {wanted}"))?;
        if url.scheme() != "https" {
            return Err(format!(
                "HTTP/3 is always encrypted, so the URL must start with \
                 https://, not {}:",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("user names in URLs are not supported".to_owned());
        }
        // The parser repairs URLs as browsers do: in https:///file it takes "file" for the host.
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        if rest.starts_with(['/', '\\']) || rest.is_empty() {
            return Err(format!("the URL names no host; {wanted}"));
        }
        let host = url.host().ok_or("the URL names no host")?.to_owned();
        let port = url.port_or_known_default().ok_or("the URL has no port")?;
        if port == 0 {
            return Err("port 0 cannot be connected to".to_owned());
        }

        Ok(Self {
            url: text.to_owned(),
            authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            path: url[Position::BeforePath..Position::AfterQuery].to_owned(),
            host,
            port,
        })
    }
}

/// Address to send packets to instead of that of the URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "write it as ADDR:PORT, for example 127.0.0.1:4433 or \
                      [::1]:4433";
        let (host, port) = match text.parse::<SocketAddr>() {
            Ok(addr) => (addr.ip().to_string(), addr.port()),
            Err(_) => {
                let (host, port) = text.rsplit_once(':').ok_or(wanted)?;
                (host.to_owned(), port.parse().map_err(|_| wanted)?)
            }
        };
        if host.is_empty() || host.contains(':') && host.parse::<IpAddr>().is_err() {
            return Err(wanted.to_owned());
        }
        if port == 0 {
            return Err("port 0 cannot be connected to".to_owned());
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Returns the addresses to try in order: those of `connect` if given, else of the URL's host;
/// only those that a socket bound to `local` can reach.
pub fn addresses(
    target: &Target,
    connect: Option<&Endpoint>,
    local: Option<IpAddr>,
) -> Result<Vec<SocketAddr>, Failure> {
    let found = match (connect, &target.host) {
        (Some(endpoint), _) => resolve(&endpoint.host, endpoint.port)?,
        (None, Host::Domain(name)) => resolve(name, target.port)?,
        (None, Host::Ipv4(ip)) => vec![(*ip, target.port).into()],
        (None, Host::Ipv6(ip)) => vec![(*ip, target.port).into()],
    };

    let Some(local) = local else { return Ok(found) };
    let reachable: Vec<_> =
        found.into_iter().filter(|addr| addr.is_ipv4() == local.is_ipv4()).collect();
    if reachable.is_empty() {
        let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(Failure::failed(format!(
            "the server has no {family} address to go with --local {local}"
        )));
    }
    Ok(reachable)
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let unknown = |reason: String| {
        Failure::failed(format!(
            "cannot find the address of {host} ({reason}); check the name, or \
             give the address with --connect ADDR:PORT"
        ))
    };
    let found: Vec<_> =
        (host, port).to_socket_addrs().map_err(|e| unknown(e.to_string()))?.collect();
    if found.is_empty() {
        return Err(unknown("it has none".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_split_into_parts() {
        let table = [
            ("https://example.org", "example.org", "/", 443),
            ("https://example.org:443/a", "example.org", "/a", 443),
            ("https://h:4433/a/b?c=d#e", "h:4433", "/a/b?c=d", 4433),
            ("https://127.0.0.1:1/x", "127.0.0.1:1", "/x", 1),
            ("https://[::1]:4433/", "[::1]:4433", "/", 4433),
            ("https://H.example/ü", "h.example", "/%C3%BC", 443),
        ];
        for (text, authority, path, port) in table {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.url, text);
            assert_eq!(target.authority, authority, "{text}");
            assert_eq!(target.path, path, "{text}");
            assert_eq!(target.port, port, "{text}");
        }
    }

    #[test]
    fn url_that_cannot_be_fetched_says_why() {
        let table = [
            ("http://example.org/", "must start with https://"),
            ("ftp://example.org/", "must start with https://"),
            ("example.org/file", "https://HOST"),
            ("localhost:4433/file", "must start with https://"),
            ("https://", "https://HOST"),
            ("https://:4433/x", "https://HOST"),
            ("https:///file", "names no host"),
            ("https:file", "names no host"),
            ("https://h:70000/x", "https://HOST"),
            ("https://h:0/x", "port 0"),
            ("https://me:secret@h/x", "user names"),
            ("", "https://HOST"),
        ];
        for (text, expected) in table {
            let reason = text.parse::<Target>().expect_err(text);
            assert!(reason.contains(expected), "{text:?} gave: {reason}");
        }
    }

    #[test]
    fn connect_takes_address_or_name_and_port() {
        for text in ["127.0.0.1:4433", "[::1]:4433", "edge:4433"] {
            assert!(text.parse::<Endpoint>().is_ok(), "{text}");
        }
        for text in ["", "4433", "127.0.0.1", ":4433", "h:0", "h:x", "::1", "a:b:1"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn connect_overrides_the_address_of_the_url() {
        let target: Target = "https://192.0.2.1:4433/".parse().unwrap();
        let connect: Endpoint = "127.0.0.1:5544".parse().unwrap();
        assert_eq!(addresses(&target, None, None).unwrap(), ["192.0.2.1:4433".parse().unwrap()]);
        assert_eq!(
            addresses(&target, Some(&connect), None).unwrap(),
            ["127.0.0.1:5544".parse().unwrap()]
        );
    }

    #[test]
    fn local_address_of_other_family_is_refused() {
        let target: Target = "https://127.0.0.1/".parse().unwrap();
        let local = Some("::1".parse().unwrap());
        let failure = addresses(&target, None, local).unwrap_err();
        assert!(failure.to_string().contains("no IPv6 address"));
    }
}
