//! TLS handshake (RFC 8446; RFC 9001, 4, 6 and 8): every alert closes the connection with the
//! error 0x100 plus the alert's number.

use crate::case::rule;
use crate::case::Expected;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::peer::HostilePeer;
use crate::wire::Reader;
use crate::wire::PROTOCOL_VIOLATION;

/// Alerts of RFC 8446, 6.
const UNEXPECTED_MESSAGE: Expected = Transport(0x100 + 10);
pub const HANDSHAKE_FAILURE: Expected = Transport(0x100 + 40);
pub const ILLEGAL_PARAMETER: Expected = Transport(0x100 + 47);
const DECODE_ERROR: Expected = Transport(0x100 + 50);
const DECRYPT_ERROR: Expected = Transport(0x100 + 51);
const PROTOCOL_VERSION: Expected = Transport(0x100 + 70);
const MISSING_EXTENSION: Expected = Transport(0x100 + 109);
const UNRECOGNIZED_NAME: Expected = Transport(0x100 + 112);
const NO_APPLICATION_PROTOCOL: Expected = Transport(0x100 + 120);

/// Message types (RFC 8446, 4).
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;
const END_OF_EARLY_DATA: u8 = 5;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const CERTIFICATE: u8 = 11;
const CERTIFICATE_VERIFY: u8 = 15;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

/// Extension types (RFC 8446, 4.2; RFC 7301; RFC 9001, 8.2).
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
pub const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
const QUIC_TRANSPORT_PARAMETERS: u16 = 57;

const X25519: [u8; 2] = [0, 29];
const GREASE: [u8; 2] = [0x5a, 0x5a];

/// Parsed ClientHello.
#[derive(Clone)]
pub struct ClientHello {
    version: [u8; 2],
    random: Vec<u8>,
    pub session: Vec<u8>,
    suites: Vec<u8>,
    compressions: Vec<u8>,
    extensions: Vec<(u16, Vec<u8>)>,
}

impl ClientHello {
    fn read(message: &[u8]) -> Self {
        let mut reader = Reader(&message[4..]);
        let version = reader.take(2).try_into().unwrap();
        let random = reader.take(32).to_vec();
        let session = short(&mut reader, 1);
        let suites = short(&mut reader, 2);
        let compressions = short(&mut reader, 1);
        let all = short(&mut reader, 2);
        let mut reader = Reader(&all);
        let mut extensions = Vec::new();
        while !reader.is_empty() {
            let kind = u16::from_be_bytes(reader.take(2).try_into().unwrap());
            extensions.push((kind, short(&mut reader, 2)));
        }
        Self { version, random, session, suites, compressions, extensions }
    }

    fn write(&self) -> Vec<u8> {
        let extensions: Vec<u8> = self.extensions.iter().flat_map(extension).collect();
        let body = [
            &self.version[..],
            &self.random,
            &length_prefixed(1, &self.session),
            &length_prefixed(2, &self.suites),
            &length_prefixed(1, &self.compressions),
            &length_prefixed(2, &extensions),
        ];
        message(CLIENT_HELLO, &body.concat())
    }

    fn extension(&mut self, kind: u16) -> &mut Vec<u8> {
        let found = self.extensions.iter_mut().find(|(own, _)| *own == kind);
        &mut found.expect("the extension").1
    }

    fn drop(&mut self, kind: u16) {
        self.extensions.retain(|(own, _)| *own != kind);
    }
}

/// Returns bytes after their count, which is encoded in `bytes` bytes.
fn length_prefixed(bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - bytes..], content].concat()
}

fn short(reader: &mut Reader<'_>, bytes: usize) -> Vec<u8> {
    let length = reader.take(bytes).iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    reader.take(length).to_vec()
}

fn extension((kind, content): &(u16, Vec<u8>)) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &length_prefixed(2, content)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &length_prefixed(3, body)[..]].concat()
}

