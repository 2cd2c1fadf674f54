//! Processes of the programs under test, and an HTTP/3 client that sends what
//! a well-behaved one would not.

pub mod certify;
pub mod client;
pub mod codes;
pub mod flood;
pub mod forger;
pub mod jump;
pub mod lab;
pub mod metrics;
pub mod nat;
pub mod process;
#[path = "../../../../path-store/tests/support/redis.rs"]
#[expect(dead_code, reason = "the tests of the stores use the rest")]
pub mod redis;
pub mod windows;
mod windows_tests;
