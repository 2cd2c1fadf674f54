//! Session tickets (RFC 8446, 4.6.1), sealed with the shared secrets, so that a client resumes
//! its session with any worker of any server.
//!
//! The format is that of RFC 5077, 4: AES in CBC mode and an HMAC. BoringSSL builds and verifies
//! the ticket with the keys that the callback selects.

use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::hmac::HmacCtxRef;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslRef;
use boring::ssl::TicketKeyCallbackResult;
use boring::symm::Cipher;
use boring::symm::CipherCtxRef;
use boring_sys::SSL_CTX_set_num_tickets;
use boring_sys::SSL_SESSION_get_timeout;
use boring_sys::SSL_SESSION_set_timeout;
use boring_sys::SSL_get_session;
use boring_sys::SSL_set_quic_early_data_context;
use foreign_types::ForeignTypeRef;
use log::debug;

use crate::quic::random;
use crate::quic::secrets::SharedSecrets;
use crate::quic::secrets::TicketKeys;

/// Tickets in a handshake. BoringSSL's default of two serves clients that open connections in
/// parallel; an HTTP/3 client opens one, which brings the next ticket.
const TICKETS: usize = 1;

/// Sets the callback that seals tickets with the first secret and opens them with any.
pub fn configure(tls: &mut SslContextBuilder, secrets: SharedSecrets) {
    let select_keys = move |name: &mut [u8; 16],
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
        match secrets.ticket_keys_named(name) {
            Some(keys) => result(open(keys, iv, cipher, mac)),
            None => TicketKeyCallbackResult::Noop,
        }
    };
    // SAFETY: the context is alive and owned by the builder. The call accepts any number.
    unsafe {
        SSL_CTX_set_num_tickets(tls.as_ptr(), TICKETS);
    }
    // SAFETY: before the callback returns success, it has initialized both contexts with keys of
    // the length that their algorithms require, and written name and IV if it seals.
    unsafe {
        tls.set_ticket_key_callback(move |_, name, iv, cipher, mac, seals| {
            select_keys(name, iv, cipher, mac, seals)
        });
    }
}

/// Has the session of a handshake under way, and those that continue it, last no longer than
/// `seconds`.
pub fn limit_lifetime(ssl: &SslRef, seconds: u32) {
    // SAFETY: the connection is alive, and so is its session, which nobody else has before the
    // handshake is complete.
    unsafe {
        let session = SSL_get_session(ssl.as_ptr());
        if !session.is_null() {
            SSL_SESSION_set_timeout(session, seconds.min(SSL_SESSION_get_timeout(session)));
        }
    }
}

/// Has the early data of a connection that begins refused unless its session began with the same context.
pub fn set_early_data_context(ssl: &mut SslRef, context: &[u8]) {
    // SAFETY: the connection is alive, and the call copies so many bytes.
    let set =
        unsafe { SSL_set_quic_early_data_context(ssl.as_ptr(), context.as_ptr(), context.len()) };
    debug_assert_eq!(set, 1, "there is memory");
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

/// Maps an error to "no ticket": the client then makes a full handshake.
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

    /// Completes a handshake, then sends a byte.
    fn serve(connection: UnixStream) {
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let key = PKey::private_key_from_der(&made.signing_key.serialize_der()).unwrap();
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        tls.set_certificate(&X509::from_der(made.cert.der()).unwrap()).unwrap();
        tls.set_private_key(&key).unwrap();
        configure(&mut tls, shared(&[ONE]));
        let ssl = Ssl::new(&tls.build()).unwrap();
        let mut stream = ssl.accept(connection).unwrap();
        stream.write_all(b"x").unwrap();
    }

    #[test]
    fn handshake_sends_one_ticket() {
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
