//! `timeous cm`: what concerns the Congestion Manager of the whole host.

mod kernel_tcp;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// What the Congestion Manager of this host does beside our own streams
#[derive(Debug, Args)]
pub(crate) struct CmArgs {
    #[command(subcommand)]
    command: CmCommand,
}

#[derive(Debug, Subcommand)]
enum CmCommand {
    KernelTcp(kernel_tcp::KernelTcpArgs),
}

/// Runs it.
pub(crate) fn run(args: CmArgs) -> Result<(), Failure> {
    match args.command {
        CmCommand::KernelTcp(args) => kernel_tcp::run(&args),
    }
}
