//! The server in C (resuming_server.c), linked with the library that cargo has built.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::CString;
use std::process::ExitCode;

// The C program calls the library.
use quiche as _;

unsafe extern "C" {
    fn resuming_server(argc: c_int, argv: *const *const c_char) -> c_int;
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().map(|arg| CString::new(arg).expect("no NUL")).collect();
    let argv: Vec<_> = args.iter().map(|arg| arg.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: `argv` ends with a null pointer, and all that it points to outlives the call.
    let code = unsafe { resuming_server(args.len() as c_int, argv.as_ptr()) };
    ExitCode::from(code as u8)
}
