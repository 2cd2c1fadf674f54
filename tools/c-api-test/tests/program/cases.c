// Test cases, each called by a test of the same name.

#include "testbed.h"

#include <string.h>

static const enum quiche_cc_algorithm CONTROLLERS[] = {QUICHE_CC_RENO,
                                                       QUICHE_CC_CUBIC};

#define CONTROLLERS_LEN (sizeof(CONTROLLERS) / sizeof(CONTROLLERS[0]))

static quiche_config *resume_config(const struct environment *env,
                                    enum quiche_cc_algorithm cc,
                                    const quiche_careful_resume_config *resume) {
    quiche_config *config = new_config(env, cc);
    CHECK(quiche_config_set_careful_resume(config, resume) == 0);
    return config;
}

static struct download download_of(size_t object_bytes,
                                   const quiche_path_state *saved) {
    struct download download;

    memset(&download, 0, sizeof(download));
    download.object_bytes = object_bytes;
    download.saved = saved;
    download.jump_within_us = UINT64_MAX;

    return download;
}

static quiche_path_state observe(struct environment *env, quiche_config *config) {
    struct download first = download_of(12 * BDP, NULL);

    run_download(&first, env, config);
    CHECK(first.has_observed);

    return first.observed;
}

// Returns the state after encoding and decoding, as from a file.
static quiche_path_state stored(const quiche_path_state *state) {
    uint8_t record[QUICHE_PATH_STATE_ENCODED_LEN];
    quiche_path_state read;

    CHECK(quiche_path_state_encode(state, record, sizeof(record)) ==
          QUICHE_PATH_STATE_ENCODED_LEN);
    CHECK(quiche_path_state_decode(record, sizeof(record), &read) == 0);

    return read;
}

static bool same(const quiche_path_state *a, const quiche_path_state *b) {
    return a->saved_cwnd == b->saved_cwnd && a->saved_rtt_us == b->saved_rtt_us &&
           a->observed_unix_ms == b->observed_unix_ms &&
           a->expires_unix_ms == b->expires_unix_ms && a->limited == b->limited &&
           a->validated == b->validated;
}

static void check_event(const struct download *d, size_t i,
                        enum quiche_careful_resume_phase new_phase,
                        enum quiche_careful_resume_trigger trigger) {
    CHECK(i < d->events_len);
    CHECK(d->events[i].new_phase == new_phase);
    CHECK(d->events[i].trigger == trigger);
    CHECK(d->events[i].old_phase ==
          (i == 0 ? QUICHE_CAREFUL_RESUME_PHASE_NONE : d->events[i - 1].new_phase));
    CHECK(d->events[i].has_restored && same(&d->events[i].restored, d->saved));
}

static void check_clean_jump(const struct download *d) {
    const quiche_careful_resume_event *events = d->events;

    CHECK(d->events_len == 4);
    check_event(d, 0, QUICHE_CAREFUL_RESUME_PHASE_RECONNAISSANCE,
                QUICHE_CAREFUL_RESUME_TRIGGER_NONE);
    CHECK(events[0].first_unvalidated_packet == QUICHE_CAREFUL_RESUME_NO_PACKET);
    CHECK(events[0].last_unvalidated_packet == QUICHE_CAREFUL_RESUME_NO_PACKET);
    CHECK(events[0].ssthresh == SIZE_MAX);

    check_event(d, 1, QUICHE_CAREFUL_RESUME_PHASE_UNVALIDATED,
                QUICHE_CAREFUL_RESUME_TRIGGER_CONGESTION_WINDOW_LIMITED);
    CHECK(events[1].congestion_window == d->saved->saved_cwnd / 2);

    check_event(d, 2, QUICHE_CAREFUL_RESUME_PHASE_VALIDATING, events[2].trigger);
    CHECK(events[2].trigger == QUICHE_CAREFUL_RESUME_TRIGGER_LAST_UNVALIDATED_PACKET_SENT ||
          events[2].trigger == QUICHE_CAREFUL_RESUME_TRIGGER_RTT_EXCEEDED ||
          events[2].trigger ==
              QUICHE_CAREFUL_RESUME_TRIGGER_FIRST_UNVALIDATED_PACKET_ACKNOWLEDGED);

    check_event(d, 3, QUICHE_CAREFUL_RESUME_PHASE_NORMAL,
                QUICHE_CAREFUL_RESUME_TRIGGER_LAST_UNVALIDATED_PACKET_ACKNOWLEDGED);
    CHECK(events[3].first_unvalidated_packet < events[3].last_unvalidated_packet);
    CHECK(events[3].last_unvalidated_packet != QUICHE_CAREFUL_RESUME_NO_PACKET);
    CHECK(events[3].pipe_size >= events[1].congestion_window / 2);
}

