//! C interface of Careful Resume and path states, as
//! `include/quiche_careful_resume.h` declares it.
//!
//! Each function calls the Rust one of the same name. C has no [`Instant`]:
//! times are relative to the call, or milliseconds since the Unix epoch.
//!
//! [`Instant`]: std::time::Instant

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use libc::c_int;
use libc::size_t;
use libc::ssize_t;

use crate::careful_resume::AfterJump;
use crate::careful_resume::CarefulResumeConfig;
use crate::careful_resume::CarefulResumeEvent;
use crate::careful_resume::Phase;
use crate::careful_resume::SendLimit;
use crate::careful_resume::Trigger;
use crate::clock;
use crate::ffi::convert::buffer;
use crate::ffi::convert::bytes;
use crate::ffi::convert::status;
use crate::path_state::DecodeError;
use crate::path_state::PathState;
use crate::Config;
use crate::Connection;
use crate::Error;

/// The longest claim in C: none ends later than the Lifetime.
const LONGEST_CLAIM: Duration = Duration::from_secs(365 * 24 * 3600);

/// Packet numbers are below 2^62 (RFC 9000, 12.3).
const NO_PACKET: u64 = u64::MAX;

/// `quiche_path_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CPathState {
    saved_cwnd: u64,
    saved_rtt_us: u64,
    observed_unix_ms: u64,
    expires_unix_ms: u64,
    limited: bool,
    validated: bool,
}

impl From<PathState> for CPathState {
    fn from(state: PathState) -> Self {
        CPathState {
            saved_cwnd: state.saved_cwnd,
            saved_rtt_us: saturating_u64(state.saved_rtt.as_micros()),
            observed_unix_ms: to_unix_ms(state.observed),
            expires_unix_ms: to_unix_ms(state.expires),
            limited: state.limited,
            validated: state.validated,
        }
    }
}

impl From<&CPathState> for PathState {
    fn from(state: &CPathState) -> Self {
        PathState {
            saved_cwnd: state.saved_cwnd,
            saved_rtt: Duration::from_micros(state.saved_rtt_us),
            observed: from_unix_ms(state.observed_unix_ms),
            expires: from_unix_ms(state.expires_unix_ms),
            limited: state.limited,
            validated: state.validated,
        }
    }
}

/// `quiche_careful_resume_config`.
#[repr(C)]
pub struct CCarefulResumeConfig {
    max_jump: size_t,
    lifetime_ms: u64,
    min_initial_windows: size_t,
    after_jump: u32,
    early_jump: bool,
}

impl From<&CCarefulResumeConfig> for CarefulResumeConfig {
    fn from(config: &CCarefulResumeConfig) -> Self {
        let default = CarefulResumeConfig::default();
        let or_default = |v, default| if v == 0 { default } else { v };
        let lifetime = match config.lifetime_ms {
            0 => default.lifetime,
            ms => Duration::from_millis(ms),
        };

        CarefulResumeConfig {
            max_jump: or_default(config.max_jump, default.max_jump),
            lifetime,
            min_initial_windows: or_default(
                config.min_initial_windows,
                default.min_initial_windows,
            ),
            after_jump: after_jump_from_c(config.after_jump),
            early_jump: config.early_jump,
        }
    }
}

/// `enum quiche_careful_resume_after_jump`; another number is the default.
fn after_jump_from_c(after_jump: u32) -> AfterJump {
    match after_jump {
        1 => AfterJump::Ceiling,
        2 => AfterJump::None,
        _ => AfterJump::Soft,
    }
}

/// `quiche_careful_resume_event`.
#[repr(C)]
pub struct CCarefulResumeEvent {
    age_us: u64,
    old_phase: u32,
    new_phase: u32,
    trigger: u32,
    pipe_size: size_t,
    congestion_window: size_t,
    ssthresh: size_t,
    first_unvalidated_packet: u64,
    last_unvalidated_packet: u64,
    has_restored: bool,
    restored: CPathState,
}

