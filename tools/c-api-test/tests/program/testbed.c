#include "testbed.h"

#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#define MAX_PACKET_BYTES 1500
#define QUEUE_PACKETS 1024
#define STEPS_MAX 1000000
#define STREAM_ID 0
#define FLOW_CONTROL_WINDOW (UINT64_C(1) << 30)

static const uint8_t ALPN[] = "\x04test";
static const uint8_t CLIENT_SCID[16] = "client of test.";
static const uint8_t SERVER_SCID[16] = "server of test.";

struct packet {
    uint64_t arrival_ns;
    size_t len;
    uint8_t bytes[MAX_PACKET_BYTES];
};

struct queue {
    struct packet packets[QUEUE_PACKETS];
    size_t first;
    size_t len;
};

struct endpoint {
    quiche_conn *conn;
    struct sockaddr_in addr;
    struct queue arriving;
};

struct testbed {
    struct environment *env;
    struct download *download;
    struct endpoint client;
    struct endpoint server;

    uint64_t start_ns;
    // quiche_send_info.at at clock time 0.
    uint64_t at_zero_ns;
    bool has_at_zero;
    uint64_t bottleneck_free_ns;

    size_t unwritten_bytes;
    bool requested;
    bool serving;
    bool complete;

    uint64_t unvalidated_first_at_ns;
    uint64_t unvalidated_last_at_ns;
    size_t unvalidated_batch_packets;
};

static struct sockaddr_in address(uint16_t port) {
    struct sockaddr_in addr;

    memset(&addr, 0, sizeof(addr));
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    addr.sin_port = htons(port);

    return addr;
}

quiche_config *new_config(const struct environment *env,
                          enum quiche_cc_algorithm cc) {
    quiche_config *config = quiche_config_new(QUICHE_PROTOCOL_VERSION);

    CHECK(config != NULL);
    CHECK(quiche_config_load_cert_chain_from_pem_file(config, env->cert_pem) == 0);
    CHECK(quiche_config_load_priv_key_from_pem_file(config, env->key_pem) == 0);
    CHECK(quiche_config_set_application_protos(config, ALPN, sizeof(ALPN) - 1) == 0);

    quiche_config_verify_peer(config, false);
    quiche_config_set_cc_algorithm(config, cc);
    quiche_config_set_initial_max_data(config, FLOW_CONTROL_WINDOW);
    quiche_config_set_initial_max_stream_data_bidi_local(config, FLOW_CONTROL_WINDOW);
    quiche_config_set_initial_max_stream_data_bidi_remote(config, FLOW_CONTROL_WINDOW);
    quiche_config_set_initial_max_streams_bidi(config, 1);
    quiche_config_set_max_connection_window(config, FLOW_CONTROL_WINDOW);
    quiche_config_set_max_stream_window(config, FLOW_CONTROL_WINDOW);

    return config;
}

quiche_conn *new_server(quiche_config *config) {
    struct sockaddr_in local = address(4433);
    struct sockaddr_in peer = address(1234);

    quiche_conn *conn = quiche_accept(
        SERVER_SCID, sizeof(SERVER_SCID), NULL, 0, (struct sockaddr *)&local,
        sizeof(local), (struct sockaddr *)&peer, sizeof(peer), config);

    CHECK(conn != NULL);
    return conn;
}

quiche_conn *new_client(quiche_config *config) {
    struct sockaddr_in local = address(1234);
    struct sockaddr_in peer = address(4433);

    quiche_conn *conn = quiche_connect(
        "test.example", CLIENT_SCID, sizeof(CLIENT_SCID),
        (struct sockaddr *)&local, sizeof(local), (struct sockaddr *)&peer,
        sizeof(peer), config);

    CHECK(conn != NULL);
    return conn;
}

static struct packet *queue_push(struct queue *queue, uint64_t arrival_ns,
                                 const uint8_t *bytes, size_t len) {
    struct packet *packet;

    CHECK(queue->len < QUEUE_PACKETS);
    packet = &queue->packets[(queue->first + queue->len++) % QUEUE_PACKETS];
    packet->arrival_ns = arrival_ns;
    packet->len = len;
    memcpy(packet->bytes, bytes, len);

    return packet;
}

static struct packet *queue_front(struct queue *queue) {
    return queue->len > 0 ? &queue->packets[queue->first] : NULL;
}

static void queue_pop(struct queue *queue) {
    queue->first = (queue->first + 1) % QUEUE_PACKETS;
    queue->len--;
}

