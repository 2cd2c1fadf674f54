// Test cases of what the library has beside Careful Resume, each called by a
// test of the same name. Their packets arrive at once.

#include "testbed.h"

#include <string.h>

#define TOKEN "token of an earlier connection"
#define TOKEN_LEN (sizeof(TOKEN) - 1)
#define INVALID_TOKEN 0xb

struct pair {
    quiche_config *config;
    quiche_conn *client;
    quiche_conn *server;
};

// Hands a packet of one endpoint to the other.
static void hand_over(quiche_conn *to, uint8_t *bytes, size_t len,
                      const quiche_send_info *sent) {
    struct sockaddr_storage from = sent->from;
    struct sockaddr_storage at = sent->to;
    quiche_recv_info info = {(struct sockaddr *)&from, sent->from_len,
                             (struct sockaddr *)&at, sent->to_len};

    CHECK(quiche_conn_recv(to, bytes, len, &info) == (ssize_t)len);
}

// Sends what |from| has to send, and returns the number of packets.
static size_t send_all(quiche_conn *from, quiche_conn *to) {
    uint8_t bytes[1500];
    quiche_send_info info;
    size_t packets = 0;
    ssize_t len;

    while ((len = quiche_conn_send(from, bytes, sizeof(bytes), &info)) > 0) {
        hand_over(to, bytes, (size_t)len, &info);
        packets++;
    }

    CHECK(len == QUICHE_ERR_DONE);
    return packets;
}

static void exchange(struct pair *pair) {
    while (send_all(pair->client, pair->server) + send_all(pair->server, pair->client) >
           0) {
    }
}

static struct pair connected(quiche_config *config) {
    struct pair pair = {config, new_client(config), new_server(config)};

    exchange(&pair);
    CHECK(quiche_conn_is_established(pair.client));
    CHECK(quiche_conn_is_established(pair.server));

    return pair;
}

static void free_pair(struct pair *pair) {
    quiche_conn_free(pair->client);
    quiche_conn_free(pair->server);
    quiche_config_free(pair->config);
}

static void write_stream(quiche_conn *conn, uint64_t stream_id, size_t len) {
    static const uint8_t zeros[16384];
    uint64_t error_code;

    CHECK(quiche_conn_stream_send(conn, stream_id, zeros, len, false, &error_code) ==
          (ssize_t)len);
}

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
    CHECK(token_len == 0);

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

    write_stream(pair.client, 0, 5000);
    CHECK(quiche_conn_stream_bytes_unsent(pair.client) == 5000);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 5000);
    send_all(pair.client, pair.server);
    CHECK(quiche_conn_stream_bytes_unsent(pair.client) == 0);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 5000);
    exchange(&pair);
    CHECK(quiche_conn_stream_unacknowledged(pair.client, 0) == 0);

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

    free_pair(&pair);
}

// Returns the number of packets that carry ten bytes of each of two streams.
static size_t packets_of_two_streams(struct environment *env, bool coalesce) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct pair pair;
    size_t packets;

    quiche_config_set_initial_max_streams_bidi(config, 2);
    quiche_config_set_coalesce_streams(config, coalesce);
    pair = connected(config);
    write_stream(pair.client, 0, 10);
    write_stream(pair.client, 4, 10);
    packets = send_all(pair.client, pair.server);
    free_pair(&pair);

    return packets;
}

void streams_share_a_packet_as_an_option(struct environment *env) {
    CHECK(packets_of_two_streams(env, false) == 2);
    CHECK(packets_of_two_streams(env, true) == 1);
}

void download_completes_with_all_options(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct download download;

    memset(&download, 0, sizeof(download));
    download.object_bytes = 12 * BDP;
    quiche_config_set_sws_avoidance(config, true);
    quiche_config_set_spurious_loss_evidence(config, true);
    quiche_config_set_hystart_samples_per_ack(config, true);
    quiche_config_set_coalesce_streams(config, true);
    run_download(&download, env, config);
    quiche_config_free(config);
}

static int check_body_header(uint8_t *name, size_t name_len, uint8_t *value,
                             size_t value_len, void *argp) {
    (void)name;
    CHECK(name_len == 7 && value_len == 3 && memcmp(value, "200", 3) == 0);
    *(bool *)argp = true;
    return 0;
}

