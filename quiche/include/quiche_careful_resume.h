// Careful Resume (RFC 9959): a sender with saved parameters of a path jumps to
// half of the saved capacity, checks that the path takes the jump, and retreats
// if not. It does not need a resumed TLS session.
//
// quiche.h includes this file; including it alone does the same.
//
// An application has four duties, which FORK.md explains:
//
// - Pace: send no packet before its release time, which is quiche_send_info.at;
//   quiche_conn_next_release_as_nanos() tells it before the packet is made.
// - Keep writing: alternate writing to streams and sending packets until
//   neither gets further, since the window opens while an ACK is processed.
// - Claim: give saved parameters to one connection at a time.
// - Merge: save what quiche_path_state_merge() returns, never the observation.
//
// Unless a comment says otherwise:
//
// - A function returns 0, or a negative quiche_error.
// - Pointers must not be NULL, except to a buffer of no bytes, and what they
//   refer to must not overlap.
// - A function copies what it needs of its arguments: they remain the caller's,
//   and nothing that it returns has to be freed.
// - It writes to its |out| parameters only if it succeeds.
// - Sizes are in bytes; the name of a time ends with its unit.

#ifndef QUICHE_CAREFUL_RESUME_H
#define QUICHE_CAREFUL_RESUME_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

// The congestion control parameters saved for one remote endpoint (RFC 9959,
// 3.1).
typedef struct {
    // Capacity that was used: bytes acknowledged within one saved RTT.
    uint64_t saved_cwnd;

    // The minimum RTT when the capacity was observed.
    uint64_t saved_rtt_us;

    // Wall-clock time of the observation, since the Unix epoch.
    uint64_t observed_unix_ms;

    // Wall-clock time from which this is not used (the Lifetime).
    uint64_t expires_unix_ms;

    // The application, flow control or the object's length limited the
    // observation, not the congestion window: the path may carry more.
    bool limited;

    // The path took a jump: that of the connection that observed this, or one
    // with these parameters, which renewed them.
    bool validated;
} quiche_path_state;

// The length of an encoded quiche_path_state.
#define QUICHE_PATH_STATE_ENCODED_LEN 34

// Encodes a path state as PathState::to_bytes() does in Rust, so that both can
// read a store. There is no checksum.
//
// Returns QUICHE_PATH_STATE_ENCODED_LEN, or a negative quiche_error.
//
// QUICHE_ERR_BUFFER_TOO_SHORT: |out_len| is less than that.
ssize_t quiche_path_state_encode(const quiche_path_state *state,
                                 uint8_t *out, size_t out_len);

// Decodes a path state.
//
// QUICHE_ERR_UNKNOWN_VERSION: a newer version wrote it; leave it alone.
//
// QUICHE_ERR_INVALID_PACKET: nobody can use it.
int quiche_path_state_decode(const uint8_t *buf, size_t buf_len,
                             quiche_path_state *out);

// Writes to |out| what to keep after |observed| was seen while |held| was
// stored: an observation that something other than the congestion window
// limited never lowers what is held (RFC 9959, 4.1). |held| is NULL if nothing
// was stored. |out| may be |held| or |observed|.
void quiche_path_state_merge(const quiche_path_state *held,
                             const quiche_path_state *observed,
                             quiche_path_state *out);

// Slow start after a jump, from which it would double exactly onto the saved
// capacity.
enum quiche_careful_resume_after_jump {
    // Beyond saved_cwnd the window grows by a quarter, and slow start ends
    // after a round trip with a queue and no more delivered. The default.
    QUICHE_CAREFUL_RESUME_AFTER_JUMP_SOFT = 0,

    // Slow start ends at saved_cwnd, unless the path may carry more.
    QUICHE_CAREFUL_RESUME_AFTER_JUMP_CEILING = 1,

    // The window doubles, as the controller does.
    QUICHE_CAREFUL_RESUME_AFTER_JUMP_NONE = 2,
};

// The operator's limits (RFC 9959, 5). 0 stands for the default, so that a
// designated initialiser names only what differs.
typedef struct {
    // The largest window to jump to (default: 8 MiB; SIZE_MAX: no limit). With
    // less than two initial windows there is no jump.
    size_t max_jump;

    // Time for which an observation may be used (RFC 9959, 4.3.1; default: one
    // hour).
    uint64_t lifetime_ms;

    // Observations below this number of initial windows are not saved (RFC
    // 9959, 3.1; default: 4).
    size_t min_initial_windows;

    // Slow start after a jump; a number that is none of these is SOFT.
    enum quiche_careful_resume_after_jump after_jump;

    // An experiment outside RFC 9959, 3.2, which has a sender wait until all of
    // its initial data is acknowledged: jump to a quarter of saved_cwnd as soon
    // as the initial window is sent, if the handshake's ACKs tell an RTT above
    // half and below twice the saved one.
    bool early_jump;
} quiche_careful_resume_config;

