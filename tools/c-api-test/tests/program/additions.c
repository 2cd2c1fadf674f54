// Test cases of what the library has beside Careful Resume and options, each
// called by a test of the same name. Their packets arrive at once.

#include "pair.h"

#include <string.h>

#define TOKEN "token of an earlier connection"
#define TOKEN_LEN (sizeof(TOKEN) - 1)
#define INVALID_TOKEN 0xb

// What quiche_header_info() reads.
struct header {
    uint32_t version;
    uint8_t type;
    uint8_t scid[QUICHE_MAX_CONN_ID_LEN];
    size_t scid_len;
    uint8_t dcid[QUICHE_MAX_CONN_ID_LEN];
    size_t dcid_len;
    uint8_t token[64];
    size_t token_len;
};

static struct header read_header(const uint8_t *packet, size_t len) {
    struct header header;

    header.scid_len = sizeof(header.scid);
    header.dcid_len = sizeof(header.dcid);
    header.token_len = sizeof(header.token);
    CHECK(quiche_header_info(packet, len, QUICHE_MAX_CONN_ID_LEN, &header.version,
                             &header.type, header.scid, &header.scid_len, header.dcid,
                             &header.dcid_len, header.token, &header.token_len) == 0);

    return header;
}

void saved_rtt_is_initial_rtt_until_sample(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_conn *conn = new_server(config);
    quiche_path_stats stats;

    CHECK(!quiche_conn_raise_initial_rtt(conn, 5000));
    CHECK(quiche_conn_raise_initial_rtt(conn, 1200000));
    CHECK(quiche_conn_path_stats(conn, 0, &stats) == 0);
    CHECK(stats.rtt == UINT64_C(1200000000));
    CHECK(quiche_conn_raise_initial_rtt(conn, UINT64_MAX));
    CHECK(quiche_conn_path_stats(conn, 0, &stats) == 0);
    CHECK(stats.rtt == UINT64_C(3000000000));
    quiche_conn_free(conn);
    quiche_config_free(config);
}

void token_validates_address_of_next_connection(struct environment *env) {
    struct pair first = connected(new_config(env, QUICHE_CC_CUBIC));
    quiche_conn *client = new_client(first.config);
    quiche_conn *server = new_server(first.config);
    const uint8_t *token;
    size_t token_len;
    uint8_t bytes[1500];
    quiche_send_info info;
    ssize_t len;
    struct header header;

    CHECK(quiche_conn_send_new_token(first.client, (const uint8_t *)TOKEN, TOKEN_LEN) ==
          QUICHE_ERR_INVALID_STATE);
    CHECK(quiche_conn_send_new_token(first.server, NULL, 0) == QUICHE_ERR_INVALID_STATE);
    quiche_conn_new_token(first.client, &token, &token_len);
    CHECK(token == NULL && token_len == 0);

    CHECK(quiche_conn_send_new_token(first.server, (const uint8_t *)TOKEN, TOKEN_LEN) == 0);
    exchange(&first);
    quiche_conn_new_token(first.client, &token, &token_len);
    CHECK(token_len == TOKEN_LEN && memcmp(token, TOKEN, TOKEN_LEN) == 0);

    CHECK(quiche_conn_set_token(server, token, token_len) == QUICHE_ERR_INVALID_STATE);
    CHECK(quiche_conn_set_token(client, token, token_len) == 0);
    len = quiche_conn_send(client, bytes, sizeof(bytes), &info);
    CHECK(len > 0);
    CHECK(quiche_conn_set_token(client, token, token_len) == QUICHE_ERR_INVALID_STATE);
    header = read_header(bytes, (size_t)len);
    CHECK(header.token_len == TOKEN_LEN && memcmp(header.token, TOKEN, TOKEN_LEN) == 0);

    CHECK(quiche_conn_set_peer_address_validated(client) == QUICHE_ERR_INVALID_STATE);
    CHECK(quiche_conn_set_peer_address_validated(server) == 0);

    quiche_conn_free(client);
    quiche_conn_free(server);
    free_pair(&first);
}