static void deliver(struct endpoint *to, struct endpoint *from,
                    uint64_t now_ns) {
    struct packet *packet;

    while ((packet = queue_front(&to->arriving)) != NULL &&
           packet->arrival_ns <= now_ns) {
        quiche_recv_info info = {
            (struct sockaddr *)&from->addr, sizeof(from->addr),
            (struct sockaddr *)&to->addr,   sizeof(to->addr),
        };

        CHECK(quiche_conn_recv(to->conn, packet->bytes, packet->len, &info) >= 0);
        queue_pop(&to->arriving);
    }

    if (quiche_conn_timeout_as_nanos(to->conn) == 0) {
        quiche_conn_on_timeout(to->conn);
    }
}

// Sends a packet over the bottleneck, whose buffer holds one BDP.
static void transmit(struct testbed *t, const uint8_t *bytes, size_t len) {
    const uint64_t ns_per_byte = UINT64_C(1000000000) / BYTES_PER_SECOND;
    uint64_t now_ns = t->env->elapsed_ns;
    uint64_t start_ns =
        t->bottleneck_free_ns > now_ns ? t->bottleneck_free_ns : now_ns;

    if (start_ns - now_ns > BDP * ns_per_byte) {
        return;
    }

    t->bottleneck_free_ns = start_ns + len * ns_per_byte;
    queue_push(&t->client.arriving, t->bottleneck_free_ns + RTT_NS / 2, bytes, len);
}

static void note_unvalidated(struct testbed *t, uint64_t at_ns) {
    if (t->unvalidated_first_at_ns == 0) {
        t->unvalidated_first_at_ns = at_ns;
    }

    if (at_ns != t->unvalidated_last_at_ns) {
        t->unvalidated_batch_packets = 0;
    }

    t->unvalidated_last_at_ns = at_ns;
    t->unvalidated_batch_packets++;
    t->download->unvalidated_span_ns = at_ns - t->unvalidated_first_at_ns;

    if (t->unvalidated_batch_packets >
        t->download->unvalidated_batch_packets_max) {
        t->download->unvalidated_batch_packets_max = t->unvalidated_batch_packets;
    }
}

// A packet is never handed out before its release time, if the application
// waits for quiche_conn_next_release_as_nanos() to be 0.
static void check_release(struct testbed *t, const quiche_send_info *info,
                          bool unvalidated) {
    uint64_t at_ns = (uint64_t)info->at.tv_sec * UINT64_C(1000000000) +
                     (uint64_t)info->at.tv_nsec;

    if (!t->has_at_zero) {
        t->has_at_zero = true;
        t->at_zero_ns = at_ns - t->env->elapsed_ns;
    }

    CHECK(at_ns - t->at_zero_ns <= t->env->elapsed_ns);

    if (unvalidated) {
        note_unvalidated(t, at_ns);
    }
}

static void send_client(struct testbed *t) {
    uint8_t bytes[MAX_PACKET_BYTES];
    quiche_send_info info;
    ssize_t len;

    if (!t->requested && quiche_conn_is_established(t->client.conn)) {
        uint64_t error_code;
        t->requested = true;
        CHECK(quiche_conn_stream_send(t->client.conn, STREAM_ID, (uint8_t *)"get", 3,
                                      true, &error_code) == 3);
    }

    while (quiche_conn_next_release_as_nanos(t->client.conn) == 0 &&
           (len = quiche_conn_send(t->client.conn, bytes, sizeof(bytes), &info)) > 0) {
        check_release(t, &info, false);
        queue_push(&t->server.arriving, t->env->elapsed_ns + RTT_NS / 2, bytes,
                   (size_t)len);
    }
}

static size_t write_object(struct testbed *t) {
    static const uint8_t zeros[65536];
    ssize_t capacity = quiche_conn_stream_capacity(t->server.conn, STREAM_ID);
    size_t len = t->unwritten_bytes;
    uint64_t error_code;
    ssize_t written;

    if (!t->serving || capacity <= 0 || len == 0) {
        return 0;
    }

    len = len > (size_t)capacity ? (size_t)capacity : len;
    len = len > sizeof(zeros) ? sizeof(zeros) : len;
    written = quiche_conn_stream_send(t->server.conn, STREAM_ID, zeros, len,
                                      len == t->unwritten_bytes, &error_code);
    CHECK(written >= 0);
    t->unwritten_bytes -= (size_t)written;

    return (size_t)written;
}

