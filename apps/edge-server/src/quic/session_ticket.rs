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
use boring_sys::SSL_CTX_set_num_tickets;
use log::debug;

use crate::quic::random;
use crate::quic::secrets::SharedSecrets;
use crate::quic::secrets::TicketKeys;

/// Tickets a handshake ends with. BoringSSL would send two, for a client that opens two
/// connections at a time; one of HTTP/3 carries everything, and brings the next ticket.
const TICKETS: usize = 1;

/// Has tickets sealed with the first secret, and opened with every one.
pub fn share(tls: &mut SslContextBuilder, secrets: SharedSecrets) {
    let choose = move |name: &mut [u8; 16],
                       iv: &mut [u8; 16],
                       cipher: &mut CipherCtxRef,
                       mac: &mut HmacCtxRef,
                       seals: bool| {
        let secrets = secrets.get();
        if seals {
            let keys = secrets.current().ticket_keys();
            *name = keys.name;
            return match random::fill(iv) {
                Some(()) => result(seal(keys, iv, cipher, mac)),
                None => TicketKeyCallbackResult::Noop,
            };
        }
        match secrets.of_ticket(name) {
            Some(keys) => result(open(keys, iv, cipher, mac)),
            None => TicketKeyCallbackResult::Noop,
        }
    };
    // SAFETY: the context is alive and belongs to the builder. It takes every number.
    unsafe {
        SSL_CTX_set_num_tickets(tls.as_ptr(), TICKETS);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;
    use boring::pkey::PKey;
    use boring::ssl::Ssl;
    use boring::ssl::SslConnector;
    use boring::ssl::SslMethod;
    use boring::ssl::SslSessionCacheMode;
    use boring::ssl::SslVerifyMode;
    use boring::x509::X509;
    use std::io::Read;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::sync::Arc;

    /// Completes a handshake on a connection, and sends a byte after it.
    fn serve(connection: UnixStream) {
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let key = PKey::private_key_from_der(&made.signing_key.serialize_der()).unwrap();
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        tls.set_certificate(&X509::from_der(made.cert.der()).unwrap()).unwrap();
        tls.set_private_key(&key).unwrap();
        share(&mut tls, shared(&[ONE]));
        let ssl = Ssl::new(&tls.build()).unwrap();
        let mut stream = ssl.accept(connection).unwrap();
        stream.write_all(b"x").unwrap();
    }

    #[test]
    fn a_handshake_ends_with_one_ticket() {
        let (client, server) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(|| serve(server));
        let tickets = Arc::new(AtomicUsize::new(0));
        let mut tls = SslConnector::builder(SslMethod::tls()).unwrap();
        tls.set_verify(SslVerifyMode::NONE);
        tls.set_session_cache_mode(SslSessionCacheMode::CLIENT);
        let counted = tickets.clone();
        tls.set_new_session_callback(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let mut stream = tls.build().connect("localhost", client).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        assert_eq!(tickets.load(Ordering::Relaxed), TICKETS);
        server.join().unwrap();
    }
}
