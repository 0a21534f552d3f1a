//! Path memory: persistence, expiry and damaged files.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use timeous_cm::{Destination, Learnt, User};
use timeous_core::{Duration, Rate};

use super::{CAPACITY, KEEP, Store, StoreError};
use crate::wall::WallTime;

const NOW: WallTime = WallTime::since_epoch(Duration::from_secs(1_700_000_000));
const HOUR: Duration = Duration::from_secs(3_600);

fn later(by: Duration) -> WallTime {
    WallTime::since_epoch(NOW.elapsed() + by)
}

fn host(n: u32) -> Destination {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)).into()
}

fn of(user: u32, n: u32) -> Destination {
    Destination { user: Some(User(user)), ..host(n) }
}

fn learnt(window: u64) -> Learnt {
    Learnt {
        window,
        ssthresh: Some(window / 2),
        srtt: Duration::from_millis(40),
        rttvar: Duration::from_millis(4),
        min_rtt: Duration::from_millis(30),
        rate: Rate::from_kbps(1_000),
        loss_ppm: 10_000,
    }
}

struct StoreDirectory {
    dir: tempfile::TempDir,
}

impl StoreDirectory {
    fn new() -> Self {
        // In memory if possible: the tests concern the file's content, not the disk.
        Self { dir: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("paths.redb")
    }

    fn open(&self) -> Store {
        let (store, set_aside) = Store::open(&self.path(), NOW).unwrap();
        assert_eq!(set_aside, None);
        store
    }

    /// Creates a path memory with one entry, closes it, and returns its path.
    fn filled(&self) -> PathBuf {
        self.open().learn(host(1), learnt(48_000), NOW);
        self.path()
    }

    /// Checks that a damaged file is set aside, and that a new one is created and works.
    #[track_caller]
    fn is_set_aside(&self, damaged: &[u8]) {
        let (store, told) = Store::open(&self.path(), NOW).unwrap();
        let told = told.expect("the damage is told");
        assert_eq!(fs::read(&told.moved_to).unwrap(), damaged, "what was damaged is still there to be looked at");
        assert!(told.to_string().contains("was moved to"), "{told}");
        assert!(store.is_empty());
        store.learn(host(2), learnt(1_000), NOW);
        drop(store);
        assert_eq!(self.open().len(), 1);
    }
}

#[test]
fn what_was_learnt_outlives_the_store_with_its_age() {
    let room = StoreDirectory::new();
    let v6 = Destination { dscp: 46, ..Destination::from(IpAddr::V6("2001:db8::7".parse().unwrap())) };
    let store = room.open();
    store.learn(host(1), learnt(48_000), NOW);
    store.learn(v6, Learnt { ssthresh: None, ..learnt(7) }, later(HOUR));
    drop(store);
    let store = room.open();
    assert_eq!(store.recall(&host(1), later(HOUR)), Some((learnt(48_000), HOUR)));
    assert_eq!(store.recall(&v6, later(HOUR)), Some((Learnt { ssthresh: None, ..learnt(7) }, Duration::ZERO)));
    assert_eq!(store.recall(&host(2), NOW), None);
    assert_eq!(store.recall(&Destination { dscp: 46, ..host(1) }, NOW), None, "another code point is another path");
}

#[test]
fn users_do_not_see_each_others_paths() {
    let room = StoreDirectory::new();
    let store = room.open();
    store.learn(of(1000, 1), learnt(10_000), NOW);
    store.learn(of(1001, 1), learnt(90_000), NOW);
    drop(store);
    let store = room.open();
    assert_eq!(store.recall(&of(1000, 1), NOW).unwrap().0.window, 10_000);
    assert_eq!(store.recall(&of(1001, 1), NOW).unwrap().0.window, 90_000);
    assert_eq!(store.recall(&of(1002, 1), NOW), None);
    assert_eq!(store.recall(&host(1), NOW), None, "what users say is not what the host found out");
}

#[test]
fn what_nobody_used_for_long_is_forgotten() {
    let room = StoreDirectory::new();
    let store = room.open();
    store.learn(host(1), learnt(1), NOW);
    assert!(store.recall(&host(1), later(KEEP)).is_some());
    assert_eq!(store.recall(&host(1), later(KEEP + HOUR)), None);
    store.learn(host(2), learnt(2), later(KEEP + HOUR));
    assert_eq!(store.len(), 1);
    drop(store);
    let (store, _) = Store::open(&room.path(), later(KEEP + HOUR + HOUR)).unwrap();
    assert_eq!(
        store.remembered(NOW).len() + store.len(),
        1,
        "on the disk, too; and seen from before, it lies too far ahead"
    );
}

#[test]
fn a_clock_that_went_back_makes_things_older_never_fresher() {
    let store = StoreDirectory::new().open();
    store.learn(host(1), learnt(1), later(HOUR));
    assert_eq!(store.recall(&host(1), NOW).unwrap().1, HOUR);
    assert_eq!(store.recall(&host(1), WallTime::since_epoch(Duration::ZERO)), None);
}

#[test]
fn memory_is_bounded_and_who_has_the_most_loses_the_oldest() {
    let room = StoreDirectory::new();
    let store = room.open();
    store.learn(of(1, 0), learnt(1), NOW);
    for n in 0..CAPACITY as u32 + 600 {
        store.learn(of(2, n), learnt(2), later(Duration::from_millis(n.into())));
    }
    assert_eq!(store.len(), CAPACITY);
    assert!(store.recall(&of(1, 0), later(HOUR)).is_some(), "older than all others, but the only one of its user");
    assert!(store.recall(&of(2, CAPACITY as u32 + 599), later(HOUR)).is_some());
    assert!(store.recall(&of(2, 600), later(HOUR)).is_none());
    drop(store);
    assert_eq!(room.open().len(), CAPACITY);
}

#[test]
fn what_is_seen_again_soon_is_merged_and_never_bolder_than_the_last_view() {
    let store = StoreDirectory::new().open();
    store.learn(host(1), learnt(40_000), NOW);
    let worse = Learnt { srtt: Duration::from_millis(80), min_rtt: Duration::from_millis(60), ..learnt(20_000) };
    store.learn(host(1), worse, later(HOUR));
    let merged = store.recall(&host(1), later(HOUR)).unwrap().0;
    assert_eq!((merged.window, merged.ssthresh), (20_000, Some(10_000)));
    assert_eq!((merged.srtt, merged.min_rtt), (Duration::from_millis(60), Duration::from_millis(30)));
    store.learn(host(1), learnt(60_000), later(HOUR));
    assert_eq!(store.recall(&host(1), later(HOUR)).unwrap().0.window, 40_000, "half of the way up");
    store.learn(host(1), worse, later(HOUR + HOUR + Duration::from_nanos(1)));
    assert_eq!(store.recall(&host(1), later(HOUR)).unwrap().0, worse, "what is old is replaced");
}

#[test]
fn what_is_to_be_forgotten_is_gone_from_the_disk_too() {
    let room = StoreDirectory::new();
    let store = room.open();
    (0..10).for_each(|n| store.learn(of(n % 2, n), learnt(1), NOW));
    store.flush();
    assert_eq!(store.forget(|destination| destination.user == Some(User(1))), 5);
    assert_eq!(store.forget(|_| false), 0);
    drop(store);
    let store = room.open();
    assert_eq!(store.len(), 5);
    assert!(store.remembered(NOW).iter().all(|path| path.destination.user == Some(User(0))));
}

#[test]
fn two_stores_on_one_file_are_refused() {
    let room = StoreDirectory::new();
    let store = room.open();
    let error = Store::open(&room.path(), NOW).unwrap_err();
    assert!(matches!(&error, StoreError::InUse { holder, .. } if holder.contains(&std::process::id().to_string())));
    assert!(error.to_string().contains("in use"), "{error}");
    store.learn(host(1), learnt(1), NOW);
    drop(store);
    assert_eq!(room.open().len(), 1, "and the first one is not disturbed");
}

#[test]
fn a_place_that_cannot_be_used_is_the_environments_fault() {
    let room = StoreDirectory::new();
    let file = room.filled();
    let error = Store::open(&file.join("below-a-file"), NOW).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    let error = Store::open(room.dir.path(), NOW).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "a directory: {error}");
    assert!(room.dir.path().exists(), "and is not set aside");
}

