package interop;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.SocketException;
import java.net.URI;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicSessionTicket;
import tech.kwik.core.QuicStream;
import tech.kwik.core.generic.VariableLengthInteger;
import tech.kwik.core.impl.QuicClientConnectionImpl;
import tech.kwik.core.log.NullLogger;
import tech.kwik.core.packet.QuicPacket;
import tech.kwik.core.packet.ShortHeaderPacket;
import tech.kwik.flupke.impl.HeadersFrame;
import tech.kwik.flupke.impl.Http3ClientConnectionImpl;
import tech.kwik.qpack.Decoder;
import tech.kwik.qpack.Encoder;

/** flupke on kwik. What flupke hides, its connection to kwik shows. */
final class FlupkeClient implements Client {
    /** Bytes of a body that arrive before something is done during a download. */
    private static final int MIDWAY_BYTES = 1 << 20;

    private static final long STREAM_WINDOW_BYTES = 1 << 20;
    private static final int FRAME_DATA = 0, FRAME_HEADERS = 1;

    private final URI url;
    private final Trust trust;
    private final ExecutorService requests = Executors.newCachedThreadPool();

    FlupkeClient(URI url, Trust trust) {
        this.url = url;
        this.trust = trust;
        // It would go to standard output, which is for outcomes.
        System.setProperty("tech.kwik.core.no-security-warnings", "true");
    }

    @Override
    public Connection connect() throws IOException {
        return connect(null);
    }

    private Connected connect(QuicSessionTicket ticket) throws IOException {
        return new Connected(ticket, null);
    }

    @Override
    public Map<String, Case> ownCases() {
        return Map.of(
                "key-update", this::keyUpdate,
                "migration", this::migration,
                "resumption", this::resumption,
                "early-data", this::earlyData);
    }

    @Override
    public void close() {
        requests.shutdownNow();
    }

    private String keyUpdate(Cases cases) throws Exception {
        try (Connected connection = connect(null)) {
            Runnable update = () -> {
                connection.phases.awaited = true;
                connection.quic.updateKeys();
            };
            cases.check(Cases.LARGE, connection.download(update));
            Failed.unless(connection.phases.updated, "no packet of the server with the next keys");
        }
        return "by the client";
    }

    private String migration(Cases cases) throws Exception {
        try (Connected connection = connect(null)) {
            int before = connection.port();
            cases.check(Cases.LARGE, connection.download(connection.quic::changeAddress));
            Failed.unless(connection.port() != before, "the port is still " + before);
            return "from port " + before + " to " + connection.port();
        }
    }

    private String resumption(Cases cases) throws Exception {
        QuicSessionTicket ticket = null;
        for (int number = 0; number <= Cases.RESUMED_CONNECTIONS; number++) {
            int asked = trust.asked();
            try (Connected connection = connect(ticket)) {
                cases.whole(connection, Cases.SMALL);
                ticket = connection.ticket();
            }
            boolean resumed = trust.asked() == asked;
            Failed.unless(resumed == number > 0, "connection " + number + ": resumed is " + resumed);
        }
        return Cases.RESUMED_CONNECTIONS + " connections without a certificate";
    }

    private String earlyData(Cases cases) throws Exception {
        QuicSessionTicket ticket;
        try (Connected first = connect(null)) {
            cases.whole(first, Cases.SMALL);
            ticket = first.ticket();
        }
        try (Connected second = new Connected(ticket, Cases.SMALL)) {
            cases.check(Cases.SMALL, second.early());
            var status = second.quic.getEarlyDataStatus();
            Failed.unless(status == QuicClientConnectionImpl.EarlyDataStatus.Accepted, "early data: " + status);
        }
        return "accepted";
    }

    /** Notices packets of the server that have the keys after an update. */
    private static final class KeyPhases extends NullLogger {
        private volatile boolean awaited;
        private volatile boolean updated;

        @Override
        public void received(Instant time, int datagram, QuicPacket packet) {
            // The text takes longer than all else.
            if (awaited && !updated) {
                updated = packet instanceof ShortHeaderPacket && packet.toString().contains("|S1|");
            }
        }
    }

    /** Socket whose first datagram waits. kwik 0.10.8 ignores a ServerHello that arrives before the call
     * that sends its ClientHello has returned, until the handshake times out, and forgets an acceptance of
     * early data that arrives before the call that sends them has. */
    private static final class Socket extends DatagramSocket {
        private static final int FIRST_WAITS_MS = 100;
        private boolean received;

        Socket() throws SocketException {}

