//! `timeous cm`: commands for the host's Congestion Manager.

mod kernel_tcp;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Applies the host's Congestion Manager to traffic other than Timeous streams
#[derive(Debug, Args)]
pub(crate) struct CmArgs {
    #[command(subcommand)]
    command: CmCommand,
}

#[derive(Debug, Subcommand)]
enum CmCommand {
    KernelTcp(kernel_tcp::KernelTcpArgs),
}

/// Runs the command.
pub(crate) fn run(args: CmArgs) -> Result<(), Failure> {
    match args.command {
        CmCommand::KernelTcp(args) => kernel_tcp::run(&args),
    }
}
