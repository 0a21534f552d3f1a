//! `timeous cert`: makes a self-signed certificate with its key, and prints fingerprints.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use timeous::Fingerprint;
use timeous::seal::{CredentialError, Identity, read_certificates};

use crate::failure::Failure;
use crate::new_file::{write_public, write_secret};

/// Name of the files in a directory.
const NAME: &str = "timeous";

/// Makes a certificate and its private key, and prints the fingerprint by which callers know it
///
/// The certificate signs itself. A caller that was told its fingerprint needs no authority; one that has the certificate
/// itself can name it as ca=FILE, and then calls the host by a --name.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  timeous cert --out .                      # timeous.pem, timeous.key, and the fingerprint
  timeous cert --name camera.example --out /etc/timeous/camera
  timeous cert --show timeous.pem
  timeous recv 'timeous://:7000?cert=timeous.pem&key=timeous.key' out.mp4
  timeous send clip.h264 'timeous://receiver.example:7000?fingerprint=sha256:…'")]
pub(crate) struct CertArgs {
    /// Host name or IP address of this end; may be repeated [default: this host's name]
    #[arg(long = "name", value_name = "HOST", conflicts_with = "show")]
    names: Vec<String>,
    /// Directory for timeous.pem and timeous.key, or the beginning of the names: PREFIX.pem and PREFIX.key
    #[arg(long, value_name = "DIRECTORY|PREFIX", required_unless_present = "show", conflicts_with = "show")]
    out: Option<PathBuf>,
    /// Print the fingerprint of the first certificate in this PEM file
    #[arg(long, value_name = "FILE")]
    show: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &CertArgs) -> Result<(), Failure> {
    let fingerprint = match (&args.show, &args.out) {
        (Some(path), _) => shown(path)?,
        (None, Some(out)) => made(&args.names, out)?,
        (None, None) => return Err(Failure::Usage("give --out, or --show".to_owned())),
    };
    let written = writeln!(std::io::stdout(), "{fingerprint}");
    written.map_err(|error| Failure::file("standard output", &error))
}

fn shown(path: &Path) -> Result<Fingerprint, Failure> {
    let name = path.display().to_string();
    let pem = std::fs::read(path).map_err(|error| Failure::file(&name, &error))?;
    let wrong = |error: CredentialError| Failure::Input(format!("{name}: {error}"));
    let certificates = read_certificates(&pem).map_err(wrong)?;
    Ok(Fingerprint::of(certificates.first().expect("there is one, or an error")))
}

fn made(names: &[String], out: &Path) -> Result<Fingerprint, Failure> {
    let names = if names.is_empty() { vec![own_name()?] } else { names.to_vec() };
    let (identity, certificate, key) = Identity::with_pem(&names).map_err(|error| Failure::Usage(error.to_string()))?;
    let (certificate_path, key_path) = paths(out);
    write_secret(&key_path, &key)?;
    if let Err(failure) = write_public(&certificate_path, &certificate) {
        // A key without its certificate is of no use, and would be in the way of the next attempt.
        let _ = std::fs::remove_file(&key_path);
        return Err(failure);
    }
    Ok(identity.fingerprint())
}

/// This host's name.
fn own_name() -> Result<String, Failure> {
    const NAME: &str = "/proc/sys/kernel/hostname";
    let name = std::fs::read_to_string(NAME).map_err(|error| Failure::file(NAME, &error))?;
    Ok(name.trim_end().to_owned())
}

/// Paths of certificate and key.
fn paths(out: &Path) -> (PathBuf, PathBuf) {
    let is_directory = out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
    let prefix = if is_directory { out.join(NAME) } else { out.to_owned() };
    let with = |ending: &str| {
        let mut name = prefix.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    (with(".pem"), with(".key"))
}
