//! `timeous passphrase`: makes a passphrase that cannot be guessed.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use timeous::generate_passphrase;

use crate::failure::Failure;
use crate::new_file::write_secret;

/// Makes a passphrase for streams between two hosts
///
/// It has 130 random bits. Both ends read it from a file, or an environment variable: passphrase=file:PATH or
/// passphrase=env:NAME in the URI.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  timeous passphrase --out pass
  scp pass receiver.example:
  timeous recv 'timeous://:7000?passphrase=file:pass' out.mp4                           # there
  timeous send clip.h264 'timeous://receiver.example:7000?passphrase=file:pass'         # here")]
pub(crate) struct PassphraseArgs {
    /// Write it to this new file, which only you can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &PassphraseArgs) -> Result<(), Failure> {
    let mut line = generate_passphrase();
    line.push('\n');
    match &args.out {
        Some(path) => write_secret(path, &line),
        None => {
            let written = std::io::stdout().write_all(line.as_bytes());
            written.map_err(|error| Failure::file("standard output", &error))
        }
    }
}
