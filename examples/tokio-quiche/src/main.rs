//! HTTP/3 file server on tokio-quiche that resumes: a later download from the same subnet starts at
//! half of what an earlier one reached (RFC 9959).
//!
//!     tokio-quiche-server 127.0.0.1:4433 FOLDER paths.db
//!
//! tokio-quiche is the released crate; only quiche is replaced (`[patch.crates-io]` in Cargo.toml).
//! `careful_resume.rs` is what an application adds, and [`settings`] makes tokio-quiche pace.
//! `--unpaced` leaves that out: the fork notices, and neither jumps nor saves.

mod careful_resume;
mod files;

use std::path::PathBuf;
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

use crate::careful_resume::CarefulResumeHook;
use crate::careful_resume::PathKeeper;
use crate::careful_resume::Resuming;
use crate::careful_resume::Store;

const USAGE: &str = "usage: tokio-quiche-server ADDRESS FOLDER STORE [--unpaced]";

/// Certificate and key of quiche's own examples.
const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples/cert.crt");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../quiche/examples/cert.key");

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [address, folder, store, options @ ..] = &args[..] else { return Err(USAGE.into()) };
    let is_paced = match options {
        [] => true,
        [option] if option == "--unpaced" => false,
        _ => return Err(USAGE.into()),
    };

    let (role, capacity) = (path_store::Role::Server, path_store::CAPACITY_DEFAULT);
    let store: Store = Arc::from(path_store::open(store, role, capacity)?);
    let socket = UdpSocket::bind(address).await?;
    println!("listening on {}", socket.local_addr()?);

    let cert = TlsCertificatePaths { cert: CERT, private_key: KEY, kind: CertificateKind::X509 };
    let hooks = Hooks { connection_hook: Some(Arc::new(CarefulResumeHook)) };
    let params = ConnectionParams::new_server(settings(is_paced), cert, hooks);
    let mut connections = listen([socket], params, DefaultMetrics)?.remove(0).into_inner();
    while let Some(connection) = connections.recv().await {
        match connection {
            Ok(connection) => serve(connection, Arc::clone(&store), folder.into()),
            // Of one client: the others are served.
            Err(error) => log::warn!("connection: {error}"),
        }
    }
    Ok(())
}

fn settings(is_paced: bool) -> QuicSettings {
    let mut settings = QuicSettings::default();
    // With the feature gcongestion (Cargo.toml) and a socket with SO_TXTIME, as `listen()` makes it,
    // tokio-quiche waits for release times, to within 5 ms. A queue fq is not necessary.
    settings.enable_pacing = is_paced;
    // A Retry costs each client a round trip.
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
