//! Session tickets (RFC 8446, 4.6.1), sealed with keys that workers and servers
//! share: a client resumes its session with any of them.
//!
//! As RFC 5077, 4 proposes: AES in CBC mode, and HMAC over all of it. BoringSSL makes
//! the ticket and compares the code; here its keys are chosen.

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::hmac::HmacCtxRef;
use boring::ssl::SslContextBuilder;
use boring::ssl::TicketKeyCallbackResult;
use boring::symm::Cipher;
use boring::symm::CipherCtxRef;
use log::debug;
use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

use crate::secrets::SharedSecrets;
use crate::secrets::TicketKeys;

/// Has tickets sealed with the first secret, and opened with every one.
pub fn share(tls: &mut SslContextBuilder, secrets: SharedSecrets) {
    let random = SystemRandom::new();
    let choose = move |name: &mut [u8; 16],
                       iv: &mut [u8; 16],
                       cipher: &mut CipherCtxRef,
                       mac: &mut HmacCtxRef,
                       seals: bool| {
        let secrets = secrets.get();
        if seals {
            let keys = secrets.current().ticket_keys();
            *name = keys.name;
            return match random.fill(iv) {
                Ok(()) => result(seal(keys, iv, cipher, mac)),
                Err(_) => TicketKeyCallbackResult::Noop,
            };
        }
        match secrets.of_ticket(name) {
            Some(keys) => result(open(keys, iv, cipher, mac)),
            None => TicketKeyCallbackResult::Noop,
        }
    };
    // SAFETY: name and vector are written whenever a ticket is sealed, and both
    // contexts are set up, with keys as long as their algorithms take, before
    // anything but a failure or "no ticket" is returned.
    unsafe {
        tls.set_ticket_key_callback(move |_, name, iv, cipher, mac, seals| {
            choose(name, iv, cipher, mac, seals)
        });
    }
}

fn seal(
    keys: &TicketKeys,
    iv: &[u8; 16],
    cipher: &mut CipherCtxRef,
    mac: &mut HmacCtxRef,
) -> Result<(), ErrorStack> {
    cipher.init_encrypt(&Cipher::aes_256_cbc(), &keys.cipher, iv)?;
    mac.init(&keys.mac, &MessageDigest::sha256())
}

fn open(
    keys: &TicketKeys,
    iv: &[u8; 16],
    cipher: &mut CipherCtxRef,
    mac: &mut HmacCtxRef,
) -> Result<(), ErrorStack> {
    cipher.init_decrypt(&Cipher::aes_256_cbc(), &keys.cipher, iv)?;
    mac.init(&keys.mac, &MessageDigest::sha256())
}

/// Without a ticket there is a full handshake, which is better than none.
fn result(set_up: Result<(), ErrorStack>) -> TicketKeyCallbackResult {
    match set_up {
        Ok(()) => TicketKeyCallbackResult::Success,
        Err(e) => {
            debug!("no session ticket: {e}");
            TicketKeyCallbackResult::Noop
        }
    }
}
