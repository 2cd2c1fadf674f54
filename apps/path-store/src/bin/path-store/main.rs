//! Program that shows and edits a store of saved parameters, also while servers use it.

mod cli;
mod failure;
mod gain;
mod gain_plot;
mod import_export;
mod selector;
mod show;
mod watch;

use std::io;
use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use command_line::Program;
use path_store::Admin;
use path_store::Backend;
use path_store::Entry;
use path_store::HashKeys;
use path_store::Role;

use crate::cli::Cli;
use crate::cli::Command;
use crate::cli::Filter;
use crate::cli::StoreCommand;
use crate::failure::is_broken_pipe;
use crate::failure::Failure;
use crate::selector::Key;
use crate::selector::Selector;
use crate::show::Stats;

const PROGRAM: Program = Program("path-store");

fn main() -> ExitCode {
    let cli: Cli = match command_line::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    let done = match &cli.command {
        Command::Gain(args) => gain::gain(args, cli.json),
        Command::OfStore(command) => match cli.store() {
            Ok(store) => run(&cli, store, command, quiche::clock::wall_now()),
            Err(stop) => return PROGRAM.stop(&stop),
        },
    };

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => PROGRAM.fail(failure),
    }
}

fn run(
    cli: &Cli,
    store: &str,
    command: &StoreCommand,
    wall_now: SystemTime,
) -> Result<(), Failure> {
    let store = path_store::open(store, Role::Tool, cli.store_entries as usize)?;
    let admin = store
        .admin()
        .ok_or("memory: a store in memory is seen by its own process alone; name a file's path")?;
    let keys = cli.hash_keys.as_deref().map(HashKeys::read).transpose()?;
    let with_pseudonyms = |prefix: &Selector| match &keys {
        Some(keys) => prefix.clone().with_hash_keys(keys),
        None => prefix.clone(),
    };

    match command {
        StoreCommand::List(filter) => {
            let prefix = filter.prefix.as_ref().map(with_pseudonyms);
            let filter = Filter { prefix, ..filter.clone() };
            print_entries(cli, &select(admin, &filter)?, wall_now)
        }
        StoreCommand::Get { prefix } => {
            print_entries(cli, &select_some(cli, admin, with_pseudonyms(prefix))?, wall_now)
        }
        StoreCommand::Put(put) => import_export::put(cli, admin, put, keys.as_ref(), wall_now),
        StoreCommand::Delete { prefix } => delete(cli, admin, with_pseudonyms(prefix)),
        StoreCommand::Flush => flush(cli, store.as_ref()),
        StoreCommand::Stats => stats(cli, admin, wall_now),
        StoreCommand::Export => import_export::export(admin),
        StoreCommand::Import => import_export::import(cli, admin, io::stdin().lock(), wall_now),
        StoreCommand::Watch { interval } => watch::watch(admin, *interval, cli.json),
    }
}

/// Returns the entries that match the filter.
fn select(admin: &dyn Admin, filter: &Filter) -> Result<Vec<Entry>, Failure> {
    let mut selected = Vec::new();
    admin.entries(&mut |entry| {
        if matches(filter, &entry) {
            selected.push(entry);
        }
    })?;

    Ok(selected)
}

fn matches(filter: &Filter, entry: &Entry) -> bool {
    let key = Key::parse(&entry.endpoint);
    let sender = key.as_ref().map(|key| key.sender);
    let dscp = key.as_ref().and_then(|key| key.dscp);

    filter.prefix.as_ref().is_none_or(|prefix| prefix.matches(&entry.endpoint))
        && filter.sender.as_deref().is_none_or(|wanted| sender == Some(wanted))
        && filter.dscp.is_none_or(|wanted| dscp == Some(wanted))
        && (!filter.claimed || entry.lease.is_some())
        && (!filter.held_off || entry.hold_off.is_some())
}

fn select_some(cli: &Cli, admin: &dyn Admin, prefix: Selector) -> Result<Vec<Entry>, Failure> {
    let filter = Filter { prefix: Some(prefix), ..Filter::default() };
    let entries = select(admin, &filter)?;
    if let (true, Some(prefix)) = (entries.is_empty(), &filter.prefix) {
        let store = cli.store_name();
        return Err(format!("{store}: no entry for {prefix}; `list` shows all").into());
    }

    Ok(entries)
}

fn print_entries(cli: &Cli, entries: &[Entry], wall_now: SystemTime) -> Result<(), Failure> {
    let mut out = io::stdout().lock();

    if !cli.json {
        writeln!(out, "{}", show::table(entries, wall_now))?;
        return Ok(());
    }
    for entry in entries {
        writeln!(out, "{}", show::json(entry)?)?;
    }

    Ok(())
}

fn delete(cli: &Cli, admin: &dyn Admin, prefix: Selector) -> Result<(), Failure> {
    let mut deleted = 0;
    for entry in select_some(cli, admin, prefix)? {
        deleted += usize::from(admin.delete(&entry.endpoint)?);
    }

    print_count(cli, deleted, if deleted == 1 { "entry" } else { "entries" })
}

fn flush(cli: &Cli, store: &dyn Backend) -> Result<(), Failure> {
    let deleted = store.flush()?;
    print_count(cli, deleted, if deleted == 1 { "record" } else { "records" })
}

fn print_count(cli: &Cli, deleted: usize, what: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();

    match cli.json {
        true => writeln!(out, "{}", serde_json::json!({ "deleted": deleted }))?,
        false => writeln!(out, "{deleted} {what} deleted")?,
    }

    Ok(())
}

fn stats(cli: &Cli, admin: &dyn Admin, wall_now: SystemTime) -> Result<(), Failure> {
    let mut stats = Stats::new(admin.size()?, admin.totals()?);
    admin.entries(&mut |entry| stats.add(&entry, wall_now))?;
    stats.finish();

    match cli.json {
        true => writeln!(io::stdout(), "{}", serde_json::to_string(&stats)?)?,
        false => writeln!(io::stdout(), "{}", stats.table())?,
    }

    Ok(())
}