impl From<CarefulResumeEvent> for CCarefulResumeEvent {
    fn from(event: CarefulResumeEvent) -> Self {
        let age = clock::now().saturating_duration_since(event.time);

        CCarefulResumeEvent {
            age_us: saturating_u64(age.as_micros()),
            old_phase: event.old.map_or(0, phase_to_c),
            new_phase: phase_to_c(event.new),
            trigger: event.trigger.map_or(0, trigger_to_c),
            pipe_size: event.pipe_size,
            congestion_window: event.congestion_window,
            ssthresh: event.ssthresh,
            first_unvalidated_packet: event
                .first_unvalidated_packet
                .unwrap_or(NO_PACKET),
            last_unvalidated_packet: event
                .last_unvalidated_packet
                .unwrap_or(NO_PACKET),
            has_restored: event.restored.is_some(),
            restored: event.restored.map(Into::into).unwrap_or_default(),
        }
    }
}

#[no_mangle]
pub extern "C" fn quiche_config_set_careful_resume(
    config: &mut Config, resume: Option<&CCarefulResumeConfig>,
) -> c_int {
    let resume = resume.map(Into::into).unwrap_or_default();

    status(config.set_careful_resume(resume))
}

#[no_mangle]
pub extern "C" fn quiche_config_set_reno_cubic_pacing(
    config: &mut Config, v: bool,
) {
    config.set_reno_cubic_pacing(v);
}

#[no_mangle]
pub extern "C" fn quiche_conn_set_careful_resume(
    conn: &mut Connection, resume: Option<&CCarefulResumeConfig>,
) -> c_int {
    let resume = resume.map(Into::into).unwrap_or_default();

    status(conn.set_careful_resume(resume))
}

#[no_mangle]
pub extern "C" fn quiche_conn_careful_resume_from(
    conn: &mut Connection, saved: &CPathState, jump_within_us: u64,
) -> c_int {
    let jump_within = Duration::from_micros(jump_within_us).min(LONGEST_CLAIM);

    status(conn.careful_resume_from(saved.into(), clock::now() + jump_within))
}

#[no_mangle]
pub extern "C" fn quiche_conn_careful_resume_dry_run(
    conn: &mut Connection, saved: &CPathState, jump_within_us: u64,
) -> c_int {
    let jump_within = Duration::from_micros(jump_within_us).min(LONGEST_CLAIM);
    let jump_before = clock::now() + jump_within;

    status(conn.careful_resume_dry_run(saved.into(), jump_before))
}

#[no_mangle]
pub extern "C" fn quiche_conn_path_state(
    conn: &Connection, out: &mut CPathState,
) -> bool {
    match conn.path_state() {
        Some(state) => {
            *out = state.into();
            true
        },

        None => false,
    }
}

#[no_mangle]
pub extern "C" fn quiche_conn_careful_resume_phase(conn: &Connection) -> u32 {
    phase_to_c(conn.careful_resume_phase())
}

#[no_mangle]
pub extern "C" fn quiche_conn_careful_resume_event_next(
    conn: &mut Connection, out: &mut CCarefulResumeEvent,
) -> bool {
    match conn.careful_resume_event_next() {
        Some(event) => {
            *out = event.into();
            true
        },

        None => false,
    }
}

#[no_mangle]
pub extern "C" fn quiche_conn_send_limit(conn: &Connection) -> u32 {
    match conn.send_limit() {
        SendLimit::Application => 0,
        SendLimit::FlowControl => 1,
        SendLimit::CongestionWindow => 2,
    }
}

#[no_mangle]
pub extern "C" fn quiche_conn_next_release_as_nanos(conn: &Connection) -> u64 {
    let now = clock::now();

    conn.get_next_release_time()
        .and_then(|release| release.time(now))
        .map_or(0, |at| saturating_u64((at - now).as_nanos()))
}

