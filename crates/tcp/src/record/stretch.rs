//! A contiguous range of the stream, of which only the bytes not yet between two zeros are kept.

use super::decode::{Datagram, Records};

/// Part of a possible record.
#[derive(Debug, Default)]
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Longer than any record, or a part of it will never come: it is not parsed, and its bytes are not kept.
    useless: bool,
}

impl Piece {
    /// Returns a piece that will never become a record.
    pub(super) const fn useless() -> Self {
        Self { bytes: Vec::new(), useless: true }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends bytes without a zero.
    fn append(&mut self, bytes: &[u8], longest: usize) {
        if self.useless || self.bytes.len() + bytes.len() > longest {
            self.spoil();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn spoil(&mut self) {
        *self = Self::useless();
    }

    /// Ends the piece at a zero, and parses it.
    fn close(&mut self, records: &mut Records, deliver: &mut dyn FnMut(Datagram<'_>)) {
        if std::mem::take(&mut self.useless) {
            records.counts.overlong += 1;
        }
        records.read(&self.bytes, deliver);
        self.bytes.clear();
    }

    /// Parses bytes that follow this piece, which began behind a zero.
    pub(super) fn extend(&mut self, bytes: &[u8], records: &mut Records, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let mut rest = bytes;
        while let Some(zero) = rest.iter().position(|&byte| byte == 0) {
            if self.bytes.is_empty() && !self.useless {
                records.read(&rest[..zero], deliver);
            } else {
                self.append(&rest[..zero], records.longest);
                self.close(records, deliver);
            }
            rest = &rest[zero + 1..];
        }
        self.append(rest, records.longest);
    }

    fn join(&mut self, other: Self, longest: usize) {
        if other.useless {
            self.spoil();
        } else {
            self.append(&other.bytes, longest);
        }
    }
}

/// Bytes of the stream up to `end`, parsed as far as they lie between zeros.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) end: u64,
    /// Bytes before the first zero; all bytes, if there is none.
    head: Piece,
    /// Bytes behind the last zero.
    tail: Option<Piece>,
}

impl Stretch {
    /// Creates an empty stretch in the middle of the stream.
    pub(super) fn within(at: u64) -> Self {
        Self { end: at, head: Piece::default(), tail: None }
    }

    /// Creates an empty stretch at the beginning of the stream, where a record may begin as behind a zero.
    pub(super) fn beginning() -> Self {
        Self { end: 0, head: Piece::default(), tail: Some(Piece::default()) }
    }

    /// Creates an empty stretch at `at`; the bytes before will never come.
    pub(super) fn forgotten(at: u64) -> Self {
        Self { end: at, head: Piece::useless(), tail: None }
    }

    /// Drops the bytes before the first zero: they will never become a record.
    pub(super) fn forget_head(&mut self) {
        self.head.spoil();
    }

    /// Returns the number of bytes kept.
    pub(super) fn held(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, Piece::len)
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8], records: &mut Records, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.end += bytes.len() as u64;
        let rest = match (&mut self.tail, bytes.iter().position(|&byte| byte == 0)) {
            (Some(_), _) => bytes,
            (None, None) => return self.head.append(bytes, records.longest),
            (None, Some(zero)) => {
                self.head.append(&bytes[..zero], records.longest);
                &bytes[zero + 1..]
            }
        };
        self.tail.get_or_insert_default().extend(rest, records, deliver);
    }

    /// Appends the stretch that follows.
    pub(super) fn join(&mut self, next: Self, records: &mut Records, deliver: &mut dyn FnMut(Datagram<'_>)) {
        self.end = next.end;
        let last = self.tail.as_mut().unwrap_or(&mut self.head);
        last.join(next.head, records.longest);
        let Some(tail) = next.tail else { return };
        if let Some(complete) = &mut self.tail {
            complete.close(records, deliver);
        }
        self.tail = Some(tail);
    }
}
