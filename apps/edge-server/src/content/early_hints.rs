//! Early hints of a virtual host (RFC 8297): links to what its pages need, which browsers follow before
//! they have read the page.

use anyhow::ensure;
use anyhow::Context;

use crate::config::file;
use crate::config::file::Host;
use crate::content::path_pattern::PathPattern;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Field;

/// Relations that browsers follow early.
const RELATIONS: [&str; 3] = ["preload", "modulepreload", "preconnect"];

/// Rules of a host.
#[derive(Clone, Debug)]
pub struct EarlyHints(Vec<HintRule>);

#[derive(Clone, Debug)]
struct HintRule {
    path: PathPattern,
    links: Vec<String>,
}

impl EarlyHints {
    /// Validates the rules of a host.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &Host) -> anyhow::Result<Self> {
        let rules = host.early_hints.iter().flatten();
        let rules =
            rules.map(|rule| HintRule::new(rule).with_context(|| rule.position.to_string()));
        Ok(Self(rules.collect::<anyhow::Result<_>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields of a response for a decoded path of a request: those of all rules that match.
    pub fn fields(&self, path: &str) -> Vec<Field> {
        let rules = self.0.iter().filter(|rule| rule.path.is_match(path));
        rules.flat_map(|rule| &rule.links).map(|link| Field::new("link", link.clone())).collect()
    }
}

impl HintRule {
    fn new(rule: &file::EarlyHintsRule) -> anyhow::Result<Self> {
        let file::EarlyHintsRule { path, links, .. } = rule;
        ensure!(!links.is_empty(), "early-hints: path = '{path}' has no links; add one");
        links.iter().try_for_each(|link| check_link(link))?;
        Ok(Self { path: PathPattern::new("early-hints", path)?, links: links.clone() })
    }
}

/// Returns whether a browser is about to show the response as a page. Others make no use of hints, and
/// programs may not know that a response can have several header sections.
pub fn is_navigation(request: &Request<'_>) -> bool {
    request.method == Method::Get && request.value("sec-fetch-mode") == Some("navigate")
}

/// Checks the value of a `link` field (RFC 8288, 3).
fn check_link(link: &str) -> anyhow::Result<()> {
    let is_plain = link.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let parts = link.strip_prefix('<').and_then(|rest| rest.split_once(">;"));
    let parts = parts.filter(|(url, _)| is_plain && !url.is_empty() && !url.contains([' ', '<']));
    let parameters = parts.map(|(_, parameters)| parameters).unwrap_or_default();
    let value = |name: &str| {
        let mut parameters = parameters.split(';').filter_map(|text| text.trim().split_once('='));
        let (_, value) = parameters.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(value.trim_matches('"')).filter(|value| !value.is_empty())
    };
    let relation = value("rel").filter(|relation| RELATIONS.contains(relation));
    ensure!(
        relation.is_some() && !parameters.contains('<'),
        "early-hints: link '{}': write one such as <https://a.example>; rel=preconnect or \
         </a.css>; rel=preload; as=style, each apart",
        link.escape_default()
    );
    let lacks_kind = relation == Some("preload") && value("as").is_none();
    ensure!(
        !lacks_kind,
        "early-hints: link '{link}': preload needs a kind; add one such as as=style"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(toml: &str) -> anyhow::Result<EarlyHints> {
        EarlyHints::new(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn fields_are_those_of_all_matching_rules() {
        let hints =
            new("early-hints = [{ path = '/', links = ['</a.css>; rel=preload; as=style'] },\n\
                         { path = '/**', links = ['<https://b.example>; rel=preconnect'] }]");
        let hints = hints.unwrap();
        let links = |path| -> Vec<_> {
            hints.fields(path).into_iter().map(|field| field.value.into_owned()).collect()
        };
        let (style, other) =
            ("</a.css>; rel=preload; as=style", "<https://b.example>; rel=preconnect");
        assert_eq!(
            (links("/"), links("/x")),
            (vec![style.into(), other.into()], vec![other.into()])
        );
        assert!(!hints.is_empty() && new("").unwrap().is_empty());
    }

    #[test]
    fn link_is_checked() {
        for (link, named) in [
            ("</a.css>; rel=preload; as=style", None),
            ("</a.css>;rel=\"preload\";as=\"style\";crossorigin", None),
            ("<https://a.example/?a,b;c>; rel=preconnect", None),
            ("</a.js>; rel=modulepreload", None),
            ("</a.css>; rel=preload", Some("preload needs a kind")),
            ("</a.css>; rel=preload; as=", Some("preload needs a kind")),
            ("</a.css>; rel=stylesheet", Some("write one such as")),
            ("</a.css>", Some("write one such as")),
            ("/a.css; rel=preload; as=style", Some("write one such as")),
            ("<>; rel=preload; as=style", Some("write one such as")),
            ("</ä>; rel=preload; as=style", Some("write one such as")),
            ("</a>; rel=preload; as=style\n", Some("write one such as")),
            ("</a>; rel=preload; as=style, </b>; rel=preload; as=style", Some("each apart")),
        ] {
            let error = check_link(link).err().map(|error| error.to_string());
            let is_named = |named: &str| error.as_ref().is_some_and(|error| error.contains(named));
            assert!(named.map_or(error.is_none(), is_named), "{link}: {error:?}");
            assert!(error.is_none_or(|error| !error.contains('\n')), "{link}");
        }
    }

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("path = 'a/b', links = ['</a>; rel=modulepreload']", "early-hints: path = 'a/b'"),
            ("path = '/', links = []", "early-hints: path = '/' has no links"),
            ("path = '/', links = ['']", "early-hints: link ''"),
        ] {
            let error = new(&format!("early-hints = [{{ {toml} }}]")).unwrap_err();
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }
}
