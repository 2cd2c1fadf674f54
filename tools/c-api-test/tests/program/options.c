// Test cases of the options, each called by a test of the same name: what a
// connection does with an option and without.

#include "pair.h"

#define LONG_PACKET 1400

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

// Lets the client send a window, of which packets 3 and 5 do not arrive, so that
// it declares them lost. They remain in |window|.
static void lose(struct environment *env, struct pair *pair, struct flight *window) {
    // After an idle time, CUBIC's recovery period lasts until the next packet.
    write_stream(pair->client, 0, 100);
    send_all(pair->client, pair->server);
    pass(env, 1);
    fill_window(pair->client);
    take_flight(pair->client, window);
    pass(env, RTT_NS);
    for (size_t i = 0; i < window->len; i++) {
        if (i != 3 && i != 5) {
            arrive(window, i, pair->server);
        }
    }
    send_all(pair->server, pair->client);
}

// Returns the bytes of the smallest packet of a window in congestion avoidance.
static size_t smallest_packet(struct environment *env, bool sws_avoidance) {
    static struct flight flight;
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct pair pair;
    size_t smallest = SIZE_MAX;

    quiche_config_set_sws_avoidance(config, sws_avoidance);
    pair = connected(config);
    lose(env, &pair, &flight);
    // The rest of the window is no multiple of a packet.
    write_stream(pair.client, 0, 100);
    take_flight(pair.client, &flight);
    fill_window(pair.client);
    take_flight(pair.client, &flight);
    for (size_t i = 0; i < flight.len; i++) {
        if (flight.packet_lens[i] < smallest) {
            smallest = flight.packet_lens[i];
        }
    }
    free_pair(&pair);

    return smallest;
}

void rest_of_window_waits_for_full_packet(struct environment *env) {
    CHECK(smallest_packet(env, false) < MIN_PACKET_PAYLOAD);
    CHECK(smallest_packet(env, true) >= MIN_PACKET_PAYLOAD);
}

// Returns whether a congestion event is undone while one of its two packets is
// still missing.
static bool is_undone_early(struct environment *env, bool evidence) {
    static struct flight window;
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct pair pair;
    size_t before;
    bool is_early;

    quiche_config_set_initial_congestion_window_packets(config, 30);
    quiche_config_set_spurious_loss_evidence(config, evidence);
    pair = connected(config);
    lose(env, &pair, &window); // CUBIC does not go back to slow start.
    before = path_stats(pair.client).cwnd;
    lose(env, &pair, &window);
    arrive(&window, 3, pair.server);
    send_all(pair.server, pair.client);
    is_early = path_stats(pair.client).cwnd >= before;
    arrive(&window, 5, pair.server);
    send_all(pair.server, pair.client);
    CHECK(path_stats(pair.client).cwnd >= before);
    free_pair(&pair);

    return is_early;
}

void congestion_event_is_undone_on_evidence_only(struct environment *env) {
    CHECK(is_undone_early(env, false));
    CHECK(!is_undone_early(env, true));
}

// Sends a window, which one ACK acknowledges after |rtt_ns|.
static void round_of_one_ack(struct environment *env, struct pair *pair, uint64_t rtt_ns) {
    static struct flight flight;

    fill_window(pair->client);
    take_flight(pair->client, &flight);
    pass(env, rtt_ns);
    for (size_t i = 0; i < flight.len; i++) {
        arrive(&flight, i, pair->server);
    }
    send_all(pair->server, pair->client);
}

// Returns the window after a round whose RTT was longer by half.
static size_t window_after_longer_rtt(struct environment *env, bool samples_per_ack) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    struct pair pair;
    size_t window;

    quiche_config_set_hystart_samples_per_ack(config, samples_per_ack);
    pair = connected(config);
    round_of_one_ack(env, &pair, RTT_NS);
    round_of_one_ack(env, &pair, RTT_NS * 3 / 2);
    window = path_stats(pair.client).cwnd;
    free_pair(&pair);

    return window;
}

// A round has eight samples or does not end slow start: one ACK is too few.
void hystart_counts_one_sample_per_ack(struct environment *env) {
    CHECK(window_after_longer_rtt(env, true) > window_after_longer_rtt(env, false));
}

static quiche_config *config_with_discovery(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);

    quiche_config_set_max_send_udp_payload_size(config, LONG_PACKET);
    quiche_config_discover_pmtu(config, true);
    return config;
}

void path_mtu_is_searched_after_some_bytes(struct environment *env) {
    quiche_config *config = config_with_discovery(env);
    struct pair pair = connected(config);

    CHECK(path_stats(pair.client).pmtu == LONG_PACKET);
    free_pair(&pair);

    config = config_with_discovery(env);
    quiche_config_set_pmtud_start_after(config, 20000);
    pair = connected(config);
    for (size_t sent = 0; sent < 20000; sent = path_stats(pair.client).sent_bytes) {
        CHECK(path_stats(pair.client).pmtu < LONG_PACKET);
        fill_window(pair.client);
        exchange(&pair);
    }
    CHECK(path_stats(pair.client).pmtu == LONG_PACKET);
    free_pair(&pair);
}

// Uploads over a path that marks a packet of each window as CE.
static quiche_ecn_stats stats_of_marks(struct environment *env, bool ecn,
                                       size_t *marked) {
    static struct flight flight;
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_ecn_stats stats;
    struct pair pair;

    quiche_config_set_ecn(config, ecn, false);
    pair = connected(config);
    *marked = 0;
    for (int round = 0; round < 3; round++) {
        fill_window(pair.client);
        take_flight(pair.client, &flight);
        for (size_t i = 0; i < flight.len; i++) {
            // That of the last datagram, and of all of them.
            uint8_t codepoint = quiche_conn_sent_ecn(pair.client);

            *marked += codepoint == 2;
            if (codepoint == 2 && i == 5) {
                codepoint = 3;
            }
            hand_over_marked(pair.server, flight.packets[i], flight.packet_lens[i],
                             &flight.infos[i], codepoint);
        }
        pass(env, RTT_NS);
        send_all(pair.server, pair.client);
    }
    quiche_conn_ecn_stats(pair.client, &stats);
    free_pair(&pair);

    return stats;
}

void datagrams_are_marked_as_an_option(struct environment *env) {
    size_t marked;
    quiche_ecn_stats stats = stats_of_marks(env, false, &marked);

    CHECK(marked == 0);
    CHECK(stats.state == QUICHE_ECN_OFF);

    stats = stats_of_marks(env, true, &marked);
    CHECK(marked > 20);
    CHECK(stats.state == QUICHE_ECN_CAPABLE);
    CHECK(stats.sent >= marked);
    CHECK(stats.reported.ce >= 1 && stats.reported.ce <= 3);
    CHECK(stats.reported.ect1 == 0);
}
