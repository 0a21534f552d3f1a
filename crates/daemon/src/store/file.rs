//! File of the path memory: a redb database. A crash during a write leaves it as it was before that write.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableTable, StorageError, TableDefinition, TableError};
use rustix::fs::{FlockOperation, flock};
use timeous_cm::{Destination, Learnt, User};
use timeous_core::{Duration, Rate};

use super::error::{SetAside, StoreError};
use super::memory::{CAPACITY, Entry};
use crate::wall::WallTime;

/// Address (IPv4 mapped into IPv6), DSCP, user.
type Key = (u128, u8, Option<u32>);
/// Time (nanoseconds since 1970), window and threshold (bytes), smoothed RTT, its deviation and the minimum RTT (nanoseconds), rate (bits
/// per second), loss (parts per million).
type Value = (u64, u64, Option<u64>, u64, u64, u64, u64, u32);

/// The version is part of the name: columns with another meaning are another table.
const PATHS: TableDefinition<'_, Key, Value> = TableDefinition::new("paths-1");
const CACHE: usize = 1 << 20;
/// redb rejects damaged files, but in places trusts what it reads, and panics.
const UNREADABLE: &str = "it cannot be read";

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// `None` after a failed write: redb then refuses further ones until it is reopened.
    database: Option<Database>,
    /// Held as long as the file is open.
    _lock: fs::File,
}

type Entries = Vec<(Destination, Entry)>;

enum StoreFailure {
    Damaged(String),
    Error(StoreError),
}

impl StoreFailure {
    /// Converts damage that cannot be set aside now to an error.
    fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Damaged(why) => StoreError::Database { path: path.to_owned(), why },
        }
    }
}

impl File {
    pub(super) fn open(path: &Path) -> Result<(Self, Entries, Option<SetAside>), StoreError> {
        let io = |error| StoreError::Io { path: path.to_owned(), error };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(io)?;
        }
        // A lock besides redb's, which ends when a damaged file is moved away.
        let lock = lock(path)?;
        let (database, entries, set_aside) = match read(path) {
            Ok((database, entries)) => (database, entries, None),
            Err(StoreFailure::Error(error)) => return Err(error),
            // The path may name a file of another program, which must stay where it is.
            Err(StoreFailure::Damaged(why)) if !looks_like_ours(path) => {
                return Err(StoreError::Database { path: path.to_owned(), why });
            }
            Err(StoreFailure::Damaged(why)) => {
                let moved_to = beside(path, "damaged");
                fs::rename(path, &moved_to).map_err(io)?;
                let (database, entries) = read(path).map_err(|trouble| trouble.into_error(path))?;
                (database, entries, Some(SetAside { path: path.to_owned(), moved_to, why }))
            }
        };
        Ok((Self { path: path.to_owned(), database: Some(database), _lock: lock }, entries, set_aside))
    }

    /// Writes all changes or, if that fails, none.
    pub(super) fn apply(&mut self, changes: &[(Destination, Option<Entry>)]) -> Result<(), StoreError> {
        let database = match self.database.take() {
            Some(database) => database,
            None => read(&self.path).map_err(|trouble| trouble.into_error(&self.path))?.0,
        };
        let written = catch_unwind(AssertUnwindSafe(|| write(&database, changes)))
            .unwrap_or_else(|_| Err(boxed(StorageError::Corrupted(UNREADABLE.to_owned()))));
        written.map_err(|error| judge(&self.path, *error).into_error(&self.path))?;
        self.database = Some(database);
        Ok(())
    }
}

fn write(database: &Database, changes: &[(Destination, Option<Entry>)]) -> Result<(), BoxedError> {
    let transaction = database.begin_write().map_err(boxed)?;
    {
        let mut table = transaction.open_table(PATHS).map_err(boxed)?;
        for (destination, entry) in changes {
            match entry {
                Some(entry) => table.insert(key(destination), value(entry)),
                None => table.remove(key(destination)),
            }
            .map_err(boxed)?;
        }
    }
    transaction.commit().map_err(boxed)
}

/// Boxed, since it is large.
type BoxedError = Box<redb::Error>;