void refused_client_learns_error_code(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_conn *client = new_client(config);
    uint8_t bytes[1500];
    quiche_send_info info;
    quiche_send_info back;
    ssize_t len = quiche_conn_send(client, bytes, sizeof(bytes), &info);
    struct header header;
    bool is_app;
    uint64_t error_code;
    const uint8_t *reason;
    size_t reason_len;

    CHECK(len > 0);
    header = read_header(bytes, (size_t)len);
    CHECK(quiche_refuse(header.scid, header.scid_len, header.dcid, header.dcid_len, 7,
                        INVALID_TOKEN, bytes,
                        sizeof(bytes)) == QUICHE_ERR_UNKNOWN_VERSION);
    CHECK(quiche_refuse(header.scid, header.scid_len, header.dcid, header.dcid_len,
                        header.version, INVALID_TOKEN, bytes,
                        10) == QUICHE_ERR_BUFFER_TOO_SHORT);
    CHECK(quiche_refuse(header.scid, header.scid_len, header.dcid, header.dcid_len,
                        header.version, INVALID_TOKEN, NULL,
                        0) == QUICHE_ERR_BUFFER_TOO_SHORT);
    len = quiche_refuse(header.scid, header.scid_len, header.dcid, header.dcid_len,
                        header.version, INVALID_TOKEN, bytes, sizeof(bytes));
    CHECK(len > 0);

    back = info;
    back.from = info.to;
    back.to = info.from;
    hand_over(client, bytes, (size_t)len, &back);
    CHECK(quiche_conn_is_draining(client));
    CHECK(quiche_conn_peer_error(client, &is_app, &error_code, &reason, &reason_len));
    CHECK(!is_app && error_code == INVALID_TOKEN);

    quiche_conn_free(client);
    quiche_config_free(config);
}

void sender_knows_what_it_keeps(struct environment *env) {
    struct pair pair = connected(new_config(env, QUICHE_CC_CUBIC));
    size_t packets;

    write_stream(pair.client, 0, 5000);
    CHECK(quiche_conn_stream_bytes_unsent(pair.client) == 5000);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 5000);
    CHECK(quiche_conn_stream_missing(pair.client, 0) == 5000);
    packets = quiche_conn_packets_kept(pair.client);
    send_all(pair.client, pair.server);
    CHECK(quiche_conn_stream_bytes_unsent(pair.client) == 0);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 5000);
    CHECK(quiche_conn_packets_kept(pair.client) >= packets + 4);
    exchange(&pair);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 0);
    CHECK(quiche_conn_stream_missing(pair.client, 0) == 0);

    free_pair(&pair);
}

void send_limit_names_what_limits(struct environment *env) {
    static const uint8_t byte[1];
    static struct flight flight;
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct pair pair = connected(config);
    uint64_t error_code;

    CHECK(quiche_conn_send_limit(pair.client) == QUICHE_SEND_LIMIT_APPLICATION);
    fill_window(pair.client);
    take_flight(pair.client, &flight);
    CHECK(quiche_conn_send_limit(pair.client) == QUICHE_SEND_LIMIT_CONGESTION_WINDOW);
    free_pair(&pair);

    config = new_config(env, QUICHE_CC_CUBIC);
    quiche_config_set_initial_max_data(config, 5000);
    pair = connected(config);
    write_stream(pair.client, 0, 5000);
    CHECK(quiche_conn_stream_send(pair.client, 0, byte, 1, false, &error_code) ==
          QUICHE_ERR_DONE);
    take_flight(pair.client, &flight);
    CHECK(quiche_conn_send_limit(pair.client) == QUICHE_SEND_LIMIT_FLOW_CONTROL);
    free_pair(&pair);
}

void packets_of_a_batch_have_one_size(struct environment *env) {
    struct pair pair = connected(new_config(env, QUICHE_CC_CUBIC));
    static uint8_t batch[65536];
    quiche_send_info info;
    size_t packet_len = 0;
    ssize_t len;

    write_stream(pair.client, 0, 10000);
    len = quiche_conn_send_batch(pair.client, batch, sizeof(batch), 4, &packet_len, &info);
    CHECK(packet_len >= MIN_PACKET_PAYLOAD && len == 4 * (ssize_t)packet_len);
    for (size_t i = 0; i < 4; i++) {
        hand_over(pair.server, batch + i * packet_len, packet_len, &info);
    }
    exchange(&pair);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 0);
    CHECK(quiche_conn_send_batch(pair.client, batch, sizeof(batch), 4, &packet_len,
                                 &info) == QUICHE_ERR_DONE);
    write_stream(pair.client, 0, 10000);
    CHECK(quiche_conn_send_batch(pair.client, NULL, 0, 4, &packet_len, &info) ==
          QUICHE_ERR_BUFFER_TOO_SHORT);

    free_pair(&pair);
}

