//! Conversions between C and Rust, for the C interface of the fork.

use std::slice;

use libc::c_int;
use libc::size_t;

use crate::Result;

/// Returns the caller's bytes; `ptr` may be NULL if there are none.
pub(crate) fn bytes<'a>(ptr: *const u8, len: size_t) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: the caller has `len` bytes at `ptr`.
        _ => unsafe { slice::from_raw_parts(ptr, len) },
    }
}

/// Returns the caller's buffer; `ptr` may be NULL if it has no bytes.
pub(crate) fn buffer<'a>(ptr: *mut u8, len: size_t) -> &'a mut [u8] {
    match len {
        0 => &mut [],
        // SAFETY: the caller has `len` bytes at `ptr`, and nobody else uses
        // them during the call.
        _ => unsafe { slice::from_raw_parts_mut(ptr, len) },
    }
}

/// Returns 0, or the negative number of the error.
pub(crate) fn status(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,

        Err(e) => e.to_c() as c_int,
    }
}