        @Override
        public void receive(DatagramPacket packet) throws IOException {
            super.receive(packet);
            if (!received) {
                received = true;
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(FIRST_WAITS_MS));
            }
        }
    }

    private final class Connected implements Connection {
        final KeyPhases phases = new KeyPhases();
        final QuicClientConnectionImpl quic;
        private final Http3ClientConnectionImpl http;
        private final List<QuicStream> early;
        private volatile Socket socket;

        /** Connects, with a request in the first flight if `earlyPath` is not null. */
        Connected(QuicSessionTicket ticket, String earlyPath) throws IOException {
            var settings = QuicClientConnection.newBuilder()
                    .uri(url)
                    .applicationProtocol("h3")
                    .connectTimeout(Duration.ofSeconds(10))
                    .maxOpenPeerInitiatedUnidirectionalStreams(3)
                    .defaultStreamReceiveBufferSize(STREAM_WINDOW_BYTES)
                    // kwik knows no addresses in certificates: `trust` alone checks them.
                    .noServerCertificateCheck()
                    .customTrustManager(trust)
                    .socketFactory(server -> socket = new Socket())
                    .logger(phases);
            if (ticket != null) {
                settings.sessionTicket(ticket);
            }
            quic = (QuicClientConnectionImpl) settings.build();
            early = earlyPath == null ? List.of() : quic.connect(List.of(request(earlyPath)));
            http = new Http3ClientConnectionImpl(quic, requests);
            http.connect();
        }

        int port() {
            return socket.getLocalPort();
        }

        QuicSessionTicket ticket() throws Failed {
            List<QuicSessionTicket> tickets = quic.getNewSessionTickets();
            Failed.unless(!tickets.isEmpty(), "no ticket");
            return tickets.get(tickets.size() - 1);
        }

        @Override
        public CompletableFuture<Answer> start(String method, String path, Map<String, String> fields, byte[] body) {
            return start(method, path, fields, body, () -> {});
        }

        /** Downloads the large object, and acts meanwhile. */
        Answer download(Runnable midway) throws Exception {
            return Cases.await(start("GET", Cases.LARGE, Map.of(), null, midway));
        }

        private CompletableFuture<Answer> start(
                String method, String path, Map<String, String> fields, byte[] body, Runnable midway) {
            var publisher = body == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofByteArray(body);
            var request = HttpRequest.newBuilder(url.resolve(path)).method(method, publisher);
            fields.forEach(request::header);
            CompletableFuture<HttpResponse<byte[]>> response = new CompletableFuture<>();
            // It returns when the header is there.
            requests.submit(() -> {
                try {
                    http.sendAsync(request.build(), info -> new Body(midway), response);
                } catch (RuntimeException error) {
                    response.completeExceptionally(error);
                }
            });
            return response.thenApply(r -> new Answer(r.statusCode(), flat(r.headers()), r.body()));
        }

        private QuicClientConnection.StreamEarlyData request(String path) {
            HttpHeaders none = HttpHeaders.of(Map.of(), (name, value) -> true);
            var pseudo = Map.of(
                    ":method", "GET", ":scheme", "https", ":authority", url.getAuthority(), ":path", path);
            byte[] frame = new HeadersFrame(none, pseudo).toBytes(Encoder.newBuilder().build());
            return new QuicClientConnection.StreamEarlyData(frame, true);
        }

        /** Returns the answer to the early request, which flupke has no API for. */
        Answer early() throws Exception {
            InputStream stream = new ByteArrayInputStream(early.get(0).getInputStream().readAllBytes());
            HeadersFrame head = new HeadersFrame();
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            while (stream.available() > 0) {
                long kind = VariableLengthInteger.parseLong(stream);
                byte[] payload = stream.readNBytes(VariableLengthInteger.parse(stream));
                if (kind == FRAME_HEADERS) {
                    head.parsePayload(payload, Decoder.newBuilder().build());
                } else if (kind == FRAME_DATA) {
                    body.write(payload);
                }
            }
            int status = Integer.parseInt(head.getPseudoHeader(HeadersFrame.PSEUDO_HEADER_STATUS));
            return new Answer(status, flat(head.headers()), body.toByteArray());
        }

        @Override
        public void close() {
            quic.close();
        }
    }

    private static Map<String, String> flat(HttpHeaders headers) {
        Map<String, String> fields = new HashMap<>();
        headers.map().forEach((name, values) -> fields.put(name.toLowerCase(), values.get(0)));
        return fields;
    }

    /** Body of a response, which acts when some of it is there. */
    private static final class Body implements HttpResponse.BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> all = new CompletableFuture<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private Runnable midway;

        Body(Runnable midway) {
            this.midway = midway;
        }

        @Override
        public CompletionStage<byte[]> getBody() {
            return all;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> buffers) {
            for (ByteBuffer buffer : buffers) {
                bytes.write(buffer.array(), buffer.arrayOffset() + buffer.position(), buffer.remaining());
            }
            if (midway != null && bytes.size() >= MIDWAY_BYTES) {
                midway.run();
                midway = null;
            }
        }

        @Override
        public void onError(Throwable error) {
            all.completeExceptionally(error);
        }

        @Override
        public void onComplete() {
            all.complete(bytes.toByteArray());
        }
    }
}
