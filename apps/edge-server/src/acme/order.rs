//! One order of a certificate (RFC 8555, 7.4).

use std::time::Duration;
use std::time::SystemTime;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use instant_acme::Account;
use instant_acme::AuthorizationStatus;
use instant_acme::CertificateIdentifier;
use instant_acme::ChallengeType;
use instant_acme::Error;
use instant_acme::Identifier;
use instant_acme::NewOrder;
use instant_acme::Order;
use instant_acme::OrderStatus;
use instant_acme::Problem;
use instant_acme::RetryPolicy;
use log::debug;

use crate::acme::challenges::ChallengeKind;
use crate::acme::challenges::PendingChallenges;
use crate::config::acme::AcmeFiles;
use crate::quic::certificate::CertifiedKey;

/// How long an authority may take to validate, and to issue.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Type of the problem that there were too many requests or orders, and what its text has before a
/// time such as `2026-01-31 12:00:00`.
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const RETRY_AFTER: &str = "retry after ";
const TIME_BYTES: usize = "2026-01-31 12:00:00".len();

/// Type of the problem that a request came too late, or that the authority says so.
pub const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// Pause at a rate limit whose text has no time.
const RATE_LIMITED_PAUSE: Duration = Duration::from_secs(3600);

/// Orders a certificate for names. Returns its chain and its key, both in PEM form.
///
/// # Errors
///
/// The authority cannot be reached, or refuses; or a challenge has failed.
pub async fn issue(
    account: &Account,
    files: &AcmeFiles,
    kind: ChallengeKind,
    names: &[String],
    replaces: Option<&CertificateIdentifier<'_>>,
) -> anyhow::Result<String> {
    let identifiers: Vec<_> =
        names.iter().map(|name| Identifier::Dns(name.to_ascii_lowercase())).collect();
    let mut order = begin(account, &identifiers, replaces).await?;
    let mut pending = PendingChallenges::new(files);
    begin_challenges(&mut order, kind, &mut pending).await?;
    let retries = RetryPolicy::new().backoff(1.5).timeout(STEP_TIMEOUT);
    match order.poll_ready(&retries).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => (),
        Ok(_) => return Err(failed_challenges(&mut order).await),
        Err(Error::Api(_)) if order.state().status == OrderStatus::Invalid => {
            return Err(failed_challenges(&mut order).await);
        }
        Err(e) => return Err(e).context("the authority does not validate"),
    }
    drop(pending);
    let key = order.finalize().await.context("the authority does not accept the request")?;
    let chain = order.poll_certificate(&retries).await.context("the authority does not issue")?;
    CertifiedKey::check_issued(&chain, &key, names)?;
    Ok(format!("{}\n{}", chain.trim_end(), key))
}

/// Begins an order. The authority is told which certificate it replaces, if that makes no difference:
/// limits are higher then (RFC 9773, 5).
async fn begin(
    account: &Account,
    identifiers: &[Identifier],
    replaces: Option<&CertificateIdentifier<'_>>,
) -> Result<Order, Error> {
    if let Some(replaced) = replaces {
        let order = NewOrder::new(identifiers).replaces(replaced.clone());
        match account.new_order(&order).await {
            // Another order may have replaced it, or the authority no longer knows it.
            Err(Error::Api(problem)) if !is_passing(&problem) => debug!("{replaced}: {problem}"),
            ordered => return ordered,
        }
    }
    account.new_order(&NewOrder::new(identifiers)).await
}

fn is_passing(problem: &Problem) -> bool {
    problem.r#type.as_deref().is_some_and(|kind| [RATE_LIMITED, BAD_NONCE].contains(&kind))
}

/// Prepares the response to a challenge for each name that the account has not proved lately.
async fn begin_challenges(
    order: &mut Order,
    kind: ChallengeKind,
    pending: &mut PendingChallenges<'_>,
) -> anyhow::Result<()> {
    let of_kind = match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => (),
            other => bail!("the authorization of {name} is {other:?}"),
        }
        let challenge = authorization.challenge(of_kind.clone());
        let mut challenge = challenge
            .ok_or_else(|| anyhow!("the authority offers no {} for {name}", kind.name()))?;
        let response = challenge.key_authorization();
        pending.add(kind, &challenge.token, &name, response.as_str())?;
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Returns why the authority could not validate names.
async fn failed_challenges(order: &mut Order) -> anyhow::Error {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let Ok(mut authorization) = authorization else { continue };
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(errors.map(|error| {
            let detail = error.detail.as_deref().unwrap_or("no reason given");
            format!("{name}: {detail}")
        }));
    }
    match reasons.is_empty() {
        true => anyhow!("the authority could not validate the names"),
        false => anyhow!("the authority could not validate {}", reasons.join("; ")),
    }
}

/// Returns the type of the problem that the authority reports, if an error is one.
pub fn problem_type(error: &anyhow::Error) -> Option<&str> {
    problem(error)?.r#type.as_deref()
}

fn problem(error: &anyhow::Error) -> Option<&Problem> {
    error.chain().find_map(|cause| match cause.downcast_ref::<Error>() {
        Some(Error::Api(problem)) => Some(problem),
        _ => None,
    })
}

/// Returns until when the authority wants no further order, if an error tells.
pub fn no_order_before(error: &anyhow::Error, now: SystemTime) -> Option<SystemTime> {
    let problem = problem(error)?;
    if problem.r#type.as_deref() != Some(RATE_LIMITED) {
        return None;
    }
    let detail = problem.detail.as_deref().unwrap_or_default();
    let time = detail.split_once(RETRY_AFTER).and_then(|(_, rest)| rest.get(..TIME_BYTES));
    let time = time.and_then(|time| humantime::parse_rfc3339_weak(time).ok());
    Some(time.unwrap_or(now + RATE_LIMITED_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn rate_limit_tells_when_to_try_again() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let named = humantime::parse_rfc3339("2026-01-31T12:00:00Z").unwrap();
        for (kind, detail, expected) in [
            (
                RATE_LIMITED,
                "too many certificates (5), retry after 2026-01-31 12:00:00 UTC: see",
                Some(named),
            ),
            (RATE_LIMITED, "too many, retry after a while, please", Some(now + RATE_LIMITED_PAUSE)),
            (RATE_LIMITED, "too many, retry after ünd", Some(now + RATE_LIMITED_PAUSE)),
            (RATE_LIMITED, "", Some(now + RATE_LIMITED_PAUSE)),
            ("urn:ietf:params:acme:error:dns", "retry after 2026-01-31 12:00:00 UTC", None),
        ] {
            let problem = serde_json::json!({ "type": kind, "detail": detail, "status": 429 });
            let problem: Problem = serde_json::from_value(problem).unwrap();
            let error = anyhow::Error::from(Error::Api(problem)).context("no certificate");
            assert_eq!(no_order_before(&error, now), expected, "{detail}");
        }
        assert_eq!(no_order_before(&anyhow!("retry after"), now), None);
    }
}
