package interop;

import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.handler.codec.http3.DefaultHttp3DataFrame;
import io.netty.handler.codec.http3.DefaultHttp3HeadersFrame;
import io.netty.handler.codec.http3.Http3;
import io.netty.handler.codec.http3.Http3ClientConnectionHandler;
import io.netty.handler.codec.http3.Http3DataFrame;
import io.netty.handler.codec.http3.Http3Exception;
import io.netty.handler.codec.http3.Http3HeadersFrame;
import io.netty.handler.codec.http3.Http3RequestStreamInboundHandler;
import io.netty.handler.codec.quic.QuicChannel;
import io.netty.handler.codec.quic.QuicException;
import io.netty.handler.codec.quic.QuicSslContext;
import io.netty.handler.codec.quic.QuicSslContextBuilder;
import io.netty.handler.codec.quic.QuicStreamChannel;
import io.netty.util.ReferenceCountUtil;
import io.netty.util.concurrent.Future;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** netty's HTTP/3 codec, on its own build of quiche. */
final class NettyClient implements Client {
    private static final long CONNECTION_WINDOW_BYTES = 1 << 24;
    private static final long STREAM_WINDOW_BYTES = 1 << 22;
    private static final int IDLE_TIMEOUT_S = 30;

    private final URI url;
    private final Trust trust;
    private final EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());

    NettyClient(URI url, Trust trust) {
        this.url = url;
        this.trust = trust;
    }

    @Override
    public Connection connect() throws Exception {
        return new Connected(secrets());
    }

    /** Returns settings of TLS with an empty cache of sessions. */
    private QuicSslContext secrets() {
        return QuicSslContextBuilder.forClient()
                .trustManager(trust)
                .applicationProtocols(Http3.supportedApplicationProtocols())
                .build();
    }

    @Override
    public Map<String, Case> ownCases() {
        return Map.of("resumption", this::resumption);
    }

    @Override
    public void close() {
        group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }

    private String resumption(Cases cases) throws Exception {
        QuicSslContext secrets = secrets();
        for (int number = 0; number <= Cases.RESUMED_CONNECTIONS; number++) {
            int asked = trust.asked();
            try (Connected connection = new Connected(secrets)) {
                cases.whole(connection, Cases.SMALL);
            }
            boolean resumed = trust.asked() == asked;
            Failed.unless(resumed == number > 0, "connection " + number + ": resumed is " + resumed);
        }
        return Cases.RESUMED_CONNECTIONS + " connections without a certificate";
    }

    private final class Connected implements Connection {
        private final Channel socket;
        private final QuicChannel quic;

        Connected(QuicSslContext secrets) throws Exception {
            var codec = Http3.newQuicClientCodecBuilder()
                    .sslEngineProvider(quic -> secrets.newEngine(quic.alloc(), url.getHost(), url.getPort()))
                    .maxIdleTimeout(IDLE_TIMEOUT_S, TimeUnit.SECONDS)
                    .initialMaxData(CONNECTION_WINDOW_BYTES)
                    .initialMaxStreamDataBidirectionalLocal(STREAM_WINDOW_BYTES)
                    .build();
            socket = new Bootstrap()
                    .group(group)
                    .channel(NioDatagramChannel.class)
                    .handler(codec)
                    .bind("127.0.0.1", 0)
                    .sync()
                    .channel();
            quic = QuicChannel.newBootstrap(socket)
                    .handler(new Http3ClientConnectionHandler())
                    .remoteAddress(new InetSocketAddress(url.getHost(), url.getPort()))
                    .connect()
                    .get();
        }

        @Override
        public CompletableFuture<Answer> start(String method, String path, Map<String, String> fields, byte[] body) {
            return send(quic, method, path, fields, body);
        }

        @Override
        public void close() throws Exception {
            quic.close(true, 0x100, Unpooled.EMPTY_BUFFER).sync();
            socket.close().sync();
        }
    }

    private CompletableFuture<Answer> send(
            QuicChannel quic, String method, String path, Map<String, String> fields, byte[] body) {
        Response response = new Response();
        Http3.newRequestStream(quic, response).addListener((Future<QuicStreamChannel> opened) -> {
            if (opened.isSuccess()) {
                write(opened.getNow(), request(method, path, fields), body);
            } else {
                response.answer.completeExceptionally(opened.cause());
            }
        });
        return response.answer;
    }

    private Http3HeadersFrame request(String method, String path, Map<String, String> fields) {
        Http3HeadersFrame frame = new DefaultHttp3HeadersFrame();
        frame.headers().method(method).scheme("https").authority(url.getAuthority()).path(path);
        fields.forEach((name, value) -> frame.headers().add(name, value));
        return frame;
    }

    private static void write(QuicStreamChannel stream, Http3HeadersFrame head, byte[] body) {
        if (body == null) {
            stream.writeAndFlush(head).addListener(QuicStreamChannel.SHUTDOWN_OUTPUT);
        } else {
            stream.write(head);
            stream.writeAndFlush(new DefaultHttp3DataFrame(Unpooled.wrappedBuffer(body)))
                    .addListener(QuicStreamChannel.SHUTDOWN_OUTPUT);
        }
    }

    /** Response on a stream. */
    private static final class Response extends Http3RequestStreamInboundHandler {
        final CompletableFuture<Answer> answer = new CompletableFuture<>();
        private final ByteArrayOutputStream body = new ByteArrayOutputStream();
        private Http3HeadersFrame head;

        @Override
        protected void channelRead(ChannelHandlerContext context, Http3HeadersFrame frame) {
            head = frame;
        }

        @Override
        protected void channelRead(ChannelHandlerContext context, Http3DataFrame frame) throws IOException {
            ByteBuf content = frame.content();
            content.readBytes(body, content.readableBytes());
            ReferenceCountUtil.release(frame);
        }

        @Override
        protected void channelInputClosed(ChannelHandlerContext context) {
            Map<String, String> fields = new HashMap<>();
            head.headers().forEach(field -> fields.putIfAbsent(field.getKey().toString(), field.getValue().toString()));
            answer.complete(new Answer(Integer.parseInt(fields.get(":status")), fields, body.toByteArray()));
            context.close();
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            answer.completeExceptionally(new IOException("the stream ended early"));
        }

        @Override
        protected void handleQuicException(ChannelHandlerContext context, QuicException error) {
            answer.completeExceptionally(error);
        }

        @Override
        protected void handleHttp3Exception(ChannelHandlerContext context, Http3Exception error) {
            answer.completeExceptionally(error);
        }
    }
}