void stored_path_state_resumes_next_connection(struct environment *env) {
    for (size_t i = 0; i < CONTROLLERS_LEN; i++) {
        quiche_config *config = resume_config(env, CONTROLLERS[i], NULL);
        quiche_path_state observed = observe(env, config);
        quiche_path_state saved = stored(&observed);
        struct download slow_start = download_of(BDP, NULL);
        struct download resumed = download_of(BDP, &saved);

        CHECK(same(&observed, &saved));
        CHECK(saved.saved_cwnd > BDP * 85 / 100 && saved.saved_cwnd < BDP * 105 / 100);
        CHECK(saved.saved_rtt_us >= RTT_NS / 1000);
        CHECK(saved.expires_unix_ms - saved.observed_unix_ms == 3600 * 1000);

        run_download(&slow_start, env, config);
        run_download(&resumed, env, config);

        check_clean_jump(&resumed);
        CHECK(resumed.duration_ns + RTT_NS * 9 / 10 < slow_start.duration_ns);
        CHECK(resumed.has_observed && resumed.observed.validated);

        quiche_config_free(config);
    }
}

// RFC 9959, 3.3: the jump is spread over one RTT, two packets at a time.
void jump_is_paced_by_release_times(struct environment *env) {
    quiche_config *config = resume_config(env, QUICHE_CC_CUBIC, NULL);
    quiche_path_state saved = observe(env, config);
    struct download resumed = download_of(2 * BDP, &saved);

    run_download(&resumed, env, config);

    CHECK(resumed.release_waits > 0);
    CHECK(resumed.unvalidated_span_ns > RTT_NS / 2);
    CHECK(resumed.unvalidated_span_ns <= RTT_NS * 5 / 4);
    CHECK(resumed.unvalidated_batch_packets_max > 0);
    CHECK(resumed.unvalidated_batch_packets_max <= 2);

    quiche_config_free(config);
}

// An application that did not make the config enables it for a connection.
void connection_is_enabled_alone(struct environment *env) {
    const quiche_careful_resume_config limits = {.max_jump = 50000};
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_conn *conn = new_server(config);
    quiche_path_state saved = {BDP, RTT_NS / 1000, 0, UINT64_MAX, false, false};

    CHECK(quiche_conn_send_limit(conn) == QUICHE_SEND_LIMIT_APPLICATION);
    CHECK(quiche_conn_set_careful_resume(conn, &limits) == 0);
    CHECK(quiche_conn_careful_resume_phase(conn) ==
          QUICHE_CAREFUL_RESUME_PHASE_RECONNAISSANCE);
    CHECK(quiche_conn_careful_resume_dry_run(conn, &saved, UINT64_MAX) == 0);
    CHECK(quiche_conn_careful_resume_from(conn, &saved, UINT64_MAX) == 0);
    quiche_conn_free(conn);
    quiche_config_free(config);

    config = new_config(env, QUICHE_CC_BBR2_GCONGESTION);
    CHECK(quiche_config_set_careful_resume(config, NULL) == 0);
    conn = new_server(config);
    CHECK(quiche_conn_set_careful_resume(conn, NULL) == 0);
    CHECK(quiche_conn_careful_resume_phase(conn) ==
          QUICHE_CAREFUL_RESUME_PHASE_RECONNAISSANCE);
    quiche_conn_free(conn);
    quiche_config_free(config);
}

