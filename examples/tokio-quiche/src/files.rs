//! Files of a folder as HTTP/3 responses.

use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::UnboundedSender;
use tokio_quiche::http3::driver::IncomingH3Headers;
use tokio_quiche::http3::driver::OutboundFrame;
use tokio_quiche::quiche::h3::Header;
use tokio_quiche::quiche::h3::NameValue;

use crate::careful_resume::Report;

/// Bytes that are read and handed to tokio-quiche at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Initial window. A smaller response gains nothing from a jump.
const INITIAL_WINDOW_BYTES: u64 = 13_500;

/// Sends the file that the request asks for, or 404.
pub async fn respond(
    folder: PathBuf,
    request: IncomingH3Headers,
    reports: UnboundedSender<Report>,
) {
    let Some(frames) = request.send.get_ref().cloned() else { return };
    let path = request.headers.iter().find(|header| header.name() == b":path");
    let file = match path.and_then(|path| file_path(&folder, path.value())) {
        Some(path) => open(&path).await,
        None => None,
    };
    // A client that has gone away needs no response.
    let _ = match file {
        Some((file, bytes)) => {
            if bytes > INITIAL_WINDOW_BYTES {
                let _ = reports.send(Report::LargeResponse);
            }
            send_file(&frames, file, bytes).await
        }
        None => send_not_found(&frames).await,
    };
}

/// Returns the file of a request's path, if it is in the folder.
fn file_path(folder: &Path, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(std::str::from_utf8(path).ok()?.strip_prefix('/')?);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| folder.join(path))
}

async fn open(path: &Path) -> Option<(File, u64)> {
    let file = File::open(path).await.ok()?;
    let metadata = file.metadata().await.ok()?;
    metadata.is_file().then_some((file, metadata.len()))
}

type Sent = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn send_file(frames: &Sender<OutboundFrame>, mut file: File, bytes: u64) -> Sent {
    let length = bytes.to_string();
    let headers =
        vec![Header::new(b":status", b"200"), Header::new(b"content-length", length.as_bytes())];
    frames.send(OutboundFrame::Headers(headers, None)).await?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk).await?;
        let body = Bytes::copy_from_slice(&chunk[..read]);
        frames.send(OutboundFrame::Body(body, read == 0)).await?;
        if read == 0 {
            return Ok(());
        }
    }
}

async fn send_not_found(frames: &Sender<OutboundFrame>) -> Sent {
    let headers = vec![Header::new(b":status", b"404")];
    frames.send(OutboundFrame::Headers(headers, None)).await?;
    frames.send(OutboundFrame::Body(Bytes::new(), true)).await?;
    Ok(())
}
