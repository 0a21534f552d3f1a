//! (under construction)

mod emulate;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "timeous")]
enum Tool {
    Emulate(emulate::EmulateArgs),
}

fn main() -> std::process::ExitCode {
    let Tool::Emulate(args) = Tool::parse();
    match emulate::run(args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("timeous: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
