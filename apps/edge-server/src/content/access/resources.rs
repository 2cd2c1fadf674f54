//! Resources of access rules: files, which hosts may share, and the threads that check passwords.

use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use path_store::key_file::KeyFile;
use path_store::key_file::KeyText;
use quiche::path_state::PrefixLengths;

use crate::content::access::bandwidth::Bandwidth;
use crate::content::access::basic_auth::Htpasswd;
use crate::content::access::password_checker::PasswordChecker;
use crate::content::access::request_rate::RequestRate;
use crate::content::access::rule_limiters::RuleKey;
use crate::content::access::rule_limiters::RuleLimiters;
use crate::content::access::signed_urls::SigningSecrets;

/// Resources that the rules of all hosts share.
#[derive(Debug)]
pub struct AccessResources {
    /// Those of subnets whose requests are counted together.
    pub prefix_lengths: PrefixLengths,
    users: HashMap<PathBuf, KeyFile<Htpasswd>>,
    secrets: HashMap<PathBuf, KeyFile<SigningSecrets>>,
    checker: Option<Arc<PasswordChecker>>,

    /// Limiters of the rules so far, and of those before the reload.
    limiters: RuleLimiters,
    previous_limiters: Arc<RuleLimiters>,
}

impl AccessResources {
    /// Returns resources without any file open, for rules that come after those with these limiters.
    pub fn new(prefix_lengths: PrefixLengths, previous_limiters: Arc<RuleLimiters>) -> Self {
        Self {
            prefix_lengths,
            users: HashMap::new(),
            secrets: HashMap::new(),
            checker: None,
            limiters: RuleLimiters::default(),
            previous_limiters,
        }
    }

    /// Returns the limiter of a rule's requests.
    pub fn rate(&mut self, key: &RuleKey, new: RequestRate) -> Arc<RequestRate> {
        self.limiters.add_rate(key, new, &self.previous_limiters)
    }

    /// Returns the limiter of a rule's bandwidth.
    pub fn bandwidth(&mut self, key: &RuleKey, new: Bandwidth) -> Arc<Bandwidth> {
        self.limiters.add_bandwidth(key, new, &self.previous_limiters)
    }

    /// Returns the limiters of all rules.
    pub fn into_limiters(self) -> Arc<RuleLimiters> {
        Arc::new(self.limiters)
    }

    /// Returns the users of a file, which is read again when it changes.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn users(&mut self, path: &Path) -> anyhow::Result<KeyFile<Htpasswd>> {
        open(&mut self.users, ["basic-auth", "password file"], path)
    }

    /// Returns the secrets of a file, which is read again when it changes.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn secrets(&mut self, path: &Path) -> anyhow::Result<KeyFile<SigningSecrets>> {
        open(&mut self.secrets, ["signed-url", "file of signing secrets"], path)
    }

    /// Returns what checks passwords.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn checker(&mut self) -> anyhow::Result<Arc<PasswordChecker>> {
        if let Some(checker) = &self.checker {
            return Ok(Arc::clone(checker));
        }
        let checker = PasswordChecker::start(self.prefix_lengths)
            .context("cannot start threads for basic-auth")?;
        Ok(Arc::clone(self.checker.insert(Arc::new(checker))))
    }
}

fn open<T: KeyText + Send + Sync + 'static>(
    opened: &mut HashMap<PathBuf, KeyFile<T>>,
    [key, kind]: [&'static str; 2],
    path: &Path,
) -> anyhow::Result<KeyFile<T>> {
    if let Some(file) = opened.get(path) {
        return Ok(file.clone());
    }
    let file =
        KeyFile::watch_as(kind, path).with_context(|| format!("access: cannot use {key}"))?;
    opened.insert(path.to_owned(), file.clone());
    Ok(file)
}
