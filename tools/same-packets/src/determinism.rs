//! Clock and random bytes of this process, instead of the system's.
//!
//! Both crates and BoringSSL call the C library for the time and for random bytes. This
//! program defines those functions itself, so that neither crate needs a hook. They
//! return the system's values until [`start()`]. On x86-64, BoringSSL reads the
//! processor's generator as well, unless [`MASK_RDRAND`] is in its environment.

use libc::c_int;
use libc::c_long;
use libc::c_uint;
use libc::c_void;
use libc::size_t;
use libc::ssize_t;
use std::ffi::CStr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Environment variable by which BoringSSL takes the processor for one without RDRAND.
pub const MASK_RDRAND: (&str, &str) = ("OPENSSL_ia32cap", "~0x4000000000000000");

/// Seconds since the Unix epoch at the start.
const WALL_START: u64 = 1_900_000_000;

/// Seconds of the monotonic clock at the start.
const MONOTONIC_START: u64 = 1_000_000;

const SECOND: u64 = 1_000_000_000;

static STARTED: AtomicBool = AtomicBool::new(false);
static ELAPSED: AtomicU64 = AtomicU64::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(0);

/// Stops the clock and seeds the random bytes.
pub fn start(seed: u64) {
    RANDOM.store(seed, Relaxed);
    STARTED.store(true, Relaxed);
}

/// Moves the clock forward to `elapsed` nanoseconds after the start.
pub fn advance_to(elapsed: u64) {
    ELAPSED.fetch_max(elapsed, Relaxed);
}

/// Returns the nanoseconds since the start.
pub fn elapsed() -> u64 {
    ELAPSED.load(Relaxed)
}

/// Generator of 64-bit numbers: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Generator(pub u64);

impl Generator {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns whether an event of this probability, in thousandths, happens.
    pub fn happens(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}

/// Fills a buffer from the seeded generator.
///
/// # Safety
///
/// `buf` must be valid for writes of `len` bytes.
unsafe fn fill(buf: *mut c_void, len: size_t) {
    let mut generator = Generator(RANDOM.load(Relaxed));
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), len) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&generator.next().to_le_bytes()[..chunk.len()]);
    }
    RANDOM.store(generator.0, Relaxed);
}

/// Returns the C library's function that this program's hides.
fn original(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        std::process::abort();
    }
    found
}

fn now(start_seconds: u64) -> libc::timespec {
    let now = start_seconds * SECOND + elapsed();
    libc::timespec { tv_sec: (now / SECOND) as libc::time_t, tv_nsec: (now % SECOND) as c_long }
}

/// As the C library's.
///
/// # Safety
///
/// `out` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, out: *mut libc::timespec) -> c_int {
    if !STARTED.load(Relaxed) {
        type Function = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
        // SAFETY: the C library's function has this type.
        return unsafe {
            std::mem::transmute::<*mut c_void, Function>(original(c"clock_gettime"))(clock, out)
        };
    }
    let start = match clock {
        libc::CLOCK_REALTIME => WALL_START,
        _ => MONOTONIC_START,
    };
    // SAFETY: as the caller promises.
    unsafe { out.write(now(start)) };
    0
}

/// As the C library's.
///
/// # Safety
///
/// `out` must be valid for writes, or null.
#[no_mangle]
pub unsafe extern "C" fn time(out: *mut libc::time_t) -> libc::time_t {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    if !out.is_null() {
        // SAFETY: as the caller promises.
        unsafe { out.write(now.tv_sec) };
    }
    now.tv_sec
}

/// As the C library's.
///
/// # Safety
///
/// `out` must be valid for writes.
#[no_mangle]
pub unsafe extern "C" fn gettimeofday(out: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &mut now) };
    let now = libc::timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 };
    // SAFETY: as the caller promises.
    unsafe { out.write(now) };
    0
}

/// As the C library's.
///
/// # Safety
///
/// `buf` must be valid for writes of `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn getrandom(buf: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    if STARTED.load(Relaxed) {
        // SAFETY: as the caller promises.
        unsafe { fill(buf, len) };
        return len as ssize_t;
    }
    type Function = unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t;
    // SAFETY: the C library's function has this type.
    unsafe { std::mem::transmute::<*mut c_void, Function>(original(c"getrandom"))(buf, len, flags) }
}

/// As the C library's, which takes as many arguments as the system call has, at most six.
///
/// # Safety
///
/// As of the system call.
#[no_mangle]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_getrandom && STARTED.load(Relaxed) {
        // SAFETY: the caller passes the arguments of getrandom.
        unsafe { fill(a as *mut c_void, b as size_t) };
        return b;
    }
    type Function = unsafe extern "C" fn(c_long, ...) -> c_long;
    // SAFETY: the C library's function has this type, and ignores surplus arguments.
    unsafe {
        std::mem::transmute::<*mut c_void, Function>(original(c"syscall"))(number, a, b, c, d, e, f)
    }
}
