//! Random numbers for our files of quiche/, in place of the fork's own, which are private.

use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

pub fn rand_u64() -> u64 {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    u64::from_ne_bytes(bytes)
}