#[no_mangle]
pub extern "C" fn quiche_path_state_encode(
    state: &CPathState, out: *mut u8, out_len: size_t,
) -> ssize_t {
    if out_len < PathState::ENCODED_LEN {
        return Error::BufferTooShort.to_c();
    }

    buffer(out, PathState::ENCODED_LEN)
        .copy_from_slice(&PathState::from(state).to_bytes());

    PathState::ENCODED_LEN as ssize_t
}

#[no_mangle]
pub extern "C" fn quiche_path_state_decode(
    buf: *const u8, buf_len: size_t, out: &mut CPathState,
) -> c_int {
    match PathState::from_bytes(bytes(buf, buf_len)) {
        Ok(state) => {
            *out = state.into();
            0
        },

        Err(DecodeError::UnknownVersion(_)) => {
            Error::UnknownVersion.to_c() as c_int
        },

        Err(DecodeError::Malformed) => Error::InvalidPacket.to_c() as c_int,
    }
}

// Pointers, since a Rust reference to `out` must not be to one of the others.
#[no_mangle]
pub extern "C" fn quiche_path_state_merge(
    held: *const CPathState, observed: *const CPathState, out: *mut CPathState,
) {
    // SAFETY: the caller's pointers are valid, only `held` may be NULL; both
    // are copied before `out` is written.
    let (held, observed) = unsafe { (held.as_ref().copied(), *observed) };
    let held = held.as_ref().map(Into::into);
    let merged = PathState::merged(held, (&observed).into(), clock::wall_now());

    // SAFETY: as above.
    unsafe { out.write(merged.into()) };
}

/// 0 is QUICHE_CAREFUL_RESUME_PHASE_NONE.
fn phase_to_c(phase: Phase) -> u32 {
    match phase {
        Phase::Reconnaissance => 1,
        Phase::Unvalidated => 2,
        Phase::Validating => 3,
        Phase::SafeRetreat => 4,
        Phase::Normal => 5,
    }
}

/// 0 is QUICHE_CAREFUL_RESUME_TRIGGER_NONE. A number never changes its meaning:
/// a new trigger gets the next one.
fn trigger_to_c(trigger: Trigger) -> u32 {
    match trigger {
        Trigger::CongestionWindowLimited => 1,
        Trigger::RttNotValidated => 2,
        Trigger::LastUnvalidatedPacketSent => 3,
        Trigger::FirstUnvalidatedPacketAcknowledged => 4,
        Trigger::RttExceeded => 5,
        Trigger::RateLimited => 6,
        Trigger::LastUnvalidatedPacketAcknowledged => 7,
        Trigger::PathChanged => 8,
        Trigger::PacketLoss => 9,
        Trigger::EcnCe => 10,
        Trigger::ExitRecovery => 11,
        Trigger::NoSavedSet => 12,
        Trigger::LifetimePassed => 13,
        Trigger::ClaimLapsed => 14,
        Trigger::JumpNotLarger => 15,
        Trigger::PersistentCongestion => 16,
        Trigger::SlowStartExit => 17,
        Trigger::NotPaced => 18,
        Trigger::DryRun => 19,
        Trigger::HandshakeAcknowledged => 20,
    }
}

fn saturating_u64(v: u128) -> u64 {
    u64::try_from(v).unwrap_or(u64::MAX)
}

fn to_unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    saturating_u64(since.as_millis())
}