static size_t send_packets(struct testbed *t) {
    uint8_t bytes[MAX_PACKET_BYTES];
    quiche_send_info info;
    size_t sent = 0;

    while (quiche_conn_next_release_as_nanos(t->server.conn) == 0) {
        bool unvalidated = quiche_conn_careful_resume_phase(t->server.conn) ==
                           QUICHE_CAREFUL_RESUME_PHASE_UNVALIDATED;
        ssize_t len =
            quiche_conn_send(t->server.conn, bytes, sizeof(bytes), &info);

        if (len == QUICHE_ERR_DONE) {
            return sent;
        }

        CHECK(len > 0);
        check_release(t, &info, unvalidated && len > MIN_PACKET_PAYLOAD);
        transmit(t, bytes, (size_t)len);
        sent++;
    }

    t->download->release_waits++;
    return sent;
}

static void serve(struct testbed *t) {
    struct download *d = t->download;
    uint8_t request[16];
    uint64_t error_code;
    bool fin;

    if (!t->serving && quiche_conn_stream_recv(t->server.conn, STREAM_ID, request,
                                               sizeof(request), &fin, &error_code) > 0) {
        t->serving = true;

        if (d->saved != NULL) {
            CHECK(quiche_conn_careful_resume_from(t->server.conn, d->saved,
                                                  d->jump_within_us) == 0);
            CHECK(quiche_conn_careful_resume_from(t->server.conn, d->saved,
                                                  d->jump_within_us) ==
                  QUICHE_ERR_INVALID_STATE);
        }
    }

    while (write_object(t) + send_packets(t) > 0) {
    }

    while (d->events_len < MAX_EVENTS &&
           quiche_conn_careful_resume_event_next(t->server.conn,
                                                 &d->events[d->events_len])) {
        CHECK(d->events[d->events_len].age_us <= RTT_NS / 1000);
        d->events_len++;
    }
}

static void read_object(struct testbed *t) {
    static uint8_t sink[65536];
    uint64_t error_code;
    bool fin = false;

    while (!fin && quiche_conn_stream_recv(t->client.conn, STREAM_ID, sink, sizeof(sink),
                                           &fin, &error_code) > 0) {
    }

    if (fin) {
        t->complete = true;
        t->download->duration_ns = t->env->elapsed_ns - t->start_ns;
    }
}

static void earlier(uint64_t *next_ns, uint64_t candidate_ns) {
    if (candidate_ns < *next_ns) {
        *next_ns = candidate_ns;
    }
}

// Lowers |next_ns| to the time of the endpoint's next event.
static void next_event(struct endpoint *end, uint64_t now_ns, uint64_t *next_ns) {
    uint64_t timeout_ns = quiche_conn_timeout_as_nanos(end->conn);
    uint64_t release_ns = quiche_conn_next_release_as_nanos(end->conn);
    struct packet *packet = queue_front(&end->arriving);

    if (timeout_ns != UINT64_MAX) {
        earlier(next_ns, now_ns + timeout_ns);
    }

    if (release_ns > 0) {
        earlier(next_ns, now_ns + release_ns);
    }

    if (packet != NULL) {
        earlier(next_ns, packet->arrival_ns);
    }
}

static void advance(struct testbed *t) {
    uint64_t next_ns = UINT64_MAX;

    next_event(&t->client, t->env->elapsed_ns, &next_ns);
    next_event(&t->server, t->env->elapsed_ns, &next_ns);
    CHECK(next_ns != UINT64_MAX);

    if (next_ns > t->env->elapsed_ns) {
        t->env->elapsed_ns = next_ns;
        t->env->advance_to_ns(t->env->clock, next_ns);
    }
}

void run_download(struct download *download, struct environment *env,
                  quiche_config *config) {
    struct testbed *t = calloc(1, sizeof(*t));
    size_t steps = 0;

    CHECK(t != NULL);
    t->env = env;
    t->download = download;
    t->start_ns = env->elapsed_ns;
    t->bottleneck_free_ns = env->elapsed_ns;
    t->unwritten_bytes = download->object_bytes;
    t->client.addr = address(1234);
    t->server.addr = address(4433);
    t->client.conn = new_client(config);
    t->server.conn = new_server(config);

    while (!t->complete || queue_front(&t->server.arriving) != NULL) {
        CHECK(steps++ < STEPS_MAX);
        deliver(&t->client, &t->server, env->elapsed_ns);
        deliver(&t->server, &t->client, env->elapsed_ns);
        send_client(t);
        serve(t);
        read_object(t);
        advance(t);
    }

    download->has_observed =
        quiche_conn_path_state(t->server.conn, &download->observed);

    quiche_conn_free(t->client.conn);
    quiche_conn_free(t->server.conn);
    free(t);
}
