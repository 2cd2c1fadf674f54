//! Cases, each on a connection of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::client::Response;
use crate::client::Server;

const SMALL: &str = "/small.txt";
const LARGE: &str = "/large.bin";
const LARGE_BYTES: usize = 20_000_000;
const MANY: &str = "/many/";
const UPLOAD_BYTES: usize = 5_000_000;

/// More than one, because a worker that cannot open another's tickets is met by chance.
const RESUMED_CONNECTIONS: usize = 5;

/// The SHA-256 of each object by its path.
pub struct Objects(BTreeMap<String, String>);

impl Objects {
    /// Reads the list.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        let list = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        Ok(Self(list))
    }

    /// Checks that `response` is the whole object.
    fn check(&self, path: &str, response: &Response) -> anyhow::Result<()> {
        ensure!(response.status == 200, "{path}: {}", response.status);
        let digest = ring::digest::digest(&ring::digest::SHA256, &response.body);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = response.body.len();
        ensure!(self.0.get(path) == Some(&hex), "{path}: {bytes} bytes with another hash, {hex}");
        ensure!(response.field("content-length") == bytes.to_string(), "{path}: content-length");
        Ok(())
    }
}

/// Runs a case. Returns its result.
///
/// # Errors
///
/// The case failed.
pub async fn run(case: &str, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let client = Client::connect(server).await?;
    let seen = match case {
        "small" => whole(&client, server, objects, SMALL).await,
        "large" => whole(&client, server, objects, LARGE).await,
        "head" => head(&client, server).await,
        "range" => range(&client, server, objects).await,
        "conditional" => conditional(&client, server, objects).await,
        "missing" => missing(&client, server).await,
        "parallel" => parallel(&client, server, objects).await,
        "upload" => upload(&client, server).await,
        "key-update" => key_update(&client, server, objects).await,
        "migration" => migration(&client, server, objects).await,
        "resumption" => resumption(&client, server, objects).await,
        "early-data" => early_data(&client, server, objects).await,
        _ => bail!("no such case"),
    };
    client.close().await;
    seen
}

async fn whole(c: &Client, s: &Server, objects: &Objects, path: &str) -> anyhow::Result<String> {
    let response = c.send(s.request(path).body(())?).await?;
    objects.check(path, &response)?;
    Ok(format!("{} bytes", response.body.len()))
}

async fn head(client: &Client, server: &Server) -> anyhow::Result<String> {
    let response = client.send(server.request(LARGE).method("HEAD").body(())?).await?;
    ensure!(response.status == 200, "{}", response.status);
    let length = response.field("content-length");
    ensure!(length == LARGE_BYTES.to_string(), "content-length: {length}");
    ensure!(response.body.is_empty(), "a body of {} bytes", response.body.len());
    Ok(format!("content-length: {length}"))
}

async fn range(client: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let get = |range: &str| server.request(SMALL).header("range", range).body(());
    let whole = client.send(server.request(SMALL).body(())?).await?;
    objects.check(SMALL, &whole)?;

    let one = client.send(get("bytes=100-199")?).await?;
    ensure!(one.status == 206, "one range: {}", one.status);
    ensure!(one.field("content-range") == "bytes 100-199/1000", "one range: content-range");
    ensure!(one.body == whole.body[100..200], "one range: another body");

    let two = client.send(get("bytes=0-9,500-509")?).await?;
    ensure!(two.status == 206, "two ranges: {}", two.status);
    let boundary = two.field("content-type").strip_prefix("multipart/byteranges; boundary=");
    let boundary = boundary.context("two ranges: content-type")?.trim_matches('"');
    let text = String::from_utf8(two.body.clone())?;
    let parts: Vec<_> = text
        .split(&format!("--{boundary}"))
        .filter_map(|part| part.split_once("\r\n\r\n"))
        .map(|(head, body)| (head.to_lowercase(), body.trim_end_matches("\r\n").as_bytes()))
        .collect();
    ensure!(parts.len() == 2, "two ranges: {} parts", parts.len());
    for ((head, body), (first, last)) in parts.iter().zip([(0, 9), (500, 509)]) {
        let line = format!("content-range: bytes {first}-{last}/1000");
        ensure!(head.contains(&line), "two ranges: {head}");
        ensure!(*body == &whole.body[first..=last], "two ranges: another body");
    }

    let none = client.send(get("bytes=1000-")?).await?;
    ensure!(none.status == 416, "beyond the end: {}", none.status);
    ensure!(none.field("content-range") == "bytes */1000", "beyond the end: content-range");
    Ok("206, 206 with 2 parts, 416".into())
}