/// Sends a modified ClientHello.
pub fn changed(change: impl Fn(&mut ClientHello) + 'static) -> impl Fn(&mut HostilePeer) + 'static {
    move |peer: &mut HostilePeer| {
        let mut hello = ClientHello::read(&peer.hello);
        change(&mut hello);
        peer.hello = hello.write();
        peer.send_client_hello();
    }
}

/// Sends other bytes instead of a ClientHello.
fn in_place(bytes: impl Fn(&[u8]) -> Vec<u8> + 'static) -> impl Fn(&mut HostilePeer) + 'static {
    move |peer: &mut HostilePeer| {
        peer.hello = bytes(&peer.hello);
        peer.send_client_hello();
    }
}

pub fn rules() -> Vec<Rule> {
    [hellos(), agreements(), order(), after()].into_iter().flatten().collect()
}

pub fn without(extension: u16) -> impl Fn(&mut HostilePeer) + 'static {
    changed(move |hello| hello.drop(extension))
}

fn hellos() -> Vec<Rule> {
    vec![
        rule("no transport parameters", "RFC 9001, 8.2", MISSING_EXTENSION).case(
            "none",
            Progress::Fresh,
            without(QUIC_TRANSPORT_PARAMETERS),
        ),
        rule("no common application protocol", "RFC 9001, 8.1", NO_APPLICATION_PROTOCOL)
            .case("none", Progress::Fresh, without(ALPN))
            .case(
                "another",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = length_prefixed(2, &length_prefixed(1, b"h2"));
                }),
            )
            .case(
                "of drafts",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = length_prefixed(2, &length_prefixed(1, b"h3-29"));
                }),
            ),
        rule("a missing mandatory extension of TLS 1.3", "RFC 8446, 9.2", MISSING_EXTENSION)
            .case("key_share", Progress::Fresh, without(KEY_SHARE))
            .case("supported_groups", Progress::Fresh, without(SUPPORTED_GROUPS)),
        rule("an older version of TLS", "RFC 9001, 4.2", PROTOCOL_VERSION)
            .case("no supported_versions", Progress::Fresh, without(SUPPORTED_VERSIONS))
            .case(
                "TLS 1.2",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = length_prefixed(1, &[3, 3]);
                }),
            )
            .case(
                "a reserved one",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = length_prefixed(1, &GREASE);
                }),
            ),
        rule("an invalid server name", "RFC 6066, 3", UNRECOGNIZED_NAME)
            .case("empty", Progress::Fresh, named(b""))
            .case("with a NUL", Progress::Fresh, named(b"local\0host"))
            .case("longer than allowed", Progress::Fresh, named(&[b'x'; 256])),
        rule("compression", "RFC 8446, 4.1.2", ILLEGAL_PARAMETER)
            .case("another", Progress::Fresh, changed(|hello| hello.compressions = vec![1]))
            .case("one more", Progress::Fresh, changed(|hello| hello.compressions = vec![0, 1])),
        rule("a malformed message", "RFC 8446, 6.2", DECODE_ERROR)
            .case("empty", Progress::Fresh, in_place(|_| message(CLIENT_HELLO, &[])))
            .case(
                "truncated",
                Progress::Fresh,
                in_place(|hello| message(CLIENT_HELLO, &hello[4..hello.len() - 1])),
            )
            .case(
                "trailing bytes",
                Progress::Fresh,
                in_place(|hello| message(CLIENT_HELLO, &[&hello[4..], b"x"].concat())),
            )
            .case(
                "a session longer than 32",
                Progress::Fresh,
                changed(|hello| {
                    hello.session = vec![7; 33];
                }),
            )
            .case(
                "half a cipher suite",
                Progress::Fresh,
                changed(|hello| {
                    hello.suites.pop();
                }),
            )
            .case(
                "an empty list of versions",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = vec![0];
                }),
            )
            .case(
                "truncated key shares",
                Progress::Fresh,
                changed(|hello| {
                    hello.extension(KEY_SHARE).pop();
                }),
            )
            .case(
                "an empty protocol",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = length_prefixed(2, &[0]);
                }),
            ),
    ]
}

/// Sends a ClientHello with this server name.
fn named(name: &'static [u8]) -> impl Fn(&mut HostilePeer) + 'static {
    changed(move |hello| {
        *hello.extension(SERVER_NAME) =
            length_prefixed(2, &[&[0][..], &length_prefixed(2, name)].concat());
    })
}

fn agreements() -> Vec<Rule> {
    vec![
        rule("no common cipher suite", "RFC 8446, 4.1.1", HANDSHAKE_FAILURE)
            .case("reserved", Progress::Fresh, changed(|hello| hello.suites = GREASE.to_vec()))
            .case("of TLS 1.2", Progress::Fresh, changed(|hello| hello.suites = vec![0xc0, 0x2f])),
        rule("no common group", "RFC 8446, 4.1.1", HANDSHAKE_FAILURE).case(
            "reserved",
            Progress::Fresh,
            changed(|hello| {
                *hello.extension(SUPPORTED_GROUPS) = length_prefixed(2, &GREASE);
                *hello.extension(KEY_SHARE) = length_prefixed(2, &key_share(GREASE, &[7; 32]));
            }),
        ),
        rule("no common signature algorithm", "RFC 8446, 4.4.3", HANDSHAKE_FAILURE).case(
            "reserved",
            Progress::Fresh,
            changed(|hello| {
                *hello.extension(SIGNATURE_ALGORITHMS) = length_prefixed(2, &GREASE);
            }),
        ),
        rule("an invalid key share", "RFC 8446, 4.2.8.2", ILLEGAL_PARAMETER)
            .case(
                "31 bytes",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = length_prefixed(2, &key_share(X25519, &[7; 31]));
                }),
            )
            .case(
                "33 bytes",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = length_prefixed(2, &key_share(X25519, &[7; 33]));
                }),
            )
            .case(
                "zeros",
                Progress::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = length_prefixed(2, &key_share(X25519, &[0; 32]));
                }),
            ),
        rule("two key shares of one group", "RFC 8446, 4.2.8", ILLEGAL_PARAMETER).case(
            "x25519",
            Progress::Fresh,
            changed(|hello| {
                let share = key_share(X25519, &[7; 32]);
                *hello.extension(KEY_SHARE) = length_prefixed(2, &share.repeat(2));
            }),
        ),
    ]
}