/// Returns the epoch for a time that the platform cannot express: a path state
/// that was observed or expires then is not used.
fn from_unix_ms(ms: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../include/quiche_careful_resume.h");

    /// Returns `(name, value)` of the header's enumerators with this prefix.
    fn enumerators(prefix: &str) -> Vec<(&'static str, u32)> {
        HEADER
            .lines()
            .filter_map(|line| line.trim().strip_prefix(prefix))
            .filter_map(|rest| rest.trim_end_matches(',').split_once(" = "))
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_header_numbers_phases_as_the_code_does() {
        use Phase::*;

        let phases =
            [Reconnaissance, Unvalidated, Validating, SafeRetreat, Normal];
        let declared = enumerators("QUICHE_CAREFUL_RESUME_PHASE_");
        assert_eq!(declared[0], ("NONE", 0));
        assert_eq!(declared.len(), 1 + phases.len());

        for phase in phases {
            let name = phase.name().to_uppercase();
            assert!(declared.contains(&(&name, phase_to_c(phase))), "{name}");
        }
    }

    #[test]
    fn the_header_numbers_triggers_as_the_code_does() {
        use Trigger::*;

        let triggers = [
            CongestionWindowLimited,
            RttNotValidated,
            LastUnvalidatedPacketSent,
            FirstUnvalidatedPacketAcknowledged,
            RttExceeded,
            RateLimited,
            LastUnvalidatedPacketAcknowledged,
            PathChanged,
            PacketLoss,
            EcnCe,
            ExitRecovery,
            NoSavedSet,
            LifetimePassed,
            ClaimLapsed,
            JumpNotLarger,
            PersistentCongestion,
            SlowStartExit,
            NotPaced,
            DryRun,
            HandshakeAcknowledged,
        ];
        let declared = enumerators("QUICHE_CAREFUL_RESUME_TRIGGER_");
        assert_eq!(declared[0], ("NONE", 0));
        assert_eq!(declared.len(), 1 + triggers.len());

        for trigger in triggers {
            let name = trigger.name().to_uppercase();
            let value = trigger_to_c(trigger);
            assert!(declared.contains(&(&name, value)), "{name}");
        }
    }

    #[test]
    fn zero_is_the_default_of_each_setting() {
        let zeros = CCarefulResumeConfig {
            max_jump: 0,
            lifetime_ms: 0,
            min_initial_windows: 0,
            after_jump: 0,
            early_jump: false,
        };
        assert_eq!(
            CarefulResumeConfig::from(&zeros),
            CarefulResumeConfig::default()
        );

        let set = CCarefulResumeConfig {
            max_jump: 1,
            lifetime_ms: 2,
            min_initial_windows: 3,
            after_jump: 1,
            early_jump: true,
        };
        assert_eq!(
            CarefulResumeConfig::from(&set),
            CarefulResumeConfig {
                max_jump: 1,
                lifetime: Duration::from_millis(2),
                min_initial_windows: 3,
                after_jump: AfterJump::Ceiling,
                early_jump: true,
            }
        );
    }

    #[cfg(feature = "internal")]
    #[test]
    fn event_in_c_has_age_and_missing_values() {
        let time = clock::Simulation::start(1, Duration::ZERO);
        let event = CarefulResumeEvent {
            time: clock::now(),
            old: None,
            new: Phase::Normal,
            trigger: None,
            pipe_size: 1,
            congestion_window: 2,
            ssthresh: 3,
            first_unvalidated_packet: Some(4),
            last_unvalidated_packet: None,
            restored: None,
        };
        time.advance_to(Duration::from_micros(250));

        let c = CCarefulResumeEvent::from(event);
        assert_eq!(c.age_us, 250);
        assert_eq!((c.old_phase, c.new_phase, c.trigger), (0, 5, 0));
        assert_eq!((c.pipe_size, c.congestion_window, c.ssthresh), (1, 2, 3));
        assert_eq!(c.first_unvalidated_packet, 4);
        assert_eq!(c.last_unvalidated_packet, NO_PACKET);
        assert!(!c.has_restored);
        assert_eq!(c.restored, CPathState::default());
    }

    /// A time that cannot be represented gives a path state that nobody uses.
    #[test]
    fn extreme_values_do_not_panic() {
        let extreme = CPathState {
            saved_cwnd: u64::MAX,
            saved_rtt_us: u64::MAX,
            observed_unix_ms: u64::MAX,
            expires_unix_ms: u64::MAX,
            limited: true,
            validated: true,
        };
        let state = PathState::from(&extreme);

        assert_eq!(CPathState::from(state).saved_rtt_us, u64::MAX);
        assert!(state.is_expired(clock::wall_now()));
    }
}
