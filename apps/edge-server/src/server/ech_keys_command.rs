//! Command that makes a key of Encrypted Client Hello (`edge-server ech-keys`).

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use path_store::small_file;

use crate::config::PROGRAM;
use crate::quic::ech_config::EchKey;

/// Makes a key for --ech-keys, and prints what is to be published in DNS.
///
/// Without --public-name, prints that of a file that is there. Exit codes: 0 done, 1 failed, 2 bad
/// usage.
#[derive(Debug, Parser)]
#[command(name = "edge-server ech-keys", bin_name = "edge-server ech-keys")]
pub struct EchKeysCli {
    /// File of the key and its configuration, PEM; a new one is readable by its owner alone
    file: PathBuf,

    /// Make the file, for clients that send this name in the clear
    #[arg(long, value_name = "NAME")]
    public_name: Option<String>,
}

/// Runs the command, whose name is the first of `args`.
pub fn main(args: &[OsString]) -> ExitCode {
    let cli: EchKeysCli = match command_line::parse(args) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    match run(&cli) {
        Ok(key) => {
            PROGRAM.print(format_args!("ech={}\n", key.dns_value()));
            ExitCode::SUCCESS
        }
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

fn run(cli: &EchKeysCli) -> anyhow::Result<EchKey> {
    let name = cli.file.display();
    if let Some(public_name) = &cli.public_name {
        let key = EchKey::generate(public_name)?;
        write(&cli.file, &key.to_pem()?).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "{name} is there already; name another file, or leave out --public-name to print its \
                 value for DNS"
            ),
            ErrorKind::NotFound => anyhow!("cannot make {name}: its folder does not exist; make that"),
            _ => anyhow!("cannot make {name}: {e}"),
        })?;
        return Ok(key);
    }
    let pem = small_file::read(&cli.file).map_err(|e| match e.kind() {
        ErrorKind::NotFound => anyhow!("cannot read {name}: {e}; make it with --public-name"),
        _ => anyhow!("cannot read {name}: {e}; name a file that this user may read"),
    })?;
    EchKey::from_pem(&pem).map_err(|e| anyhow!("{name} {e}; make another with --public-name"))
}

/// Writes a file that is not there yet.
fn write(path: &Path, pem: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()
}
