//! The binary `timeous-demo`: demonstrations of Timeous with real processes over emulated links.

mod adapt;
mod arrivals;
mod camera;
mod chain;
mod compared;
mod error;
mod ffmpeg;
mod journal;
mod link;
mod live;
mod process;
mod report;
mod tool;
mod ts;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use timeous_testbed::Progress;

/// Streams a live video over a link of half its rate: plain UDP, a plain queue, Timeous
///
/// Writes a table, and a page with plots and the three received videos. Exit codes: 0 all promises hold, 1 one does not,
/// 2 the command line is wrong, 3 the clip is none, 4 the machine lacks something.
#[derive(Debug, Parser)]
#[command(name = "timeous-demo", version, disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
struct Demo {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    live: live::LiveArgs,
}

/// Demonstrations besides the main one.
#[derive(Debug, Subcommand)]
enum Other {
    Adapt(adapt::AdaptArgs),
    Camera(camera::CameraArgs),
    Ts(ts::TsArgs),
}

fn main() -> ExitCode {
    let Demo { other, live } = Demo::parse();
    let held = match other {
        None => live::run(&live),
        Some(Other::Adapt(args)) => adapt::run(&args),
        Some(Other::Camera(args)) => camera::run(&args, &Progress::default()),
        Some(Other::Ts(args)) => ts::run(&args, &Progress::default()),
    };
    ExitCode::from(held.map_or_else(
        |error| {
            eprintln!("timeous-demo: {error}");
            error.exit_code()
        },
        |held| u8::from(!held),
    ))
}