void narrower_path_leads_to_safe_retreat(struct environment *env) {
    quiche_config *config = resume_config(env, QUICHE_CC_RENO, NULL);
    quiche_path_state saved = observe(env, config);
    struct download resumed = download_of(10 * BDP, &saved);
    size_t i = 1;

    saved.saved_cwnd = 10 * BDP;
    run_download(&resumed, env, config);

    while (i < resumed.events_len &&
           resumed.events[i].new_phase != QUICHE_CAREFUL_RESUME_PHASE_SAFE_RETREAT) {
        i++;
    }

    check_event(&resumed, i, QUICHE_CAREFUL_RESUME_PHASE_SAFE_RETREAT,
                QUICHE_CAREFUL_RESUME_TRIGGER_PACKET_LOSS);
    check_event(&resumed, i + 1, QUICHE_CAREFUL_RESUME_PHASE_NORMAL,
                QUICHE_CAREFUL_RESUME_TRIGGER_EXIT_RECOVERY);
    CHECK(resumed.events[i + 1].ssthresh == resumed.events[i + 1].pipe_size / 2);

    quiche_config_free(config);
}

static void check_no_jump(struct environment *env, quiche_config *config,
                          const quiche_path_state *saved,
                          uint64_t jump_within_us,
                          enum quiche_careful_resume_trigger trigger) {
    struct download refused = download_of(2 * BDP, saved);

    refused.jump_within_us = jump_within_us;
    run_download(&refused, env, config);

    CHECK(refused.events_len == 2);
    check_event(&refused, 1, QUICHE_CAREFUL_RESUME_PHASE_NORMAL, trigger);
}

void expired_claim_or_lifetime_prevents_jump(struct environment *env) {
    quiche_config *config = resume_config(env, QUICHE_CC_CUBIC, NULL);
    quiche_path_state saved = observe(env, config);

    check_no_jump(env, config, &saved, 0, QUICHE_CAREFUL_RESUME_TRIGGER_CLAIM_LAPSED);
    check_no_jump(env, config, &saved, RTT_NS / 2 / 1000,
                  QUICHE_CAREFUL_RESUME_TRIGGER_CLAIM_LAPSED);

    saved.expires_unix_ms = saved.observed_unix_ms;
    check_no_jump(env, config, &saved, UINT64_MAX,
                  QUICHE_CAREFUL_RESUME_TRIGGER_LIFETIME_PASSED);

    quiche_config_free(config);
}

void configured_limits_are_enforced(struct environment *env) {
    const quiche_careful_resume_config limits = {.max_jump = 50000, .lifetime_ms = 5000};
    const quiche_careful_resume_config demanding = {.min_initial_windows = 1000};
    quiche_config *config = resume_config(env, QUICHE_CC_CUBIC, &limits);
    quiche_path_state saved = observe(env, config);
    struct download resumed = download_of(2 * BDP, &saved);
    struct download too_small = download_of(12 * BDP, NULL);

    CHECK(saved.expires_unix_ms - saved.observed_unix_ms == 5000);
    CHECK(saved.saved_cwnd <= 100000);
    saved.saved_cwnd = BDP;
    run_download(&resumed, env, config);
    check_event(&resumed, 1, QUICHE_CAREFUL_RESUME_PHASE_UNVALIDATED,
                QUICHE_CAREFUL_RESUME_TRIGGER_CONGESTION_WINDOW_LIMITED);
    CHECK(resumed.events[1].congestion_window == 50000);
    quiche_config_free(config);

    config = resume_config(env, QUICHE_CC_CUBIC, &demanding);
    run_download(&too_small, env, config);
    CHECK(!too_small.has_observed);
    quiche_config_free(config);
}

void disabled_careful_resume_has_no_effect(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    quiche_conn *conn = new_server(config);
    quiche_path_state state = {BDP, RTT_NS / 1000, 0, UINT64_MAX, false, false};
    quiche_careful_resume_event event;
    struct download plain = download_of(2 * BDP, NULL);

    CHECK(quiche_conn_careful_resume_from(conn, &state, UINT64_MAX) ==
          QUICHE_ERR_INVALID_STATE);
    CHECK(quiche_conn_careful_resume_dry_run(conn, &state, UINT64_MAX) ==
          QUICHE_ERR_INVALID_STATE);
    CHECK(quiche_conn_careful_resume_phase(conn) == QUICHE_CAREFUL_RESUME_PHASE_NORMAL);
    CHECK(!quiche_conn_careful_resume_event_next(conn, &event));
    CHECK(!quiche_conn_path_state(conn, &state));
    quiche_conn_free(conn);

    run_download(&plain, env, config);
    CHECK(plain.events_len == 0 && !plain.has_observed);
    CHECK(plain.release_waits == 0);
    quiche_config_free(config);
}

