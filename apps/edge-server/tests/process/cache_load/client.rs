//! Client of a load: connections one after the other, and requests on each.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use super::catalogue::Catalogue;
use super::connection::LoadConnection;
use super::connection::LoadOutcome;
use super::connection::LoadRequest;
use super::connection::LoadVersion;
use super::connection::RequestKind;
use super::judge::Judge;
use super::judge::LoadExchange;
use super::judge::Outage;
use super::judge::Span;
use super::wall_us;

/// Rounds of requests on a connection.
const ROUNDS: (u64, u64) = (5, 60);

/// Pause after a connection that the server has refused.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Percentages of requests with HEAD, for a range, and with a condition.
const HEAD_PERCENT: u64 = 3;
const RANGE_PERCENT: u64 = 10;
const CONDITION_PERCENT: u64 = 15;

/// How long requests that are sent together may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What all clients share.
pub struct LoadContext {
    pub catalogue: Arc<Catalogue>,
    pub judge: Judge,
    pub server: SocketAddr,

    /// Number of the server. It is odd while another one comes.
    pub server_number: AtomicU64,
    pub is_over: AtomicBool,

    /// Longest pause between rounds of requests.
    pub pause_max: Duration,
}

/// A client.
pub struct LoadClient {
    context: Arc<LoadContext>,
    version: LoadVersion,
    from: Ipv4Addr,
    random: Pcg64,

    /// Object and version of the last response, for a condition.
    last: Option<(usize, u64)>,

    /// Requests that are to be sent again.
    again: Vec<LoadRequest>,
}

impl LoadContext {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns the number of the server, unless another one is coming.
    fn server_number(&self) -> Option<u64> {
        Some(self.server_number.load(Ordering::SeqCst)).filter(|number| number % 2 == 0)
    }
}

impl LoadClient {
    /// Returns a client in a subnet of its own.
    pub fn new(context: &Arc<LoadContext>, seed: u64, number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        Self {
            context: Arc::clone(context),
            version: LoadVersion::ALL[usize::from(number) % LoadVersion::ALL.len()],
            from: Ipv4Addr::new(127, 1 + high, low, 1),
            random: Pcg64::seed_from_u64(seed ^ u64::from(number) << 32),
            last: None,
            again: Vec::new(),
        }
    }

    /// Sends requests until the load is over.
    pub async fn run(mut self) {
        // All at once is another test.
        tokio::time::sleep(self.pause()).await;
        while !self.context.is_over() {
            let (begun, server) = (wall_us(), self.context.server_number());
            let opened = LoadConnection::open(self.version, self.from, self.context.server).await;
            let server = server.filter(|number| self.context.server_number() == Some(*number));
            match opened {
                Ok(connection) => self.use_connection(connection, begun, server).await,
                Err(e) => {
                    self.context.judge.count("connection refused");
                    let span = Span { from: begun, to: wall_us() };
                    let text = format!("cannot connect over {:?}: {e}", self.version);
                    self.context.judge.suspect(text, span, &[Outage::Kill, Outage::Restart]);
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn use_connection(
        &mut self,
        mut connection: LoadConnection,
        connected: u64,
        server: Option<u64>,
    ) {
        let rounds = ROUNDS.0 + self.random.next_u64() % ROUNDS.1;
        for _ in 0..rounds {
            if self.context.is_over() || !connection.is_usable() {
                break;
            }
            self.send(&mut connection, connected, server).await;
            let pause = self.pause();
            connection.pause(pause).await;
        }
        connection.close().await;
    }

    async fn send(&mut self, connection: &mut LoadConnection, connected: u64, server: Option<u64>) {
        let requests = self.choose();
        let catalogue = Arc::clone(&self.context.catalogue);
        let sent: Vec<_> = requests
            .iter()
            .map(|request| (catalogue.objects[request.object].path.as_str(), &request.kind))
            .collect();
        let from = wall_us();
        let outcomes = tokio::time::timeout(PATIENCE, connection.send(&sent)).await;
        let span = Span { from, to: wall_us() };
        let Ok(outcomes) = outcomes else {
            return self.context.judge.add_fault(format!("no response: {requests:?}"));
        };
        for (request, outcome) in requests.iter().zip(&outcomes) {
            let exchange = LoadExchange { request, version: self.version, span, connected, server };
            self.context.judge.judge(&exchange, outcome, &catalogue);
            self.note(request, outcome);
        }
    }

    /// Remembers what later requests are to be about.
    fn note(&mut self, request: &LoadRequest, outcome: &LoadOutcome) {
        match outcome {
            LoadOutcome::NotProcessed => self.again.push(request.clone()),
            LoadOutcome::Answer(answer) => {
                let etag = answer.fields.get("etag").map(|etag| etag.trim_matches('"').parse());
                if let Some(Ok(version)) = etag {
                    self.last = Some((request.object, version));
                }
            }
            LoadOutcome::Broken | LoadOutcome::Lost(_) => (),
        }
    }

    fn choose(&mut self) -> Vec<LoadRequest> {
        let count = 1 + self.below(self.version.requests_max() as u64) as usize;
        let mut requests = std::mem::take(&mut self.again);
        while requests.len() < count {
            let request = self.choose_one();
            requests.push(request);
        }
        requests
    }

    fn choose_one(&mut self) -> LoadRequest {
        let kind = self.below(100);
        if let Some((object, version)) = self.last.filter(|_| kind < CONDITION_PERCENT) {
            return LoadRequest { object, kind: RequestKind::Unless(version) };
        }
        let catalogue = Arc::clone(&self.context.catalogue);
        let object = catalogue.choose(&mut self.random);
        let kind = match kind.saturating_sub(CONDITION_PERCENT) {
            0..HEAD_PERCENT => RequestKind::Head,
            HEAD_PERCENT..RANGE_PERCENT => {
                let length = catalogue.objects[object].length(0) as u64;
                let first = self.below(length);
                RequestKind::Range(first as usize, (first + self.below(length)) as usize)
            }
            _ => RequestKind::Get,
        };
        LoadRequest { object, kind }
    }

    fn below(&mut self, max: u64) -> u64 {
        self.random.next_u64() % max
    }

    fn pause(&mut self) -> Duration {
        let longest = self.context.pause_max.as_millis() as u64;
        Duration::from_millis(self.below(longest + 1))
    }
}