fn key_share(group: [u8; 2], key: &[u8]) -> Vec<u8> {
    [&group[..], &length_prefixed(2, key)].concat()
}

fn order() -> Vec<Rule> {
    let first = |kind: u8| in_place(move |_| message(kind, &[7; 40]));
    let then = |kind: u8, body: &'static [u8]| {
        move |peer: &mut HostilePeer| peer.send_crypto(Space::Handshake, &message(kind, body))
    };
    vec![
        rule("a first message other than ClientHello", "RFC 8446, 4", UNEXPECTED_MESSAGE)
            .case("HelloRequest", Progress::Fresh, first(0))
            .case("ServerHello", Progress::Fresh, first(SERVER_HELLO))
            .case("Certificate", Progress::Fresh, first(CERTIFICATE))
            .case("Finished", Progress::Fresh, first(FINISHED))
            .case("an unknown one", Progress::Fresh, first(99)),
        rule("a second message other than Finished", "RFC 8446, 4", UNEXPECTED_MESSAGE)
            .case("ClientHello", Progress::ServerHello, then(CLIENT_HELLO, &[7; 40]))
            .case("EncryptedExtensions", Progress::ServerHello, then(ENCRYPTED_EXTENSIONS, &[0, 0]))
            .case("Certificate", Progress::ServerHello, then(CERTIFICATE, &[0, 0, 0, 0]))
            .case(
                "CertificateVerify",
                Progress::ServerHello,
                then(CERTIFICATE_VERIFY, &[8, 4, 0, 1, 7]),
            )
            .case("KeyUpdate", Progress::ServerHello, then(KEY_UPDATE, &[0]))
            .case("an unknown one", Progress::ServerHello, then(99, &[])),
        rule("EndOfEarlyData", "RFC 9001, 8.3", UNEXPECTED_MESSAGE).case(
            "before Finished",
            Progress::ServerHello,
            then(END_OF_EARLY_DATA, &[]),
        ),
        rule("a wrong Finished message", "RFC 8446, 4.4.4", DECRYPT_ERROR)
            .case("a byte", Progress::ServerHello, |peer| {
                let mut finished = peer.finished.clone();
                *finished.last_mut().unwrap() ^= 1;
                peer.send_crypto(Space::Handshake, &finished);
            })
            .case("too short", Progress::ServerHello, then(FINISHED, &[7; 31]))
            .case("too long", Progress::ServerHello, then(FINISHED, &[7; 64]))
            .case("empty", Progress::ServerHello, then(FINISHED, &[])),
        rule(
            "handshake data after a change of keys",
            "RFC 9001, 4.1.3",
            Transport(PROTOCOL_VIOLATION),
        )
        .case("after ClientHello", Progress::ServerHello, |peer| {
            peer.send_crypto(Space::Initial, &message(CLIENT_HELLO, &[7; 40]));
        }),
    ]
}

fn after() -> Vec<Rule> {
    let later = |kind: u8, body: &'static [u8]| {
        move |peer: &mut HostilePeer| peer.send_crypto(Space::Data, &message(kind, body))
    };
    vec![
        rule("a TLS KeyUpdate", "RFC 9001, 6", UNEXPECTED_MESSAGE)
            .case("without update_requested", Progress::Established, later(KEY_UPDATE, &[0]))
            .case("with update_requested", Progress::Established, later(KEY_UPDATE, &[1])),
        rule("a TLS message after the handshake", "RFC 8446, 4.6", UNEXPECTED_MESSAGE)
            .case("ClientHello", Progress::Established, later(CLIENT_HELLO, &[7; 40]))
            .case("NewSessionTicket", Progress::Established, later(NEW_SESSION_TICKET, &[7; 40]))
            .case("Certificate", Progress::Established, later(CERTIFICATE, &[0, 0, 0, 0]))
            .case("Finished", Progress::Established, later(FINISHED, &[7; 32]))
            .case("an unknown one", Progress::Established, later(99, &[])),
        rule("a message that never ends", "RFC 9000, 7.5", Served).case(
            "its head alone",
            Progress::Established,
            |peer| {
                peer.send_crypto(Space::Data, &[KEY_UPDATE, 0, 0, 200]);
            },
        ),
    ]
}