// Enables Careful Resume, and the pacing it requires, with any congestion
// control algorithm. |resume| may be NULL, for the defaults. Returns 0.
int quiche_config_set_careful_resume(quiche_config *config,
                                     const quiche_careful_resume_config *resume);

// Enables Careful Resume for this connection, and the pacing it requires,
// before it has sent application data: where others make its quiche_config.
// |resume| may be NULL, for the defaults.
//
// QUICHE_ERR_INVALID_STATE: application data was sent.
int quiche_conn_set_careful_resume(quiche_conn *conn,
                                   const quiche_careful_resume_config *resume);

// Configures whether Reno and CUBIC are paced (RFC 9002, 7.7; disabled by
// default). quiche_config_enable_pacing() does not concern them.
void quiche_config_set_reno_cubic_pacing(quiche_config *config, bool v);

// Gives the active path saved parameters to jump with (RFC 9959, 3.2), before
// or during reconnaissance. The jump happens within |jump_within_us| from now
// or not at all: if connections share parameters, pass the time for which the
// claim is still good, otherwise UINT64_MAX.
//
// QUICHE_ERR_INVALID_STATE: Careful Resume is not enabled, is over, or has
// saved parameters already. The connection starts normally.
int quiche_conn_careful_resume_from(quiche_conn *conn,
                                    const quiche_path_state *saved,
                                    uint64_t jump_within_us);

// Gives the active path saved parameters for a dry run: the connection decides
// about a jump as after quiche_conn_careful_resume_from(), and starts slowly all
// the same. If it would have jumped, Careful Resume ends with
// QUICHE_CAREFUL_RESUME_TRIGGER_DRY_RUN.
//
// QUICHE_ERR_INVALID_STATE: Careful Resume is not enabled or is over.
int quiche_conn_careful_resume_dry_run(quiche_conn *conn,
                                       const quiche_path_state *saved,
                                       uint64_t jump_within_us);

// Writes to |out| what was observed of the active path and is worth saving now
// (RFC 9959, 3.1).
//
// Returns false if that is nothing or too little.
bool quiche_conn_path_state(const quiche_conn *conn, quiche_path_state *out);

// What limits a sender: a jump helps only against the congestion window (RFC
// 9959, 4.7), so that saved parameters are better left to others otherwise.
enum quiche_send_limit {
    // The application has no more to send, or waits for a release time.
    QUICHE_SEND_LIMIT_APPLICATION = 0,

    // Flow control of the connection, or of a stream until its peer is told.
    QUICHE_SEND_LIMIT_FLOW_CONTROL = 1,

    // The congestion window is full.
    QUICHE_SEND_LIMIT_CONGESTION_WINDOW = 2,
};

// Returns what limits the sender now.
enum quiche_send_limit quiche_conn_send_limit(const quiche_conn *conn);

// Returns the nanoseconds that the next packet has to wait for its release
// time; 0 if it may leave now. Call quiche_conn_send() while this is 0, and arm
// a timer otherwise.
uint64_t quiche_conn_next_release_as_nanos(const quiche_conn *conn);

// The phases of Careful Resume (RFC 9959, 3.2 to 3.5).
enum quiche_careful_resume_phase {
    // No phase.
    QUICHE_CAREFUL_RESUME_PHASE_NONE = 0,

    // The normal initial window probes the path.
    QUICHE_CAREFUL_RESUME_PHASE_RECONNAISSANCE = 1,

    // The window has jumped; no packet of the jump is acknowledged yet.
    QUICHE_CAREFUL_RESUME_PHASE_UNVALIDATED = 2,

    // The jump is being acknowledged.
    QUICHE_CAREFUL_RESUME_PHASE_VALIDATING = 3,

    // The path did not take the jump. The application deletes the saved
    // parameters (RFC 9959, 3.5).
    QUICHE_CAREFUL_RESUME_PHASE_SAFE_RETREAT = 4,

    // Careful Resume is over, or was never enabled.
    QUICHE_CAREFUL_RESUME_PHASE_NORMAL = 5,
};

// Returns the phase on the active path.
enum quiche_careful_resume_phase
quiche_conn_careful_resume_phase(const quiche_conn *conn);

// Why a phase ended (draft-ietf-tsvwg-careful-resume-qlog-02; those marked
// "ours" are not in it).
enum quiche_careful_resume_trigger {
    // Saved parameters were given: no phase ended.
    QUICHE_CAREFUL_RESUME_TRIGGER_NONE = 0,

