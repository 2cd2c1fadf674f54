//! The TLS handshake (RFC 8446; RFC 9001, 4, 6 and 8): every alert is an error of the
//! connection, 0x100 and its number.

use crate::case::kind;
use crate::case::Answer;
use crate::case::Answer::*;
use crate::case::Kind;
use crate::case::Stage;
use crate::packet::Space;
use crate::peer::Peer;
use crate::wire::Reader;
use crate::wire::PROTOCOL_VIOLATION;

/// Alerts of RFC 8446, 6.
const UNEXPECTED_MESSAGE: Answer = Transport(0x100 + 10);
pub const HANDSHAKE_FAILURE: Answer = Transport(0x100 + 40);
pub const ILLEGAL_PARAMETER: Answer = Transport(0x100 + 47);
const DECODE_ERROR: Answer = Transport(0x100 + 50);
const DECRYPT_ERROR: Answer = Transport(0x100 + 51);
const PROTOCOL_VERSION: Answer = Transport(0x100 + 70);
const MISSING_EXTENSION: Answer = Transport(0x100 + 109);
const UNRECOGNIZED_NAME: Answer = Transport(0x100 + 112);
const NO_APPLICATION_PROTOCOL: Answer = Transport(0x100 + 120);

/// Types of messages (RFC 8446, 4).
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;
const END_OF_EARLY_DATA: u8 = 5;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const CERTIFICATE: u8 = 11;
const CERTIFICATE_VERIFY: u8 = 15;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;

/// Types of extensions (RFC 8446, 4.2; RFC 7301; RFC 9001, 8.2).
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
pub const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
const QUIC_TRANSPORT_PARAMETERS: u16 = 57;

const X25519: [u8; 2] = [0, 29];
const GREASE: [u8; 2] = [0x5a, 0x5a];

/// A ClientHello in its parts.
#[derive(Clone)]
pub struct Hello {
    version: [u8; 2],
    random: Vec<u8>,
    pub session: Vec<u8>,
    suites: Vec<u8>,
    compressions: Vec<u8>,
    extensions: Vec<(u16, Vec<u8>)>,
}

impl Hello {
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
            &sized(1, &self.session),
            &sized(2, &self.suites),
            &sized(1, &self.compressions),
            &sized(2, &extensions),
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

/// Bytes after their number, in so many bytes.
fn sized(bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - bytes..], content].concat()
}

fn short(reader: &mut Reader<'_>, bytes: usize) -> Vec<u8> {
    let length = reader.take(bytes).iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    reader.take(length).to_vec()
}

fn extension((kind, content): &(u16, Vec<u8>)) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized(2, content)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &sized(3, body)[..]].concat()
}