static int64_t poll_event(quiche_h3_conn *h3, quiche_conn *conn,
                          enum quiche_h3_event_type type, quiche_h3_event **event) {
    int64_t stream_id = quiche_h3_conn_poll(h3, conn, event);

    CHECK(stream_id >= 0 && quiche_h3_event_type(*event) == type);
    return stream_id;
}

void response_leaves_in_one_write(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_h3_config *h3_config = quiche_h3_config_new();
    const quiche_h3_header request[] = {
        {(uint8_t *)":method", 7, (uint8_t *)"GET", 3},
        {(uint8_t *)":scheme", 7, (uint8_t *)"https", 5},
        {(uint8_t *)":authority", 10, (uint8_t *)"test.example", 12},
        {(uint8_t *)":path", 5, (uint8_t *)"/", 1}};
    const quiche_h3_header response[] = {{(uint8_t *)":status", 7, (uint8_t *)"200", 3}};
    const quiche_h3_priority priority = {3, false};
    struct pair pair;
    quiche_h3_conn *client;
    quiche_h3_conn *server;
    quiche_h3_event *event;
    uint8_t body[16];
    bool has_status = false;
    int64_t stream_id;

    quiche_config_set_initial_max_streams_uni(config, 3);
    quiche_config_set_initial_max_stream_data_uni(config, 10000);
    pair = connected(config);
    client = quiche_h3_conn_new_with_transport(pair.client, h3_config);
    server = quiche_h3_conn_new_with_transport(pair.server, h3_config);
    CHECK(client != NULL && server != NULL);
    CHECK(quiche_h3_send_request(client, pair.client, request, 4, true) == 0);
    exchange(&pair);

    stream_id = poll_event(server, pair.server, QUICHE_H3_EVENT_HEADERS, &event);
    quiche_h3_event_free(event);
    CHECK(quiche_h3_send_response_with_body(server, pair.server, (uint64_t)stream_id,
                                            response, 1, &priority,
                                            (const uint8_t *)"hello", 5) == 0);
    CHECK(quiche_h3_send_response_with_body(server, pair.server, (uint64_t)stream_id,
                                            response, 1, &priority, NULL,
                                            0) == QUICHE_H3_ERR_FRAME_UNEXPECTED);
    exchange(&pair);

    stream_id = poll_event(client, pair.client, QUICHE_H3_EVENT_HEADERS, &event);
    CHECK(quiche_h3_event_for_each_header(event, check_body_header, &has_status) == 0);
    CHECK(has_status);
    quiche_h3_event_free(event);
    poll_event(client, pair.client, QUICHE_H3_EVENT_DATA, &event);
    quiche_h3_event_free(event);
    CHECK(quiche_h3_recv_body(client, pair.client, (uint64_t)stream_id, body,
                              sizeof(body)) == 5);
    CHECK(memcmp(body, "hello", 5) == 0);

    quiche_h3_conn_free(client);
    quiche_h3_conn_free(server);
    quiche_h3_config_free(h3_config);
    free_pair(&pair);
}

// Queues and tables grow again where they are needed.
void connection_works_after_releasing_memory(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_h3_config *h3_config = quiche_h3_config_new();
    struct pair pair;
    quiche_h3_conn *h3;

    quiche_config_set_initial_max_streams_uni(config, 3);
    quiche_config_set_initial_max_stream_data_uni(config, 10000);
    pair = connected(config);
    h3 = quiche_h3_conn_new_with_transport(pair.client, h3_config);
    CHECK(h3 != NULL);
    quiche_h3_conn_shrink_to_fit(h3);
    write_stream(pair.server, 1, 5000);
    exchange(&pair);
    quiche_conn_shrink_to_fit(pair.server);
    write_stream(pair.server, 1, 5000);
    exchange(&pair);
    CHECK(quiche_conn_stream_unacknowledged(pair.server, 1) == 0);

    quiche_h3_conn_free(h3);
    quiche_h3_config_free(h3_config);
    free_pair(&pair);
}