    // The initial data is acknowledged, and the window limits the sender.
    QUICHE_CAREFUL_RESUME_TRIGGER_CONGESTION_WINDOW_LIMITED = 1,

    // The RTT differs too much from the saved one.
    QUICHE_CAREFUL_RESUME_TRIGGER_RTT_NOT_VALIDATED = 2,

    // The window of the jump is used up.
    QUICHE_CAREFUL_RESUME_TRIGGER_LAST_UNVALIDATED_PACKET_SENT = 3,

    // A packet sent in the unvalidated phase was acknowledged.
    QUICHE_CAREFUL_RESUME_TRIGGER_FIRST_UNVALIDATED_PACKET_ACKNOWLEDGED = 4,

    // The unvalidated phase lasted longer than one RTT.
    QUICHE_CAREFUL_RESUME_TRIGGER_RTT_EXCEEDED = 5,

    // The application used less of the jump than the path had carried before.
    QUICHE_CAREFUL_RESUME_TRIGGER_RATE_LIMITED = 6,

    // Everything sent in the unvalidated phase was acknowledged.
    QUICHE_CAREFUL_RESUME_TRIGGER_LAST_UNVALIDATED_PACKET_ACKNOWLEDGED = 7,

    // The local stack reported another path.
    QUICHE_CAREFUL_RESUME_TRIGGER_PATH_CHANGED = 8,

    // A packet was lost.
    QUICHE_CAREFUL_RESUME_TRIGGER_PACKET_LOSS = 9,

    // The network marked a packet.
    QUICHE_CAREFUL_RESUME_TRIGGER_ECN_CE = 10,

    // The last packet of the unvalidated phase, or a later one, was
    // acknowledged.
    QUICHE_CAREFUL_RESUME_TRIGGER_EXIT_RECOVERY = 11,

    // No saved parameters were given before the initial data was acknowledged,
    // and the window limited the sender again (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_NO_SAVED_SET = 12,

    // The Lifetime of the saved parameters passed (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_LIFETIME_PASSED = 13,

    // The claim on the saved parameters ran out before the jump (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_CLAIM_LAPSED = 14,

    // The window had already grown to the jump (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_JUMP_NOT_LARGER = 15,

    // Persistent congestion (RFC 9002, 7.6; ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_PERSISTENT_CONGESTION = 16,

    // HyStart++ or SEARCH found a queue, or slow start was over, before the
    // jump (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_SLOW_START_EXIT = 17,

    // The application does not pace: packets left long before their release
    // times. In safe retreat and in normal the phase stays the same (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_NOT_PACED = 18,

    // The connection would have jumped, but had its saved parameters for a dry
    // run (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_DRY_RUN = 19,

    // The handshake is acknowledged and the initial window sent, with
    // |early_jump| (ours).
    QUICHE_CAREFUL_RESUME_TRIGGER_HANDSHAKE_ACKNOWLEDGED = 20,
};

// In place of the number of a packet that was not sent.
#define QUICHE_CAREFUL_RESUME_NO_PACKET UINT64_MAX

// A change of phase, with the state after it.
typedef struct {
    // Time since the change.
    uint64_t age_us;

    // The phase before; QUICHE_CAREFUL_RESUME_PHASE_NONE if saved parameters
    // were given.
    enum quiche_careful_resume_phase old_phase;

    // The phase after.
    enum quiche_careful_resume_phase new_phase;

    // The trigger; QUICHE_CAREFUL_RESUME_TRIGGER_NONE if saved parameters were
    // given.
    enum quiche_careful_resume_trigger trigger;

    // Pipe size: bytes the path is known to have carried in one RTT.
    size_t pipe_size;

    // Congestion window.
    size_t congestion_window;

    // Slow-start threshold; SIZE_MAX before it is known.
    size_t ssthresh;

    // The numbers of the first and the last packet sent in the unvalidated
    // phase, or QUICHE_CAREFUL_RESUME_NO_PACKET.
    uint64_t first_unvalidated_packet;
    uint64_t last_unvalidated_packet;

    // Whether the connection was given saved parameters, and which; all of it
    // is 0 otherwise.
    bool has_restored;
    quiche_path_state restored;
} quiche_careful_resume_event;

// Writes to |out| the next change of phase that this has not returned before.
//
// Returns false if there is none.
bool quiche_conn_careful_resume_event_next(quiche_conn *conn,
                                           quiche_careful_resume_event *out);

#if defined(__cplusplus)
}  // extern C
#endif

#endif // QUICHE_CAREFUL_RESUME_H
