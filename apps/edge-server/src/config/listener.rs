//! Listener: an address, and the congestion controller of the connections that come there.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::ensure;

use crate::config::controller::CongestionController;

/// Key of the controller.
const CC: &str = "cc=";

/// Listener, as `--listen` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,

    /// The default is `--cc`.
    pub cc: Option<CongestionController>,
}

impl FromStr for Listener {
    type Err = String;

    /// Parses `ADDR:PORT`, or `ADDR:PORT,cc=NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, setting) = text.split_once(',').map_or((text, None), |(a, s)| (a, Some(s)));
        let address = address.parse().map_err(|e: std::net::AddrParseError| e.to_string())?;
        let cc = setting.map(|setting| match setting.strip_prefix(CC) {
            Some(name) => name.parse(),
            None => Err(format!("'{setting}' is no setting of a listener; use cc=NAME")),
        });
        Ok(Self { address, cc: cc.transpose()? })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

/// Checks that listeners do not collide, and that each can have so many workers: there may be
/// `workers_max` in all.
///
/// # Errors
///
/// One line that names the address, or the number.
pub fn check(listeners: &[Listener], workers: u16, workers_max: u16) -> anyhow::Result<()> {
    let all = listeners.len() * usize::from(workers);
    ensure!(
        all <= usize::from(workers_max),
        "{} listeners with {workers} workers each need {all} event loops; {workers_max} is the most: \
         lower --workers",
        listeners.len()
    );
    for (index, listener) in listeners.iter().enumerate() {
        let address = listener.address;
        let is_there = listeners[..index].iter().any(|other| other.address == address);
        ensure!(
            !is_there || address.port() == 0,
            "--listen {address} twice; leave out one of them"
        );
    }
    Ok(())
}

/// Returns the listeners `started` with the controllers that `wanted` names for their addresses. One
/// that is not there stays as it is.
pub fn updated(started: &[Listener], wanted: &[Listener]) -> Vec<Listener> {
    let update = |(index, listener): (usize, &Listener)| {
        let is_same = |other: &&Listener| other.address == listener.address;
        // Several may have port 0.
        let found = wanted.get(index).filter(is_same).or_else(|| wanted.iter().find(is_same));
        *found.unwrap_or(listener)
    };
    started.iter().enumerate().map(update).collect()
}

/// Returns whether both are at the same addresses, in any order.
pub fn have_same_addresses(one: &[Listener], other: &[Listener]) -> bool {
    let addresses = |listeners: &[Listener]| {
        let mut addresses: Vec<_> = listeners.iter().map(|listener| listener.address).collect();
        addresses.sort();
        addresses
    };
    addresses(one) == addresses(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_has_an_address_and_may_have_a_controller() {
        let address = "[::]:443".parse().unwrap();
        for (text, cc) in [
            ("[::]:443", None),
            ("[::]:443,cc=bbr2", Some(CongestionController::Bbr2)),
            ("[::]:443,cc=cubic", Some(CongestionController::Cubic)),
        ] {
            assert_eq!(text.parse(), Ok(Listener { address, cc }), "{text}");
        }
    }

    #[test]
    fn error_names_key_value_and_choices() {
        for (text, error) in [
            ("[::]:443,cc=bbr3", "cc = 'bbr3': use cubic, reno or bbr2"),
            ("[::]:443,cc=", "cc = '': use cubic, reno or bbr2"),
            ("[::]:443,mtu=9", "'mtu=9' is no setting of a listener; use cc=NAME"),
            ("[::]:443,", "'' is no setting of a listener; use cc=NAME"),
            ("443", "invalid socket address syntax"),
        ] {
            assert_eq!(text.parse::<Listener>(), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn reload_changes_controllers_of_the_same_addresses() {
        let parse = |texts: &[&str]| -> Vec<Listener> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        for (started, wanted, expected, same) in [
            (
                &["[::]:1", "[::]:2"][..],
                &["[::]:2,cc=reno", "[::]:1"][..],
                ["[::]:1", "[::]:2,cc=reno"],
                true,
            ),
            (&["[::]:1,cc=bbr2", "[::]:2"], &["[::]:1", "[::]:2"], ["[::]:1", "[::]:2"], true),
            (
                &["[::]:0", "[::]:0"],
                &["[::]:0", "[::]:0,cc=reno"],
                ["[::]:0", "[::]:0,cc=reno"],
                true,
            ),
            (
                &["[::]:1", "[::]:2,cc=reno"],
                &["[::]:1,cc=bbr2"],
                ["[::]:1,cc=bbr2", "[::]:2,cc=reno"],
                false,
            ),
        ] {
            let (started, wanted) = (parse(started), parse(wanted));
            let now = updated(&started, &wanted);
            assert_eq!(now, parse(&expected), "{wanted:?}");
            assert_eq!(have_same_addresses(&now, &wanted), same, "{wanted:?}");
        }
    }
}