#[test]
fn only_its_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let file = StoreDirectory::new();
    let mode = fs::metadata(file.filled()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_no_path_memory_is_set_aside() {
    let room = StoreDirectory::new();
    fs::write(room.path(), b"this is a letter to my aunt").unwrap();
    room.is_set_aside(b"this is a letter to my aunt");
    // A second damaged file replaces the first one that was set aside.
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(room.path(), &noise).unwrap();
    room.is_set_aside(&noise);
}

#[test]
fn a_file_of_another_kind_is_left_where_it_is() {
    let room = StoreDirectory::new();
    let letter = room.dir.path().join("letter.txt");
    fs::write(&letter, b"dear aunt").unwrap();
    let error = Store::open(&letter, NOW).unwrap_err();
    assert!(matches!(error, StoreError::Database { .. }) && error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(fs::read(&letter).unwrap(), b"dear aunt");
    // A path memory is recognised by its first bytes, whatever its name is.
    let mut damaged = fs::read(room.filled()).unwrap();
    damaged[9..400].fill(0xff);
    fs::write(&letter, &damaged).unwrap();
    assert!(Store::open(&letter, NOW).unwrap().1.is_some());
}

#[test]
fn a_truncated_file_is_set_aside_or_read() {
    let whole = fs::read(StoreDirectory::new().filled_with(300)).unwrap();
    for len in [1, 8, 100, 320, 4_096, 5_000, whole.len() / 2, whole.len() - 4_096, whole.len() - 1] {
        let room = StoreDirectory::new();
        fs::write(room.path(), &whole[..len]).unwrap();
        room.is_set_aside(&whole[..len]);
    }
    let room = StoreDirectory::new();
    fs::write(room.path(), b"").unwrap();
    assert_eq!(room.open().len(), 0, "an empty file is one that a crash left before its first write");
}

#[test]
fn flipped_bits_are_found_or_do_not_matter() {
    let whole = fs::read(StoreDirectory::new().filled_with(300)).unwrap();
    let mut rng = timeous_core::Rng::from_seed(7);
    let (mut aside, mut read) = (0, 0);
    for round in 0..40 {
        let mut damaged = whole.clone();
        // The header and the used pages are at the file's beginning.
        let within = if round % 3 == 0 { 512 } else { 128 << 10 };
        let at = rng.below(within.min(whole.len() as u64)) as usize;
        damaged[at] ^= 1 << rng.below(8);
        let room = StoreDirectory::new();
        fs::write(room.path(), &damaged).unwrap();
        let (store, told) = Store::open(&room.path(), NOW).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        if told.is_some() {
            aside += 1;
            assert_eq!(store.len(), 0);
        } else {
            read += 1;
            for path in store.remembered(NOW) {
                assert_eq!(path.learnt, learnt(48_000), "byte {at}: what is read is what was written");
            }
        }
        store.learn(host(1), learnt(1), NOW);
        store.flush();
        assert_eq!(store.failures(), 0, "byte {at}");
    }
    assert!(aside > 0 && read > 0, "{aside} set aside, {read} read");
}

impl StoreDirectory {
    fn filled_with(&self, entries: u32) -> PathBuf {
        let store = self.open();
        (0..entries).for_each(|n| store.learn(host(n), learnt(48_000), NOW));
        self.path()
    }
}
