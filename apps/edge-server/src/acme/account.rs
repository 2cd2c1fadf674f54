//! Account with an ACME authority, whose key servers share.

use std::path::Path;

use anyhow::anyhow;
use anyhow::Context;
use boring::x509::X509;
use instant_acme::Account;
use instant_acme::AccountBuilder;
use instant_acme::AccountCredentials;
use instant_acme::Error;
use instant_acme::NewAccount;
use log::warn;
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
            Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(UNKNOWN) => return replace(options, path).await,
            Err(e) => warn!("cannot tell the ACME authority of --acme-contact: {e}"),
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
    let created = builder(options)?.create(&new, options.acme_directory.clone(), None).await;
    let (account, credentials) = created.with_context(|| unusable(options))?;
    save(path, options, credentials)?;
    notice!("made an ACME account with {}, and accepted its terms of service", options.acme_directory);
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

/// Checks whether a file holds a root certificate.
///
/// # Errors
///
/// It does not, or cannot be read.
pub fn check_root(path: &Path) -> anyhow::Result<()> {
    let pem = std::fs::read(path)?;
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
