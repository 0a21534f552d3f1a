//! Demonstrations, and the experiments of the papers: the binary `timeous-lab`.

mod demo;
mod report;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Demonstrates Timeous, and repeats the experiments of the papers
#[derive(Debug, Parser)]
#[command(name = "timeous-lab", version)]
struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Demo(demo::DemoArgs),
    /// Lists what can be run
    List,
}

/// Every experiment by name, and what it shows.
const EXPERIMENTS: [(&str, &str); 1] =
    [("demo", "a live video over a link of half its rate: plain UDP, a plain queue, Timeous")];

fn main() -> ExitCode {
    match Lab::parse().experiment {
        Experiment::List => {
            for (name, what) in EXPERIMENTS {
                println!("{name:<8}{what}");
            }
            ExitCode::SUCCESS
        }
        Experiment::Demo(args) => match demo::run(&args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(error) => {
                eprintln!("timeous-lab: {error}");
                ExitCode::from(error.exit_code())
            }
        },
    }
}
