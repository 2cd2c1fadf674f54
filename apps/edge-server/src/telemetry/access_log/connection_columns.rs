//! Columns that the lines of a connection have in common, formatted once for those that follow each other.

use std::io::Write as _;
use std::net::IpAddr;
use std::net::SocketAddr;

use ab_test::Arm;
use quiche::ecn::EcnState;

use super::json::key;
use super::json::ObjectWriter;
use crate::resume::own_state::Source;
use crate::resume::summary::ResumeSummary;

/// Connection of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedConnection<'a> {
    pub client: SocketAddr,

    /// Connection ID by which qlog files and messages name the connection.
    pub name: &'a str,

    /// Name of the client's certificate, if it had to have one.
    pub client_certificate: Option<&'a str>,

    /// Congestion controller, if it is known.
    pub cc: Option<&'static str>,

    /// State of ECN on the path, unless it is off.
    pub ecn: Option<EcnState>,

    /// Summary of Careful Resume, unless it is off.
    pub resume: Option<ResumeSummary>,
}

impl LoggedConnection<'_> {
    /// Returns the same for a client behind a proxy.
    pub fn of_client(&self, client: IpAddr) -> Self {
        Self { client: SocketAddr::new(client, self.client.port()), ..*self }
    }
}

/// Columns of the last connection, in JSON.
#[derive(Default)]
pub struct ConnectionColumns {
    /// Absent before the first.
    connection: Option<OwnedConnection>,

    /// Members of the object that name the client.
    pub client: Vec<u8>,

    /// Members that tell of its path. The object of Careful Resume, if there is one, is left open.
    pub path: Vec<u8>,
}

struct OwnedConnection {
    name: String,
    client_certificate: Option<String>,

    /// Without these texts.
    rest: LoggedConnection<'static>,
}

impl ConnectionColumns {
    /// Formats the columns, unless they are there.
    pub fn update(&mut self, connection: &LoggedConnection<'_>) {
        if self.connection.as_ref().is_some_and(|last| last.is(connection)) {
            return;
        }
        self.connection = Some(OwnedConnection::of(connection));
        let LoggedConnection { client, name, client_certificate, cc, ecn, resume } = connection;

        self.client.clear();
        let mut members = ObjectWriter::continued(&mut self.client);
        members.plain(key!("client"), |text| {
            // An address has a form.
            let _ = write!(text, "{}", client.ip().to_canonical());
        });
        members.value(key!("port"), client.port());
        members.string(key!("connection"), name);
        client_certificate.iter().for_each(|name| members.string(key!("client_certificate"), name));

        self.path.clear();
        let mut members = ObjectWriter::continued(&mut self.path);
        members.name(key!("cc"), *cc);
        members.name(key!("ecn"), ecn.map(EcnState::name));
        match resume {
            Some(report) => append_resume(report, members.object(key!("resume"))),
            None => members.value(key!("resume"), ()),
        }
    }
}

impl OwnedConnection {
    fn of(connection: &LoggedConnection<'_>) -> Self {
        Self {
            name: connection.name.to_owned(),
            client_certificate: connection.client_certificate.map(str::to_owned),
            rest: LoggedConnection { name: "", client_certificate: None, ..*connection },
        }
    }

    fn is(&self, connection: &LoggedConnection<'_>) -> bool {
        let Self { name, client_certificate, rest } = self;
        let client_certificate = client_certificate.as_deref();
        *connection == LoggedConnection { name, client_certificate, ..*rest }
    }
}

/// Writes what Careful Resume has done on the connection. What differs by request follows.
fn append_resume(report: &ResumeSummary, mut object: ObjectWriter<'_>) {
    object.name(key!("phase"), Some(report.phase.name()));
    object.name(key!("trigger"), report.trigger.map(|trigger| trigger.name()));
    object.name(key!("source"), report.source.map(Source::name));
    object.value(key!("jump_bytes"), report.jump_bytes);
    object.value(key!("retreat"), report.retreated);
    object.name(key!("arm"), report.arm.map(Arm::name));
}
