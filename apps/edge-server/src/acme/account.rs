//! Account with an ACME authority, whose key servers share.

use std::path::Path;

use anyhow::anyhow;
use anyhow::Context;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::Engine;
use boring::x509::X509;
use instant_acme::Account;
use instant_acme::AccountBuilder;
use instant_acme::AccountCredentials;
use instant_acme::Error;
use instant_acme::ExternalAccountKey;
use instant_acme::NewAccount;
use log::warn;
use path_store::key_file;
use path_store::small_file;
use serde::Deserialize;
use serde::Serialize;

use crate::acme::storage;
use crate::config::acme::AcmeOptions;
use crate::telemetry::process_log::notice;

/// Type of the problem that the authority does not know the account.
pub const UNKNOWN: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Account in its file.
#[derive(Serialize, Deserialize)]
struct AccountFile {
    /// What the authority has been told.
    #[serde(default)]
    contact: Option<String>,
    credentials: AccountCredentials,
}

/// Opens the account of the file, or makes one. The caller has the right to renew.
///
/// # Errors
///
/// The file cannot be used, or the authority cannot be reached, or refuses.
pub async fn open(options: &AcmeOptions, path: &Path) -> anyhow::Result<Account> {
    let Some(AccountFile { contact, credentials }) = read(path)? else {
        return create(options, path).await;
    };
    let account = builder(options)?.from_credentials(credentials).await;
    let account = account.with_context(|| unusable(options))?;
    if contact != options.acme_contact {
        match account.update_contacts(&contacts(options)).await {
            Ok(()) => {
                // They are not Clone, and were good a moment ago.
                let saved = read(path)?.context("the account is gone")?;
                save(path, options, saved.credentials)?;
            }
            Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(UNKNOWN) => {
                return replace(options, path).await
            }
            Err(e) => warn!("the ACME authority does not take --acme-contact: {e}"),
        }
    }
    Ok(account)
}

/// Makes an account in place of one that the authority no longer knows.
///
/// # Errors
///
/// As for [`open`].
pub async fn replace(options: &AcmeOptions, path: &Path) -> anyhow::Result<Account> {
    warn!("the ACME authority does not know the account of {}; making another", path.display());
    create(options, path).await
}

async fn create(options: &AcmeOptions, path: &Path) -> anyhow::Result<Account> {
    let contact = contacts(options);
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = options.acme_external_account.as_deref().map(read_external).transpose()?;
    let directory = options.acme_directory.clone();
    let created = builder(options)?.create(&new, directory, external.as_ref()).await;
    let (account, credentials) = created.with_context(|| unusable(options))?;
    save(path, options, credentials)?;
    notice!(
        "made an ACME account with {}, and accepted its terms of service",
        options.acme_directory
    );
    Ok(account)
}

fn unusable(options: &AcmeOptions) -> String {
    format!("cannot use {}", options.acme_directory)
}

fn contacts(options: &AcmeOptions) -> Vec<&str> {
    options.acme_contact.as_deref().into_iter().collect()
}

fn builder(options: &AcmeOptions) -> anyhow::Result<AccountBuilder> {
    match &options.acme_ca {
        Some(root) => Account::builder_with_root(root)
            .with_context(|| format!("cannot use --acme-ca {}", root.display())),
        None => Account::builder().context("cannot use the system's root certificates"),
    }
}

/// Reads the key of an account that an authority has given.
///
/// # Errors
///
/// One line that names the file.
pub fn read_external(path: &Path) -> anyhow::Result<ExternalAccountKey> {
    let shown = path.display();
    let text = small_file::read_text(path).with_context(|| {
        format!("cannot read --acme-external-account {shown}; name a readable file")
    })?;
    let lines: Vec<_> = key_file::lines(&text).map(|(_, line)| line).collect();
    let key = parse_external(&lines).with_context(|| {
        format!("--acme-external-account {shown}: write one line, key ID and key in base64url")
    })?;
    key_file::check_mode(path).map_err(|why| anyhow!("--acme-external-account {shown}: {why}"))?;
    Ok(key)
}

fn parse_external(lines: &[&str]) -> Option<ExternalAccountKey> {
    let [line] = lines else { return None };
    let [id, key]: [&str; 2] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    // Some authorities give it with padding.
    let key = URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).ok()?;
    (!key.is_empty()).then(|| ExternalAccountKey::new(id.to_owned(), &key))
}

/// Checks whether a file holds a root certificate.
///
/// # Errors
///
/// It does not, or cannot be read.
pub fn check_root(path: &Path) -> anyhow::Result<()> {
    let pem = small_file::read(path)?;
    X509::from_pem(&pem).map(drop).map_err(|_| anyhow!("there is no certificate in PEM form"))
}

fn read(path: &Path) -> anyhow::Result<Option<AccountFile>> {
    let unusable = || format!("cannot use {}; mend it, or move it away", path.display());
    match std::fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).with_context(unusable)?)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(unusable),
    }
}

fn save(path: &Path, options: &AcmeOptions, credentials: AccountCredentials) -> anyhow::Result<()> {
    let file = AccountFile { contact: options.acme_contact.clone(), credentials };
    storage::write(path, &serde_json::to_vec(&file).context("cannot write the account")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_account_is_one_line_of_id_and_key() {
        for (lines, is_key) in [
            (&["kid c2VjcmV0"][..], true),
            (&["kid\tc2VjcmV0LWtleQ=="], true),
            (&["kid"], false),
            (&["kid c2V!"], false),
            (&["kid ="], false),
            (&["kid c2VjcmV0 more"], false),
            (&[], false),
            (&["kid c2VjcmV0", "kid c2VjcmV0"], false),
        ] {
            assert_eq!(parse_external(lines).is_some(), is_key, "{lines:?}");
        }
    }
}
