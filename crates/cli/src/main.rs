//! The `timeous` command line tool: sends and receives live video, makes credentials, examines paths, emulates links, runs other programs
//! with congestion control, and runs and inspects the daemon.

// By `notice`, which writes a message at once.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod adapt;
mod caller;
mod cert;
mod cm;
mod daemon;
mod daemon_link;
mod emulate;
mod failure;
mod figures;
mod files;
mod help;
mod input;
mod interrupt;
mod journal;
mod meter;
mod new_file;
mod notice;
mod output;
mod passphrase;
mod paths;
mod place;
mod plain;
mod probe;
mod random;
mod recv;
mod reference;
mod run;
mod security;
mod send;
mod source;
mod top;
mod track;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Sends data that goes stale: in time, or not at all
///
/// The sender may drop or replace data up to the instant at which congestion control lets it leave.
#[derive(Debug, Parser)]
#[command(name = "timeous", version, after_help = failure::exit_codes())]
struct Tool {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Send(send::SendArgs),
    Recv(recv::RecvArgs),
    Passphrase(passphrase::PassphraseArgs),
    Cert(cert::CertArgs),
    Emulate(Box<emulate::EmulateArgs>),
    Cm(cm::CmArgs),
    Daemon(Box<daemon::DaemonArgs>),
    Top(top::TopArgs),
    Paths(paths::PathsArgs),
    Probe(probe::ProbeArgs),
    Run(run::RunArgs),
    /// Prints the reference: URI keys, policies, controllers, statistics and exit codes, as Markdown
    Reference,
}

fn main() -> ExitCode {
    let done = match Tool::parse().command {
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Passphrase(args) => passphrase::run(&args),
        Command::Cert(args) => cert::run(&args),
        Command::Cm(args) => cm::run(args),
        Command::Daemon(args) => daemon::run(*args),
        Command::Top(args) => top::run(&args),
        Command::Paths(args) => paths::run(args),
        Command::Probe(args) => probe::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Reference => reference::run(),
        Command::Emulate(args) => emulate::run(*args).map_err(Failure::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            notice::tell(&failure);
            failure.code()
        }
    }
}
