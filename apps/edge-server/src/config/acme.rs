//! Options of ACME (RFC 8555), and names of the files that servers share for it.

use std::path::Path;
use std::path::PathBuf;

use clap::Args;

use crate::config::heading::ACME;

/// Directory of the default authority.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Longest token of a challenge that is answered, in bytes. Those of Let's Encrypt have 43.
const TOKEN_BYTES_MAX: usize = 128;

/// Longest name of a host, in bytes: file names that contain it have up to 255.
const NAME_BYTES_MAX: usize = 240;

/// Options of ACME.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = ACME)]
pub struct AcmeOptions {
    /// Folder for the ACME account, certificates and challenges of hosts with acme = true
    ///
    /// Hosts of the configuration file that say acme = true get their certificates from the authority of
    /// --acme-directory, whose terms of service you accept by that. Servers that share the folder
    /// share certificates and answer each other's challenges; one of them at a time renews. Keep it from
    /// one restart to the next: authorities limit how often they issue.
    #[arg(long, value_name = "DIR")]
    pub acme_dir: Option<PathBuf>,

    /// URL of the ACME authority's directory
    ///
    /// The default is Let's Encrypt. Account and certificates of each authority are kept apart: try
    /// https://acme-staging-v02.api.letsencrypt.org/directory first, which has higher limits and issues
    /// certificates that no client trusts.
    #[arg(long, value_name = "URL", default_value = LETS_ENCRYPT, value_parser = parse_directory)]
    pub acme_directory: String,

    /// Address that the authority may write to, such as mailto:admin@example.org
    #[arg(long, value_name = "mailto:ADDRESS", requires = "acme_dir", value_parser = parse_contact)]
    pub acme_contact: Option<String>,

    /// Root certificate that the authority's own server is checked with, PEM [default: the system's]
    ///
    /// For a private authority. Its certificates for hosts need not lead there.
    #[arg(long, value_name = "F", requires = "acme_dir")]
    pub acme_ca: Option<PathBuf>,

    /// File with the key ID and the HMAC key of an account that the authority has given
    ///
    /// For authorities that want one: external account binding (RFC 8555, 7.3.4). One line has both, the
    /// key in base64url. The file is needed until the ACME account is made.
    #[arg(long, value_name = "F", requires = "acme_dir")]
    pub acme_external_account: Option<PathBuf>,

    /// Pause after a failed attempt to get a certificate, in seconds
    ///
    /// It doubles with each further failure, up to four hours. A reload tries again at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "acme_dir",
        value_parser = clap::value_parser!(u32).range(1..=14_400))]
    pub acme_retry: u32,
}

/// Files of ACME. Those of an authority are in a folder of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeFiles {
    root: PathBuf,
    authority: PathBuf,
}

impl AcmeOptions {
    /// Returns where the files are, if a folder is named.
    pub fn files(&self) -> Option<AcmeFiles> {
        self.acme_dir.as_deref().map(|root| AcmeFiles::new(root, &self.acme_directory))
    }
}

impl AcmeFiles {
    fn new(root: &Path, directory: &str) -> Self {
        let url = directory.trim_start_matches("https://").trim_end_matches('/');
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        // A dot at its begin would hide it, or lead elsewhere.
        let folder: String = url.trim_start_matches('.').chars().map(safe).collect();
        Self { root: root.to_owned(), authority: root.join(folder) }
    }

    /// Returns the account's key and URL.
    pub fn account(&self) -> PathBuf {
        self.authority.join("account.json")
    }

    /// Returns the file that the server that renews has locked.
    pub fn lock(&self) -> PathBuf {
        self.authority.join("lock")
    }

    /// Returns a host's certificate chain and private key; `name` is its first.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.of_host(name).join("certificate.pem")
    }

    /// Returns the failures since the last success.
    pub fn failures(&self, name: &str) -> PathBuf {
        self.of_host(name).join("failures")
    }

    fn of_host(&self, name: &str) -> PathBuf {
        self.authority.join("hosts").join(name.to_ascii_lowercase())
    }

    /// Returns the folder of responses to challenges.
    pub fn challenges(&self) -> PathBuf {
        self.root.join("challenges")
    }

    /// Returns the response to a challenge of HTTP-01, unless that cannot be a token.
    pub fn http_challenge(&self, token: &str) -> Option<PathBuf> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.bytes().all(is_known);
        is_token.then(|| self.challenges().join(format!("http-01.{token}")))
    }

    /// Returns the response to a challenge of TLS-ALPN-01, unless that cannot be a host name.
    pub fn alpn_challenge(&self, name: &str) -> Option<PathBuf> {
        let name = name.to_ascii_lowercase();
        is_name(&name).then(|| self.challenges().join(format!("tls-alpn-01.{name}")))
    }
}

/// Checks that a name of a host can be in a certificate: HTTP-01 and TLS-ALPN-01 are for host names
/// alone.
///
/// # Errors
///
/// Why not, and the way out.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.starts_with("*.") {
        return Err(format!(
            "acme = true is not for the wildcard '{name}'; list the names, or set cert and key"
        ));
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err(format!(
            "acme = true is for names, and '{name}' is an address; set cert and key"
        ));
    }
    match is_name(name) {
        true => Ok(()),
        false => Err(format!("'{name}' is not a host name; write www.example.org")),
    }
}

fn is_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_known);
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn parse_directory(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").unwrap_or_default();
    match host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') {
        true => Ok(text.to_owned()),
        false => Err("name the https:// URL of an ACME directory".to_owned()),
    }
}

fn parse_contact(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("mailto:").unwrap_or_default();
    match address.split_once('@') {
        Some((user, host)) if !user.is_empty() && !host.is_empty() => Ok(text.to_owned()),
        _ => Err("write mailto: and an address, such as mailto:admin@example.org".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> AcmeFiles {
        AcmeFiles::new(Path::new("/acme"), LETS_ENCRYPT)
    }

    #[test]
    fn each_authority_has_a_folder_of_its_own() {
        for (directory, folder) in [
            (LETS_ENCRYPT, "acme-v02.api.letsencrypt.org_directory"),
            ("https://[::1]:14000/dir/", "___1__14000_dir"),
            ("https://../../x", "_.._x"),
        ] {
            let account = AcmeFiles::new(Path::new("/acme"), directory).account();
            assert_eq!(account, Path::new("/acme").join(folder).join("account.json"));
        }
        let certificate = files().certificate("WWW.example.org");
        assert!(certificate.ends_with("hosts/www.example.org/certificate.pem"), "{certificate:?}");
    }

    #[test]
    fn only_tokens_and_names_lead_to_files() {
        let long = "a".repeat(129);
        for (token, file) in [
            ("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA", true),
            ("a", true),
            ("", false),
            ("..", false),
            ("../account.json", false),
            ("a/b", false),
            ("a.b", false),
            ("a%2fb", false),
            ("a\0", false),
            (&long, false),
        ] {
            let found = files().http_challenge(token);
            let expected = format!("/acme/challenges/http-01.{token}");
            assert_eq!(found, file.then(|| expected.into()), "{token}");
        }
        for (name, file) in [
            ("www.example.org", true),
            ("WWW.example.org", true),
            ("", false),
            ("..", false),
            (".a", false),
            ("a..b", false),
            ("../../etc/passwd", false),
            (&"a.".repeat(127), false),
        ] {
            let found = files().alpn_challenge(name);
            let expected = format!("/acme/challenges/tls-alpn-01.{}", name.to_ascii_lowercase());
            assert_eq!(found, file.then(|| expected.into()), "{name}");
        }
    }
}