// Returns the packets of BBR2 that leave together after the unpaced ones.
static ssize_t packets_released_together(struct environment *env, bool batches) {
    quiche_config *config = new_config(env, QUICHE_CC_BBR2_GCONGESTION);
    static uint8_t batch[65536];
    quiche_send_info info;
    struct pair pair;
    size_t packet_len = 1;
    ssize_t len;

    quiche_config_set_initial_congestion_window_packets(config, 1000);
    quiche_config_set_bbr2_batches(config, batches);
    pair = connected(config);
    write_stream(pair.client, 0, 100000);
    do {
        len = quiche_conn_send_batch(pair.client, batch, sizeof(batch), 16, &packet_len, &info);
        CHECK(len > 0);
    } while (quiche_conn_next_release_as_nanos(pair.client) == 0);
    pass(env, quiche_conn_next_release_as_nanos(pair.client));
    len = quiche_conn_send_batch(pair.client, batch, sizeof(batch), 16, &packet_len, &info);
    free_pair(&pair);

    return len / (ssize_t)packet_len;
}

void packets_of_bbr2_are_released_in_batches(struct environment *env) {
    CHECK(packets_released_together(env, false) == 1);
    CHECK(packets_released_together(env, true) > 1);
}

static const quiche_h3_header REQUEST[] = {
    {(uint8_t *)":method", 7, (uint8_t *)"GET", 3},
    {(uint8_t *)":scheme", 7, (uint8_t *)"https", 5},
    {(uint8_t *)":authority", 10, (uint8_t *)"test.example", 12},
    {(uint8_t *)":path", 5, (uint8_t *)"/", 1}};
static const quiche_h3_header RESPONSE[] = {{(uint8_t *)":status", 7, (uint8_t *)"200", 3}};
static const quiche_h3_priority PRIORITY = {3, false};

// HTTP/3 at both ends of a pair.
struct http {
    struct pair pair;
    quiche_h3_config *config;
    quiche_h3_conn *client;
    quiche_h3_conn *server;
};

static struct http connected_http(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct http http;

    quiche_config_set_initial_max_streams_bidi(config, 100);
    quiche_config_set_initial_max_streams_uni(config, 3);
    quiche_config_set_initial_max_stream_data_uni(config, 10000);
    http.pair = connected(config);
    http.config = quiche_h3_config_new();
    http.client = quiche_h3_conn_new_with_transport(http.pair.client, http.config);
    http.server = quiche_h3_conn_new_with_transport(http.pair.server, http.config);
    CHECK(http.client != NULL && http.server != NULL);

    return http;
}

static void free_http(struct http *http) {
    quiche_h3_conn_free(http->client);
    quiche_h3_conn_free(http->server);
    quiche_h3_config_free(http->config);
    free_pair(&http->pair);
}

static void poll_event(quiche_h3_conn *h3, quiche_conn *conn,
                          enum quiche_h3_event_type type, quiche_h3_event **event) {
    CHECK(quiche_h3_conn_poll(h3, conn, event) >= 0);
    CHECK(quiche_h3_event_type(*event) == type);
}

// Sends a request, and returns its stream.
static uint64_t request(struct http *http) {
    int64_t stream_id =
        quiche_h3_send_request(http->client, http->pair.client, REQUEST, 4, true);

    CHECK(stream_id >= 0);
    return (uint64_t)stream_id;
}

// Sends a response of one write.
static int respond(struct http *http, uint64_t stream_id, const char *body) {
    return quiche_h3_send_response_with_body(http->server, http->pair.server, stream_id,
                                             RESPONSE, 1, &PRIORITY, (const uint8_t *)body,
                                             body == NULL ? 0 : strlen(body));
}

static int check_body_header(uint8_t *name, size_t name_len, uint8_t *value,
                             size_t value_len, void *argp) {
    (void)name;
    CHECK(name_len == 7 && value_len == 3 && memcmp(value, "200", 3) == 0);
    *(bool *)argp = true;
    return 0;
}

