//! Program to be run: where it is, and whether a library can be preloaded into it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use crate::failure::Failure;

/// Mode bits of a file that runs as its owner or its group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
/// Type of the program header that names the dynamic loader (`PT_INTERP`).
const INTERPRETER: u32 = 3;
/// Class of 64-bit and of 32-bit files (`EI_CLASS`).
const CLASS: u8 = if cfg!(target_pointer_width = "64") { 2 } else { 1 };
/// Most bytes of a script's first line (Linux's BINPRM_BUF_SIZE).
const FIRST_LINE: u64 = 256;

/// Program to be run.
#[derive(Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    /// Finds a program as a shell does.
    pub(super) fn find(name: &OsStr) -> Result<Self, Failure> {
        let missing = || Failure::Environment(format!("there is no program {}", name.display()));
        if name.as_bytes().contains(&b'/') {
            return Path::new(name).is_file().then(|| Self(name.into())).ok_or_else(missing);
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let is_program =
            |place: &PathBuf| place.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(is_program)
            .map(Self)
            .ok_or_else(missing)
    }

    /// Path of the program.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Refuses a program into which the dynamic loader would load no library, or not this one.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let cannot_read = |error: std::io::Error| Failure::file(&self.0.display().to_string(), &error);
        let file = match File::open(&self.0) {
            Ok(file) => file,
            // One may run what one may not read.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(()),
            Err(error) => return Err(cannot_read(error)),
        };
        let status = file.metadata().map_err(cannot_read)?;
        let is_other_user = status.mode() & SET_USER != 0 && status.uid() != geteuid().as_raw();
        let is_other_group = status.mode() & SET_GROUP != 0 && status.gid() != getegid().as_raw();
        let has_rights = !geteuid().is_root()
            && rustix::fs::fgetxattr(&file, "security.capability", &mut [0; 64]).is_ok_and(|len| len > 0);
        if is_other_user || is_other_group || has_rights {
            return Err(self
                .refuse("it runs with more rights than yours (setuid, setgid or capabilities), and loads no library"));
        }
        let mut head = Vec::new();
        (&file).take(FIRST_LINE).read_to_end(&mut head).map_err(cannot_read)?;
        match head.as_slice() {
            [b'#', b'!', line @ ..] => interpreter(line).map_or(Ok(()), |program| Self(program).check()),
            [0x7f, b'E', b'L', b'F', class, ..] if *class != CLASS => {
                Err(self.refuse("it is for another word size than libtimeous_run.so"))
            }
            [0x7f, b'E', b'L', b'F', ..] if !is_dynamic(&file, &head).unwrap_or(true) => {
                Err(self.refuse("it is linked statically, and loads no library"))
            }
            _ => Ok(()),
        }
    }

    fn refuse(&self, why: &str) -> Failure {
        Failure::Usage(format!("{} cannot be run with congestion control: {why}", self.0.display()))
    }
}

/// Interpreter that the first line of a script names.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    Some(PathBuf::from(OsStr::from_bytes(words.next()?))).filter(|path| path.is_file())
}

/// Whether an ELF file names a dynamic loader; `None` if its headers cannot be read.
fn is_dynamic(file: &File, head: &[u8]) -> Option<bool> {
    let is_64 = CLASS == 2;
    let word = |at: usize, len: usize| -> Option<u64> {
        // The file is for this machine, and has its byte order.
        let bytes = head.get(at..at + len)?;
        Some(match len {
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    };
    // e_phoff, e_phentsize and e_phnum.
    let (table, size, count) = match is_64 {
        true => (word(32, 8)?, word(54, 2)?, word(56, 2)?),
        false => (word(28, 4)?, word(42, 2)?, word(44, 2)?),
    };
    for number in 0..count {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, table.checked_add(number * size)?).ok()?;
        if u32::from_ne_bytes(kind) == INTERPRETER {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refused(path: &Path) -> String {
        Program(path.into()).check().expect_err("it is refused").to_string()
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let shell = Program::find(OsStr::new("sh")).unwrap();
        assert!(shell.path().is_absolute());
        shell.check().unwrap();
        Program::find(OsStr::new("/bin/sh")).unwrap();
        assert!(matches!(Program::find(OsStr::new("no-such-program")), Err(Failure::Environment(_))));
        assert!(matches!(Program::find(OsStr::new("/bin/no-such-program")), Err(Failure::Environment(_))));
    }

    #[test]
    fn static_and_foreign_programs_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("program");
        let whole = fs::read(fs::canonicalize("/bin/sh").unwrap()).unwrap();
        // No program header is left.
        let mut fixed = whole.clone();
        let count = if CLASS == 2 { 56 } else { 44 };
        fixed[count..count + 2].fill(0);
        fs::write(&at, &fixed).unwrap();
        assert!(refused(&at).contains("statically"));
        let script = directory.path().join("script");
        fs::write(&script, format!("#! {} -e\n", at.display())).unwrap();
        assert!(refused(&script).contains("statically"), "what runs is its interpreter");
        let mut foreign = whole;
        foreign[4] = 3 - CLASS;
        fs::write(&at, &foreign).unwrap();
        assert!(refused(&at).contains("word size"));
    }

    #[test]
    fn a_program_with_other_rights_is_refused() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED a_program_with_other_rights_is_refused: needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("program");
        fs::copy(fs::canonicalize("/bin/sh").unwrap(), &at).unwrap();
        std::os::unix::fs::chown(&at, Some(1), Some(1)).unwrap();
        for mode in [0o4755, 0o2755] {
            fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
            assert!(refused(&at).contains("rights"), "{mode:o}");
        }
    }
}
