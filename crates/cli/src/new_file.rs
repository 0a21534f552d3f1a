//! New files with secrets, which nobody else can read, and which replace no other file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::failure::Failure;

/// Writes a new file that only this user can read.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text, 0o600)
}

/// Writes a new file that all users can read.
pub(crate) fn write_public(path: &Path, text: &str) -> Result<(), Failure> {
    write(path, text, 0o644)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let name = path.display().to_string();
    let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = created.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::Environment(format!("{name} exists, and is not overwritten: name another, or remove it"))
        }
        _ => Failure::file(&name, &error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::file(&name, &error))
}