fn boxed(error: impl Into<redb::Error>) -> BoxedError {
    Box::new(error.into())
}

/// Returns whether a damaged file was a path memory, by its name or its first bytes.
fn looks_like_ours(path: &Path) -> bool {
    let mut first = [0; 4];
    let mut begins_so =
        || fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && &first == b"redb";
    path.extension().is_some_and(|extension| extension == "redb") || begins_so()
}

fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    path.with_file_name(name)
}

/// Takes the lock beside `path` and writes the holder into it.
fn lock(path: &Path) -> Result<fs::File, StoreError> {
    let io = |error| StoreError::Io { path: path.to_owned(), error };
    let mut lock = private().truncate(false).open(beside(path, "lock")).map_err(io)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let pid = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
            let holder = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            return Err(StoreError::InUse { path: path.to_owned(), holder });
        }
        Err(error) => return Err(io(error.into())),
    }
    let note = |lock: &mut fs::File| {
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}", std::process::id())
    };
    note(&mut lock).map_err(io)?;
    Ok(lock)
}

/// Returns options for private files: they show this host's peers.
fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// Opens the database and reads all of it, with checksums verified.
fn read(path: &Path) -> Result<(Database, Entries), StoreFailure> {
    let attempt = AssertUnwindSafe(|| {
        let file = private().truncate(false).open(path).map_err(boxed)?;
        let mut builder = redb::Builder::new();
        let mut database =
            builder.create_with_file_format_v3(true).set_cache_size(CACHE).create_file(file).map_err(boxed)?;
        database.check_integrity().map_err(boxed)?;
        let entries = entries(&database)?;
        Ok::<_, BoxedError>((database, entries))
    });
    match catch_unwind(attempt) {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(judge(path, *error)),
        Err(_) => Err(StoreFailure::Damaged(UNREADABLE.to_owned())),
    }
}

fn judge(path: &Path, error: redb::Error) -> StoreFailure {
    let path = path.to_owned();
    match error {
        redb::Error::DatabaseAlreadyOpen => {
            StoreFailure::Error(StoreError::InUse { path, holder: "another process".into() })
        }
        redb::Error::Io(error)
            if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            StoreFailure::Error(StoreError::Io { path, error })
        }
        other => StoreFailure::Damaged(other.to_string()),
    }
}

fn entries(database: &Database) -> Result<Entries, BoxedError> {
    let transaction = database.begin_read().map_err(boxed)?;
    let table = match transaction.open_table(PATHS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Entries::new()),
        Err(error) => return Err(boxed(error)),
    };
    // No valid file holds more: any further entries stay on the disk, unused.
    let rows = table.iter().map_err(boxed)?.take(2 * CAPACITY);
    rows.map(|row| row.map(|(key, value)| entry(key.value(), value.value())).map_err(boxed)).collect()
}

fn key(destination: &Destination) -> Key {
    let addr = match destination.addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    };
    (addr.to_bits(), destination.dscp, destination.user.map(|user| user.0))
}

fn value(entry: &Entry) -> Value {
    let Learnt { window, ssthresh, srtt, rttvar, min_rtt, rate, loss_ppm } = entry.learnt;
    let at = entry.at.elapsed().as_nanos();
    (at, window, ssthresh, srtt.as_nanos(), rttvar.as_nanos(), min_rtt.as_nanos(), rate.as_bps(), loss_ppm)
}

fn entry((addr, dscp, user): Key, value: Value) -> (Destination, Entry) {
    let (at, window, ssthresh, srtt, rttvar, min_rtt, rate, loss_ppm) = value;
    let nanos = Duration::from_nanos;
    let addr = Ipv6Addr::from_bits(addr).to_canonical();
    let destination = Destination { addr, dscp, source: None, user: user.map(User) };
    let learnt = Learnt {
        window,
        ssthresh,
        srtt: nanos(srtt),
        rttvar: nanos(rttvar),
        min_rtt: nanos(min_rtt),
        rate: Rate::from_bps(rate),
        loss_ppm,
    };
    (destination, Entry { learnt, at: WallTime::since_epoch(nanos(at)) })
}
