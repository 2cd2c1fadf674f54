//! HTTP/3 server that resumes: sends 4 MB to each client, one client at a time, and starts a later
//! download to the same address at half of what an earlier one reached (RFC 9959).
use quiche::{careful_resume::Phase, clock, h3, path_state::PathState, RecvInfo};
use std::{collections::HashMap, net::IpAddr, net::UdpSocket, time::Duration};
type Outcome = Result<(), Box<dyn std::error::Error>>;
type Saved = HashMap<IpAddr, PathState>;
static BODY: [u8; 4_000_000] = [0; 4_000_000];

fn main() -> Outcome {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let socket = UdpSocket::bind(address)?;
    println!("listening on {}", socket.local_addr()?);
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/../quiche/examples/cert");
    config.load_cert_chain_from_pem_file(&format!("{pem}.crt"))?;
    config.load_priv_key_from_pem_file(&format!("{pem}.key"))?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 16);
    config.set_initial_max_stream_data_uni(1 << 16);
    config.set_initial_max_streams_bidi(16);
    config.set_initial_max_streams_uni(16);
    config.set_max_idle_timeout(5_000);
    config.set_careful_resume(Default::default())?;
    let mut saved = Saved::new();
    loop {
        serve_one(&socket, &mut config, &mut saved)?;
    }
}

fn serve_one(socket: &UdpSocket, config: &mut quiche::Config, saved: &mut Saved) -> Outcome {
    let (mut buffer, to) = (vec![0; 65_535], socket.local_addr()?);
    socket.set_nonblocking(false)?;
    let (len, from) = socket.recv_from(&mut buffer)?;
    socket.set_nonblocking(true)?;
    let Ok(header) = quiche::Header::from_slice(&mut buffer[..len], 20) else { return Ok(()) };
    let mut quic = quiche::accept(&header.dcid, None, to, from, config)?;
    let Ok(_) = quic.recv(&mut buffer[..len], RecvInfo { from, to }) else { return Ok(()) };
    let (client, status) = (from.ip(), [h3::Header::new(b":status", b"200")]);
    let (mut http, mut response) = (None, None);
    while !quic.is_closed() {
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = quic.recv(&mut buffer[..len], RecvInfo { from, to }); // Drops what is invalid.
        }
        quic.on_timeout(); // Does nothing before its time.
        if http.is_none() && quic.is_established() {
            http = Some(h3::Connection::with_transport(&mut quic, &h3::Config::new()?)?);
            let end = clock::now() + Duration::from_secs(3600); // No other connection has these.
            saved.get(&client).map_or(Ok(()), |state| quic.careful_resume_from(*state, end))?;
        }
        while let Some(Ok((id, event))) = http.as_mut().map(|http| http.poll(&mut quic)) {
            if let (h3::Event::Headers { .. }, Some(http)) = (event, &mut http) {
                http.send_response(&mut quic, id, &status, false)?;
                response = Some((id, &BODY[..]));
            }
        }
        // Until the transport takes no more: one chunk an event would waste the jump.
        while let (Some((id, body)), Some(http)) = (response, &mut http) {
            let Ok(sent) = http.send_body(&mut quic, id, body, true) else { break };
            response = Some((id, &body[sent..])).filter(|(_, left)| !left.is_empty());
        }
        for event in quic.careful_resume_events() {
            println!("{:?}, {:?}", event.new, event.trigger);
            if event.new == Phase::SafeRetreat {
                saved.remove(&client); // RFC 9959, 3.5
            }
        }
        // Packets leave at their release times (RFC 9959, 3.3).
        while quic.get_next_release_time().and_then(|at| at.time(clock::now())).is_none() {
            let Ok((len, info)) = quic.send(&mut buffer) else { break };
            let _ = socket.send_to(&buffer[..len], info.to);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    if let Some(observed) = quic.path_state() {
        let held = saved.get(&client).copied();
        saved.insert(client, PathState::merged(held, observed, clock::wall_now()));
    }
    Ok(())
}
