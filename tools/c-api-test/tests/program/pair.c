#include "pair.h"

void hand_over_marked(quiche_conn *to, uint8_t *bytes, size_t len,
                      const quiche_send_info *sent, uint8_t ecn) {
    struct sockaddr_storage from = sent->from;
    struct sockaddr_storage at = sent->to;
    quiche_recv_info info = {(struct sockaddr *)&from, sent->from_len,
                             (struct sockaddr *)&at, sent->to_len};

    CHECK(quiche_conn_recv_ecn(to, bytes, len, &info, ecn) == (ssize_t)len);
}

void hand_over(quiche_conn *to, uint8_t *bytes, size_t len,
               const quiche_send_info *sent) {
    hand_over_marked(to, bytes, len, sent, 0);
}

size_t send_all(quiche_conn *from, quiche_conn *to) {
    uint8_t bytes[1500];
    quiche_send_info info;
    size_t packets = 0;
    ssize_t len;

    while ((len = quiche_conn_send(from, bytes, sizeof(bytes), &info)) > 0) {
        hand_over_marked(to, bytes, (size_t)len, &info, quiche_conn_sent_ecn(from));
        packets++;
    }

    CHECK(len == QUICHE_ERR_DONE);
    return packets;
}

void exchange(struct pair *pair) {
    while (send_all(pair->client, pair->server) + send_all(pair->server, pair->client) >
           0) {
    }
}

struct pair connected(quiche_config *config) {
    struct pair pair = {config, new_client(config), new_server(config)};

    exchange(&pair);
    CHECK(quiche_conn_is_established(pair.client));
    CHECK(quiche_conn_is_established(pair.server));

    return pair;
}

void free_pair(struct pair *pair) {
    quiche_conn_free(pair->client);
    quiche_conn_free(pair->server);
    quiche_config_free(pair->config);
}

void write_stream(quiche_conn *conn, uint64_t stream_id, size_t len) {
    static const uint8_t zeros[16384];
    uint64_t error_code;

    CHECK(quiche_conn_stream_send(conn, stream_id, zeros, len, false, &error_code) ==
          (ssize_t)len);
}

void fill_window(quiche_conn *conn) {
    static const uint8_t zeros[65536];
    uint64_t error_code;

    CHECK(quiche_conn_stream_send(conn, 0, zeros, sizeof(zeros), false, &error_code) > 0);
}

void take_flight(quiche_conn *from, struct flight *flight) {
    ssize_t len;

    flight->len = 0;
    while ((len = quiche_conn_send(from, flight->packets[flight->len],
                                   sizeof(flight->packets[0]),
                                   &flight->infos[flight->len])) > 0) {
        flight->packet_lens[flight->len++] = (size_t)len;
        CHECK(flight->len < FLIGHT_PACKETS_MAX);
    }

    CHECK(len == QUICHE_ERR_DONE);
}

void arrive(struct flight *flight, size_t i, quiche_conn *to) {
    CHECK(i < flight->len);
    hand_over(to, flight->packets[i], flight->packet_lens[i], &flight->infos[i]);
}

quiche_path_stats path_stats(const quiche_conn *conn) {
    quiche_path_stats stats;

    CHECK(quiche_conn_path_stats(conn, 0, &stats) == 0);
    return stats;
}

void pass(struct environment *env, uint64_t ns) {
    env->elapsed_ns += ns;
    env->advance_to_ns(env->clock, env->elapsed_ns);
}