async fn conditional(c: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let get = |field: &str, value: &str| server.request(SMALL).header(field, value).body(());
    let whole = c.send(server.request(SMALL).body(())?).await?;
    objects.check(SMALL, &whole)?;
    let (tag, date) = (whole.field("etag"), whole.field("last-modified"));
    for request in [get("if-none-match", tag)?, get("if-modified-since", date)?] {
        let response = c.send(request).await?;
        ensure!(response.status == 304, "unchanged: {}", response.status);
        ensure!(response.body.is_empty(), "304 with a body");
        ensure!(response.field("etag") == tag, "304 with another etag");
    }
    let changed = c.send(get("if-none-match", "\"another\"")?).await?;
    objects.check(SMALL, &changed)?;
    Ok("304, 304, 200".into())
}

async fn missing(client: &Client, server: &Server) -> anyhow::Result<String> {
    let response = client.send(server.request("/missing").body(())?).await?;
    ensure!(response.status == 404, "{}", response.status);
    Ok("404".into())
}

async fn parallel(client: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let mut answers = JoinSet::new();
    for path in objects.0.keys().filter(|path| path.starts_with(MANY)).cloned() {
        let (client, request) = (client.clone(), server.request(&path).body(())?);
        answers.spawn(async move { client.send(request).await.map(|response| (path, response)) });
    }
    let count = answers.len();
    ensure!(count == 100, "{count} objects");
    while let Some(response) = answers.join_next().await {
        let (path, response) = response??;
        objects.check(&path, &response)?;
    }
    Ok(format!("{count} streams"))
}

async fn upload(client: &Client, server: &Server) -> anyhow::Result<String> {
    let request = server.request("/upload").method("POST").body(())?;
    let body = Bytes::from(vec![b'u'; UPLOAD_BYTES]);
    let response = client.exchange(request, body, || Ok(())).await?;
    ensure!(response.status == 200, "{}", response.status);
    let counted = String::from_utf8(response.body)?;
    ensure!(counted.trim() == UPLOAD_BYTES.to_string(), "counted {counted}");
    Ok(format!("{UPLOAD_BYTES} bytes"))
}

async fn key_update(c: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let update = || {
        c.quic.force_key_update();
        Ok(())
    };
    let response = c.exchange(server.request(LARGE).body(())?, Bytes::new(), update).await?;
    objects.check(LARGE, &response)?;
    Ok("by the client".into())
}

async fn migration(c: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    let before = c.endpoint.local_addr()?;
    let rebind = || Ok(c.endpoint.rebind(UdpSocket::bind("127.0.0.1:0")?)?);
    let response = c.exchange(server.request(LARGE).body(())?, Bytes::new(), rebind).await?;
    objects.check(LARGE, &response)?;
    let after = c.endpoint.local_addr()?;
    ensure!(before != after, "the address is still {before}");
    Ok(format!("from port {} to {}", before.port(), after.port()))
}

async fn resumption(first: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    whole(first, server, objects, SMALL).await?;
    let checked = server.verifier.checked();
    ensure!(checked > 0, "no certificate was ever checked");
    for number in 1..=RESUMED_CONNECTIONS {
        let next = Client::connect(server).await?;
        whole(&next, server, objects, SMALL).await?;
        next.close().await;
        ensure!(server.verifier.checked() == checked, "connection {number}: a full handshake");
    }
    Ok(format!("{RESUMED_CONNECTIONS} connections without a certificate"))
}

async fn early_data(first: &Client, server: &Server, objects: &Objects) -> anyhow::Result<String> {
    whole(first, server, objects, SMALL).await?;
    let (second, accepted) = Client::connect_early(server).await?;
    whole(&second, server, objects, SMALL).await?;
    second.close().await;
    ensure!(accepted.await, "early data was not accepted");
    Ok("accepted".into())
}
