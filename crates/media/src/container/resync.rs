//! Reader of a damaged Matroska file that goes on with the next cluster.

use std::io::{Read, Result, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::read::find;

/// Identifier of a cluster (RFC 9559 §5.1.3).
const CLUSTER: [u8; 4] = [0x1f, 0x43, 0xb6, 0x75];

/// State that the reader shares with whoever hears of the demuxer's errors.
#[derive(Debug, Default)]
pub(super) struct Resync {
    /// Whether the next read is of the next cluster.
    pub(super) is_wanted: AtomicBool,
    /// Whether lengths that lead beyond the end of the file are damage. While the demuxer opens a file they are not: it may be cut off.
    pub(super) is_reading: AtomicBool,
    /// Number of clusters that were found so.
    pub(super) found: AtomicU32,
    /// Whether none was found.
    pub(super) is_at_end: AtomicBool,
}

/// Reader that goes on with the next cluster if that is wanted, or an element's length leads beyond the end of the file.
#[derive(Debug)]
pub(super) struct Resynced<R> {
    from: R,
    state: Arc<Resync>,
    end: u64,
}

impl<R: Read + Seek> Resynced<R> {
    pub(super) fn new(mut from: R, state: Arc<Resync>) -> Result<Self> {
        let end = from.seek(SeekFrom::End(0))?;
        from.rewind()?;
        Ok(Self { from, state, end })
    }

    fn go_on(&mut self) -> Result<()> {
        let at = self.from.stream_position()?;
        let cluster = find(&mut self.from, at, &CLUSTER)?;
        match cluster {
            Some(_) => drop(self.state.found.fetch_add(1, Ordering::Relaxed)),
            None => self.state.is_at_end.store(true, Ordering::Relaxed),
        }
        self.from.seek(SeekFrom::Start(cluster.unwrap_or(self.end)))?;
        Ok(())
    }
}

impl<R: Read + Seek> Read for Resynced<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        if self.state.is_wanted.swap(false, Ordering::Relaxed) {
            self.go_on()?;
        }
        self.from.read(to)
    }
}

impl<R: Read + Seek> Seek for Resynced<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        if let SeekFrom::Start(place) = to {
            let is_beyond = place > self.end && self.state.is_reading.load(Ordering::Relaxed);
            self.state.is_wanted.store(is_beyond, Ordering::Relaxed);
            if is_beyond {
                return Ok(place);
            }
        }
        self.from.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_length_beyond_the_end_leads_to_the_next_cluster() {
        let bytes = [&[0; 100_000][..], &CLUSTER, &[1], &[0; 9]].concat();
        let state = Arc::new(Resync::default());
        let mut reader = Resynced::new(Cursor::new(bytes), state.clone()).unwrap();
        state.is_reading.store(true, Ordering::Relaxed);
        let mut five = [0; 5];
        reader.seek(SeekFrom::Start(1 << 40)).unwrap();
        reader.seek(SeekFrom::Start(7)).unwrap();
        reader.read_exact(&mut five).unwrap();
        assert_eq!(five, [0; 5], "a place within the file is where reading goes on");
        reader.seek(SeekFrom::Start(1 << 40)).unwrap();
        reader.read_exact(&mut five).unwrap();
        assert_eq!(five, [0x1f, 0x43, 0xb6, 0x75, 1]);
        state.is_wanted.store(true, Ordering::Relaxed);
        assert_eq!(reader.read(&mut five).unwrap(), 0);
        assert_eq!((state.found.load(Ordering::Relaxed), state.is_at_end.load(Ordering::Relaxed)), (1, true));
    }
}
