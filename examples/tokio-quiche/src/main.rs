//! HTTP/3 file server on tokio-quiche that resumes: a later download from the same subnet starts at
//! half of what an earlier one reached (RFC 9959).
//!
//!     tokio-quiche-server 127.0.0.1:4433 FOLDER paths.db cert.crt cert.key
//!
//! tokio-quiche is the released crate; only quiche is replaced (`[patch.crates-io]` in Cargo.toml).
//! [`settings`] enables Careful Resume, and makes tokio-quiche pace. [`careful_resume`] is what an
//! application adds. With `--unpaced` the fork notices that packets leave too early, and neither
//! jumps nor saves.

mod careful_resume;
mod files;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio_quiche::http3::driver::ServerH3Event;
use tokio_quiche::http3::settings::Http3Settings;
use tokio_quiche::listen;
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::settings::CertificateKind;
use tokio_quiche::settings::Hooks;
use tokio_quiche::settings::QuicSettings;
use tokio_quiche::settings::TlsCertificatePaths;
use tokio_quiche::BoxError;
use tokio_quiche::ConnectionParams;
use tokio_quiche::InitialQuicConnection;
use tokio_quiche::ServerH3Driver;

use crate::careful_resume::PathKeeper;
use crate::careful_resume::Resuming;
use crate::careful_resume::Store;

const USAGE: &str = "the arguments are ADDRESS FOLDER STORE CERT KEY [--unpaced]";

#[tokio::main]
async fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let Err(error) = run().await else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

async fn run() -> Result<(), BoxError> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [address, folder, store, cert, key, options @ ..] = &args[..] else {
        return Err(USAGE.into());
    };
    let is_paced = match options {
        [] => true,
        [option] if option == "--unpaced" => false,
        _ => return Err(USAGE.into()),
    };

    let (role, capacity) = (path_store::Role::Server, path_store::CAPACITY_DEFAULT);
    let store: Store = Arc::from(path_store::open(store, role, capacity)?);
    let socket = UdpSocket::bind(address).await.map_err(|error| format!("{address}: {error}"))?;
    let local = socket.local_addr()?;

    let pem = TlsCertificatePaths { cert, private_key: key, kind: CertificateKind::X509 };
    let params = ConnectionParams::new_server(settings(is_paced), pem, Hooks::default());
    let mut connections = listen([socket], params, DefaultMetrics)
        .map_err(|error| {
            format!("{cert} and {key}: {error}; name PEM files of a certificate and its key")
        })?
        .remove(0)
        .into_inner();
    println!("listening on {local}");
    while let Some(connection) = connections.recv().await {
        match connection {
            Ok(connection) => serve(connection, Arc::clone(&store), folder.into()),
            // It concerns one client only.
            Err(error) => log::warn!("connection: {error}"),
        }
    }
    Ok(())
}

fn settings(is_paced: bool) -> QuicSettings {
    let mut settings = QuicSettings::default();
    // For other limits than the defaults, a ConnectionHook calls `set_careful_resume_in_handshake()`.
    settings.cc_algorithm = "cubic+careful-resume".to_owned();
    // With the feature gcongestion (Cargo.toml) and a socket with SO_TXTIME, as `listen()` makes it,
    // tokio-quiche waits for release times, to within 5 ms. A queue fq is not necessary.
    settings.enable_pacing = is_paced;
    // Without a Retry, which costs each client a round trip.
    settings.disable_client_ip_validation = true;
    settings
}

/// Serves one client, in tasks of its own.
fn serve<M: tokio_quiche::metrics::Metrics>(
    connection: InitialQuicConnection<UdpSocket, M>,
    store: Store,
    folder: PathBuf,
) {
    let (driver, mut controller) = ServerH3Driver::new(Http3Settings::default());
    let (reports, path_reports) = mpsc::unbounded_channel();
    let (local, peer) = (connection.local_addr(), connection.peer_addr());
    let keeper = PathKeeper::new(store, local, peer, controller.cmd_sender());
    tokio::spawn(keeper.run(path_reports));
    connection.start(Resuming::new(driver, reports.clone()));

    tokio::spawn(async move {
        while let Some(event) = controller.event_receiver_mut().recv().await {
            if let ServerH3Event::Headers { incoming_headers, .. } = event {
                tokio::spawn(files::respond(folder.clone(), incoming_headers, reports.clone()));
            }
        }
    });
}
