//! The command line tool: sends and receives what goes stale, and emulates links to try it on.

mod cm;
mod emulate;
mod failure;
mod help;
mod input;
mod interrupt;
mod journal;
mod meter;
mod output;
mod place;
mod plain;
mod recv;
mod send;
mod source;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Sends data that goes stale: in time, or not at all
///
/// The sender keeps the last word on what leaves, up to the instant at which congestion control lets it leave.
#[derive(Debug, Parser)]
#[command(name = "timeous", version, after_help = failure::EXIT_CODES)]
struct Tool {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Send(send::SendArgs),
    Recv(recv::RecvArgs),
    Emulate(Box<emulate::EmulateArgs>),
    Cm(cm::CmArgs),
}

fn main() -> ExitCode {
    let done = match Tool::parse().command {
        Command::Send(args) => send::run(&args),
        Command::Recv(args) => recv::run(&args),
        Command::Cm(args) => cm::run(args),
        Command::Emulate(args) => emulate::run(*args).map_err(|error| Failure::Environment(error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("timeous: {failure}");
            failure.code()
        }
    }
}