void response_leaves_in_one_write(struct environment *env) {
    struct http http = connected_http(env);
    uint64_t stream_id = request(&http);
    quiche_h3_event *event;
    uint8_t body[16];
    bool has_status = false;

    exchange(&http.pair);
    poll_event(http.server, http.pair.server, QUICHE_H3_EVENT_HEADERS, &event);
    quiche_h3_event_free(event);
    CHECK(respond(&http, stream_id, "hello") == 0);
    CHECK(respond(&http, stream_id, NULL) == QUICHE_H3_ERR_FRAME_UNEXPECTED);
    CHECK(send_all(http.pair.server, http.pair.client) == 1);

    poll_event(http.client, http.pair.client, QUICHE_H3_EVENT_HEADERS, &event);
    CHECK(quiche_h3_event_for_each_header(event, check_body_header, &has_status) == 0);
    CHECK(has_status);
    quiche_h3_event_free(event);
    poll_event(http.client, http.pair.client, QUICHE_H3_EVENT_DATA, &event);
    quiche_h3_event_free(event);
    CHECK(quiche_h3_recv_body(http.client, http.pair.client, stream_id, body,
                              sizeof(body)) == 5);
    CHECK(memcmp(body, "hello", 5) == 0);

    free_http(&http);
}

void receiver_knows_what_it_keeps(struct environment *env) {
    // The beginning of a HEADERS frame of 100 bytes.
    static const uint8_t beginning[] = {1, 0x40, 100, 0, 0};
    struct http http = connected_http(env);
    quiche_h3_event *event;
    uint64_t error_code;

    exchange(&http.pair);
    CHECK(quiche_h3_conn_poll(http.server, http.pair.server, &event) == QUICHE_H3_ERR_DONE);
    CHECK(quiche_conn_stream_bytes_unread(http.pair.server) == 0);
    CHECK(quiche_conn_stream_send(http.pair.client, 0, beginning, sizeof(beginning), false,
                                  &error_code) == sizeof(beginning));
    exchange(&http.pair);
    CHECK(quiche_conn_stream_bytes_unread(http.pair.server) == sizeof(beginning));
    CHECK(quiche_conn_stream_chunks_unread(http.pair.server) == 1);

    size_t before = quiche_h3_conn_unfinished_frame_bytes(http.server);
    CHECK(quiche_h3_conn_poll(http.server, http.pair.server, &event) == QUICHE_H3_ERR_DONE);
    CHECK(quiche_conn_stream_bytes_unread(http.pair.server) == 0);
    CHECK(quiche_h3_conn_unfinished_frame_bytes(http.server) > before);

    free_http(&http);
}

// Downloads several bodies at once.
static void download(struct http *http, size_t requests) {
    quiche_h3_event *event;
    uint8_t body[16];
    int64_t stream_id;

    for (size_t i = 0; i < requests; i++) {
        request(http);
    }
    exchange(&http->pair);
    while ((stream_id = quiche_h3_conn_poll(http->server, http->pair.server, &event)) >=
           0) {
        if (quiche_h3_event_type(event) == QUICHE_H3_EVENT_HEADERS) {
            CHECK(respond(http, (uint64_t)stream_id, "hello") == 0);
        }
        quiche_h3_event_free(event);
    }
    exchange(&http->pair);
    while ((stream_id = quiche_h3_conn_poll(http->client, http->pair.client, &event)) >=
           0) {
        if (quiche_h3_event_type(event) == QUICHE_H3_EVENT_DATA) {
            CHECK(quiche_h3_recv_body(http->client, http->pair.client, (uint64_t)stream_id,
                                      body, sizeof(body)) == 5);
            requests--;
        }
        quiche_h3_event_free(event);
    }
    CHECK(requests == 0);
}

static void shrink_connection(void *conn) {
    quiche_conn_shrink_to_fit(conn);
}

static void shrink_http(void *h3) {
    quiche_h3_conn_shrink_to_fit(h3);
}

// Queues and tables grow again where they are needed.
void connection_works_after_releasing_memory(struct environment *env) {
    struct http http = connected_http(env);

    download(&http, 50);
    CHECK(env->kept_bytes(shrink_http, http.client) < 0);
    CHECK(env->kept_bytes(shrink_connection, http.pair.client) < 0);
    download(&http, 50);

    free_http(&http);
}