/// Sends a ClientHello that was changed.
pub fn changed(change: impl Fn(&mut Hello) + 'static) -> impl Fn(&mut Peer) + 'static {
    move |peer: &mut Peer| {
        let mut hello = Hello::read(&peer.hello);
        change(&mut hello);
        peer.hello = hello.write();
        peer.greet();
    }
}

/// Sends other bytes in place of a ClientHello.
fn in_place(bytes: impl Fn(&[u8]) -> Vec<u8> + 'static) -> impl Fn(&mut Peer) + 'static {
    move |peer: &mut Peer| {
        peer.hello = bytes(&peer.hello);
        peer.greet();
    }
}

pub fn kinds() -> Vec<Kind> {
    [hellos(), agreements(), order(), after()].into_iter().flatten().collect()
}

pub fn without(extension: u16) -> impl Fn(&mut Peer) + 'static {
    changed(move |hello| hello.drop(extension))
}

fn hellos() -> Vec<Kind> {
    vec![
        kind("no transport parameters", "RFC 9001, 8.2", MISSING_EXTENSION).input(
            "none",
            Stage::Fresh,
            without(QUIC_TRANSPORT_PARAMETERS),
        ),
        kind("no protocol of the server's", "RFC 9001, 8.1", NO_APPLICATION_PROTOCOL)
            .input("none", Stage::Fresh, without(ALPN))
            .input(
                "another",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = sized(2, &sized(1, b"h2"));
                }),
            )
            .input(
                "of drafts",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = sized(2, &sized(1, b"h3-29"));
                }),
            ),
        kind("an extension that TLS 1.3 demands is missing", "RFC 8446, 9.2", MISSING_EXTENSION)
            .input("key_share", Stage::Fresh, without(KEY_SHARE))
            .input("supported_groups", Stage::Fresh, without(SUPPORTED_GROUPS)),
        kind("an older version of TLS", "RFC 9001, 4.2", PROTOCOL_VERSION)
            .input("none said", Stage::Fresh, without(SUPPORTED_VERSIONS))
            .input(
                "TLS 1.2",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = sized(1, &[3, 3]);
                }),
            )
            .input(
                "a reserved one",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = sized(1, &GREASE);
                }),
            ),
        kind("a name of a server that is none", "RFC 6066, 3", UNRECOGNIZED_NAME)
            .input("empty", Stage::Fresh, named(b""))
            .input("with a NUL", Stage::Fresh, named(b"local\0host"))
            .input("longer than can be", Stage::Fresh, named(&[b'x'; 256])),
        kind("compression", "RFC 8446, 4.1.2", ILLEGAL_PARAMETER)
            .input("another", Stage::Fresh, changed(|hello| hello.compressions = vec![1]))
            .input("one more", Stage::Fresh, changed(|hello| hello.compressions = vec![0, 1])),
        kind("a message that cannot be read", "RFC 8446, 6.2", DECODE_ERROR)
            .input("empty", Stage::Fresh, in_place(|_| message(CLIENT_HELLO, &[])))
            .input(
                "its end is missing",
                Stage::Fresh,
                in_place(|hello| message(CLIENT_HELLO, &hello[4..hello.len() - 1])),
            )
            .input(
                "more behind it",
                Stage::Fresh,
                in_place(|hello| message(CLIENT_HELLO, &[&hello[4..], b"x"].concat())),
            )
            .input(
                "a session longer than 32",
                Stage::Fresh,
                changed(|hello| {
                    hello.session = vec![7; 33];
                }),
            )
            .input(
                "half a cipher suite",
                Stage::Fresh,
                changed(|hello| {
                    hello.suites.pop();
                }),
            )
            .input(
                "an empty list of versions",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(SUPPORTED_VERSIONS) = vec![0];
                }),
            )
            .input(
                "key shares that end too early",
                Stage::Fresh,
                changed(|hello| {
                    hello.extension(KEY_SHARE).pop();
                }),
            )
            .input(
                "a protocol that is empty",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(ALPN) = sized(2, &[0]);
                }),
            ),
    ]
}

/// Sends a name of a server.
fn named(name: &'static [u8]) -> impl Fn(&mut Peer) + 'static {
    changed(move |hello| {
        *hello.extension(SERVER_NAME) = sized(2, &[&[0][..], &sized(2, name)].concat());
    })
}

fn agreements() -> Vec<Kind> {
    vec![
        kind("no cipher suite of the server's", "RFC 8446, 4.1.1", HANDSHAKE_FAILURE)
            .input("reserved", Stage::Fresh, changed(|hello| hello.suites = GREASE.to_vec()))
            .input("of TLS 1.2", Stage::Fresh, changed(|hello| hello.suites = vec![0xc0, 0x2f])),
        kind("no group of the server's", "RFC 8446, 4.1.1", HANDSHAKE_FAILURE).input(
            "reserved",
            Stage::Fresh,
            changed(|hello| {
                *hello.extension(SUPPORTED_GROUPS) = sized(2, &GREASE);
                *hello.extension(KEY_SHARE) = sized(2, &key_share(GREASE, &[7; 32]));
            }),
        ),
        kind("no signature of the server's", "RFC 8446, 4.4.3", HANDSHAKE_FAILURE).input(
            "reserved",
            Stage::Fresh,
            changed(|hello| {
                *hello.extension(SIGNATURE_ALGORITHMS) = sized(2, &GREASE);
            }),
        ),
        kind("a key that is none", "RFC 8446, 4.2.8.2", ILLEGAL_PARAMETER)
            .input(
                "31 bytes",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = sized(2, &key_share(X25519, &[7; 31]));
                }),
            )
            .input(
                "33 bytes",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = sized(2, &key_share(X25519, &[7; 33]));
                }),
            )
            .input(
                "zeros",
                Stage::Fresh,
                changed(|hello| {
                    *hello.extension(KEY_SHARE) = sized(2, &key_share(X25519, &[0; 32]));
                }),
            ),
        kind("two keys of one group", "RFC 8446, 4.2.8", ILLEGAL_PARAMETER).input(
            "x25519",
            Stage::Fresh,
            changed(|hello| {
                let share = key_share(X25519, &[7; 32]);
                *hello.extension(KEY_SHARE) = sized(2, &share.repeat(2));
            }),
        ),
    ]
}