void pacing_is_independent_of_careful_resume(struct environment *env) {
    quiche_config *config = new_config(env, QUICHE_CC_RENO);
    struct download paced = download_of(2 * BDP, NULL);

    quiche_config_set_reno_cubic_pacing(config, true);
    run_download(&paced, env, config);
    CHECK(paced.release_waits > 0);
    CHECK(paced.events_len == 0);

    quiche_config_free(config);
}

void slow_start_exit_is_selectable(struct environment *env) {
    const quiche_search_config longer = {.window_rtts = 5.0};
    const quiche_search_config all = {.threshold = 1.0};
    const enum quiche_slow_start_exit exits[] = {
        QUICHE_SLOW_START_EXIT_NONE,   QUICHE_SLOW_START_EXIT_HYSTART,
        QUICHE_SLOW_START_EXIT_SEARCH, QUICHE_SLOW_START_EXIT_SEARCH_3,
        QUICHE_SLOW_START_EXIT_QUEUE,  QUICHE_SLOW_START_EXIT_RAPID};
    quiche_config *config = new_config(env, QUICHE_CC_CUBIC);
    size_t i;

    for (i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
        struct download download = download_of(2 * BDP, NULL);

        CHECK(quiche_config_set_slow_start_exit(config, exits[i], NULL) == 0);
        CHECK(quiche_config_set_slow_start_exit(config, exits[i], &longer) == 0);
        run_download(&download, env, config);
        // The last two pace.
        CHECK((download.release_waits > 0) == (exits[i] >= QUICHE_SLOW_START_EXIT_QUEUE));
    }
    CHECK(quiche_config_set_slow_start_exit(config, QUICHE_SLOW_START_EXIT_SEARCH,
                                            &all) == QUICHE_ERR_CONGESTION_CONTROL);

    quiche_config_free(config);
}

void invalid_record_is_refused(struct environment *env) {
    const quiche_path_state state = {UINT64_C(0x0102030405060708), 50500, 1, 2, true,
                                     false};
    const quiche_path_state untouched = {1, 2, 3, 4, true, true};
    uint8_t record[QUICHE_PATH_STATE_ENCODED_LEN];
    quiche_path_state out = untouched;

    (void)env;
    CHECK(quiche_path_state_encode(&state, record, sizeof(record) - 1) ==
          QUICHE_ERR_BUFFER_TOO_SHORT);
    CHECK(quiche_path_state_encode(&state, NULL, 0) == QUICHE_ERR_BUFFER_TOO_SHORT);

    CHECK(quiche_path_state_encode(&state, record, sizeof(record)) ==
          QUICHE_PATH_STATE_ENCODED_LEN);
    CHECK(record[0] == 1 && record[1] == 1 && record[2] == 1 && record[9] == 8);

    CHECK(quiche_path_state_decode(NULL, 0, &out) == QUICHE_ERR_INVALID_PACKET);
    CHECK(quiche_path_state_decode(record, sizeof(record) - 1, &out) ==
          QUICHE_ERR_INVALID_PACKET);
    record[0] = 2;
    CHECK(quiche_path_state_decode(record, sizeof(record), &out) ==
          QUICHE_ERR_UNKNOWN_VERSION);
    CHECK(same(&out, &untouched));

    record[0] = 1;
    CHECK(quiche_path_state_decode(record, sizeof(record), &out) == 0);
    CHECK(same(&out, &state));
}

// RFC 9959, 4.1: an application-limited sample never lowers a saved capacity.
void limited_observation_keeps_saved_capacity(struct environment *env) {
    const quiche_path_state held = {BDP, 100000, 1000, UINT64_C(1) << 50, false,
                                    false};
    quiche_path_state observed = held;
    quiche_path_state out;

    (void)env;
    observed.saved_cwnd = BDP / 2;
    observed.limited = true;
    quiche_path_state_merge(&held, &observed, &out);
    CHECK(same(&out, &held));

    quiche_path_state_merge(NULL, &observed, &out);
    CHECK(same(&out, &observed));

    observed.limited = false;
    out = held;
    quiche_path_state_merge(&out, &observed, &out);
    CHECK(same(&out, &observed));
    out = observed;
    quiche_path_state_merge(&held, &out, &out);
    CHECK(same(&out, &observed));
}
