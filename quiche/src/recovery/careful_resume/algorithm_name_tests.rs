//! Tests of Careful Resume enabled by the name of the congestion control
//! algorithm.

use crate::careful_resume::Phase;
use crate::test_utils::Pipe;
use crate::Config;
use crate::Connection;
use crate::Error;

fn phase(config: &mut Config) -> Phase {
    config.set_application_protos(&[b"proto1"]).unwrap();
    config.verify_peer(false);
    let pipe = Pipe::with_config(config).unwrap();
    pipe.client.careful_resume_phase()
}

#[test]
fn suffix_of_algorithm_name_enables_careful_resume() {
    for (name, expected) in [
        ("reno", Phase::Normal),
        ("reno+careful-resume", Phase::Reconnaissance),
        ("cubic+careful-resume", Phase::Reconnaissance),
    ] {
        let mut config = Pipe::default_config(name).unwrap();
        assert_eq!(phase(&mut config), expected, "{name}");
    }
}

#[test]
fn unknown_algorithm_is_refused_by_name() {
    let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
    let refused = config.set_cc_algorithm_name("x+careful-resume");
    assert_eq!(refused, Err(Error::CongestionControl));
}

#[cfg(feature = "boringssl-boring-crate")]
#[test]
fn suffix_of_algorithm_name_enables_careful_resume_in_handshake() {
    use boring::ssl::SslContextBuilder;
    use boring::ssl::SslFiletype;
    use boring::ssl::SslMethod;

    let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
    tls.set_certificate_chain_file("examples/cert.crt").unwrap();
    tls.set_private_key_file("examples/cert.key", SslFiletype::PEM)
        .unwrap();
    tls.set_select_certificate_callback(|mut hello| {
        <Connection>::set_cc_algorithm_name_in_handshake(
            hello.ssl_mut(),
            "reno+careful-resume",
        )
        .unwrap();
        Ok(())
    });
    let mut server =
        Config::with_boring_ssl_ctx_builder(crate::PROTOCOL_VERSION, tls)
            .unwrap();
    server.set_application_protos(&[b"proto1"]).unwrap();
    let mut client = Config::new(crate::PROTOCOL_VERSION).unwrap();
    client.set_application_protos(&[b"proto1"]).unwrap();
    client.verify_peer(false);

    let mut pipe =
        Pipe::with_client_and_server_config(&mut client, &mut server).unwrap();
    pipe.handshake().unwrap();

    assert_eq!(pipe.server.careful_resume_phase(), Phase::Reconnaissance);
}