fn key_share(group: [u8; 2], key: &[u8]) -> Vec<u8> {
    [&group[..], &sized(2, key)].concat()
}

fn order() -> Vec<Kind> {
    let first = |kind: u8| in_place(move |_| message(kind, &[7; 40]));
    let then = |kind: u8, body: &'static [u8]| {
        move |peer: &mut Peer| peer.say(Space::Handshake, &message(kind, body))
    };
    vec![
        kind("another message than ClientHello at first", "RFC 8446, 4", UNEXPECTED_MESSAGE)
            .input("HelloRequest", Stage::Fresh, first(0))
            .input("ServerHello", Stage::Fresh, first(SERVER_HELLO))
            .input("Certificate", Stage::Fresh, first(CERTIFICATE))
            .input("Finished", Stage::Fresh, first(FINISHED))
            .input("an unknown one", Stage::Fresh, first(99)),
        kind("another message than Finished then", "RFC 8446, 4", UNEXPECTED_MESSAGE)
            .input("ClientHello", Stage::Met, then(CLIENT_HELLO, &[7; 40]))
            .input("EncryptedExtensions", Stage::Met, then(ENCRYPTED_EXTENSIONS, &[0, 0]))
            .input("Certificate", Stage::Met, then(CERTIFICATE, &[0, 0, 0, 0]))
            .input("CertificateVerify", Stage::Met, then(CERTIFICATE_VERIFY, &[8, 4, 0, 1, 7]))
            .input("KeyUpdate", Stage::Met, then(KEY_UPDATE, &[0]))
            .input("an unknown one", Stage::Met, then(99, &[])),
        kind("EndOfEarlyData", "RFC 9001, 8.3", UNEXPECTED_MESSAGE).input(
            "before Finished",
            Stage::Met,
            then(END_OF_EARLY_DATA, &[]),
        ),
        kind("a Finished message that is wrong", "RFC 8446, 4.4.4", DECRYPT_ERROR)
            .input("a byte", Stage::Met, |peer| {
                let mut finished = peer.finished.clone();
                *finished.last_mut().unwrap() ^= 1;
                peer.say(Space::Handshake, &finished);
            })
            .input("too short", Stage::Met, then(FINISHED, &[7; 31]))
            .input("too long", Stage::Met, then(FINISHED, &[7; 64]))
            .input("empty", Stage::Met, then(FINISHED, &[])),
        kind(
            "more of a handshake than its keys are for",
            "RFC 9001, 4.1.3",
            Transport(PROTOCOL_VIOLATION),
        )
        .input("after ClientHello", Stage::Met, |peer| {
            peer.say(Space::Initial, &message(CLIENT_HELLO, &[7; 40]));
        }),
    ]
}

fn after() -> Vec<Kind> {
    let later = |kind: u8, body: &'static [u8]| {
        move |peer: &mut Peer| peer.say(Space::Data, &message(kind, body))
    };
    vec![
        kind("a KeyUpdate of TLS", "RFC 9001, 6", UNEXPECTED_MESSAGE)
            .input("not asked for", Stage::Open, later(KEY_UPDATE, &[0]))
            .input("that asks for one", Stage::Open, later(KEY_UPDATE, &[1])),
        kind("a message of TLS after the handshake", "RFC 8446, 4.6", UNEXPECTED_MESSAGE)
            .input("ClientHello", Stage::Open, later(CLIENT_HELLO, &[7; 40]))
            .input("NewSessionTicket", Stage::Open, later(NEW_SESSION_TICKET, &[7; 40]))
            .input("Certificate", Stage::Open, later(CERTIFICATE, &[0, 0, 0, 0]))
            .input("Finished", Stage::Open, later(FINISHED, &[7; 32]))
            .input("an unknown one", Stage::Open, later(99, &[])),
        kind("a message that never ends", "RFC 9000, 7.5", Served).input(
            "its head alone",
            Stage::Open,
            |peer| {
                peer.say(Space::Data, &[KEY_UPDATE, 0, 0, 200]);
            },
        ),
    ]
}
