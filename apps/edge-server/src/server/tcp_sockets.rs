//! TCP sockets of a configuration: those of an old process, or new ones.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use command_line::OnOff;

use crate::config::Config;
use crate::net::socket::cannot_listen;
use crate::net::socket::is_in_use;
use crate::server::takeover::OldProcess;
use crate::server::WorkerSockets;
use crate::tcp::listeners;
use crate::tcp::ListenerSocket;
use crate::tcp::Purpose;

/// Attempts to find a port that is free for both protocols.
const ATTEMPTS_MAX: usize = 20;

/// Opens the workers' sockets and, at their addresses, those of TCP: all of an old process, which is
/// given back, or new ones.
///
/// # Errors
///
/// One line that names what cannot be used.
pub fn open_with_udp(
    config: &Config,
) -> anyhow::Result<(WorkerSockets, Vec<ListenerSocket>, Option<OldProcess>)> {
    let picks_port = config.flags.listen.iter().any(|listener| listener.address.port() == 0);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let (sockets, mut old_process) = WorkerSockets::open(config)?;
        let old = old_process.as_mut().map(|old| std::mem::take(&mut old.tcp_sockets));
        let is_new = old.is_none();
        match open(config, &sockets.addresses(), old.unwrap_or_default()) {
            // A port that is free for UDP may not be for TCP.
            Err(e) if picks_port && is_new && attempts < ATTEMPTS_MAX && is_in_use(&e) => (),
            opened => return opened.map(|tcp_sockets| (sockets, tcp_sockets, old_process)),
        }
    }
}

/// Returns the sockets for these addresses of UDP sockets, and for plain HTTP. Those of an old process
/// at the same addresses are taken over.
///
/// # Errors
///
/// One line that names the address.
fn open(
    config: &Config,
    addresses: &[SocketAddr],
    old: Vec<OwnedFd>,
) -> anyhow::Result<Vec<ListenerSocket>> {
    let cli = &config.flags;
    if cli.tcp == OnOff::Off {
        return Ok(Vec::new());
    }
    let https_port = addresses.first().map_or(0, SocketAddr::port);
    let https = addresses.iter().map(|address| ("listen", *address, Purpose::Https));
    let plain = |address: &SocketAddr| ("http", *address, Purpose::Redirect { https_port });
    let wanted = https.chain(cli.http.iter().map(plain));
    let mut old: Vec<_> =
        old.into_iter().filter_map(|socket| listeners::adopt(socket).ok()).collect();
    wanted
        .map(|(option, address, purpose)| {
            let known = old.iter().position(|(own, _)| *own == address);
            let socket = match known {
                Some(known) => old.swap_remove(known).1,
                None => listeners::bind(address)
                    .map_err(|e| config.located(option, explained(e, option, address)))?,
            };
            Ok(ListenerSocket { socket, purpose })
        })
        .collect()
}

fn explained(error: io::Error, option: &str, address: SocketAddr) -> anyhow::Error {
    let what = format!("{address} over TCP");
    match error.kind() {
        io::ErrorKind::AddrInUse if option == "listen" => anyhow::Error::new(error).context(
            format!("cannot listen on {what}; stop what uses it, or leave TCP to that: --tcp off"),
        ),
        _ => cannot_listen(error, &what, option),
    }
}
