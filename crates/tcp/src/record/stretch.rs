//! A stretch of the stream without a gap: of it only what is not between two zeros yet has to be kept.

use super::decode::{Datagram, Records};

/// A part of what may become a record.
#[derive(Debug, Default)]
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// It is longer than any record, or a part of it will never come: nothing is made of it, and nothing of it kept.
    useless: bool,
}

impl Piece {
    /// What never becomes a record.
    pub(super) const fn useless() -> Self {
        Self { bytes: Vec::new(), useless: true }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes without a zero follow.
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

    /// A zero follows: what there is lies between two.
    fn close(&mut self, records: &mut Records, deliver: &mut dyn FnMut(Datagram<'_>)) {
        if std::mem::take(&mut self.useless) {
            records.counts.overlong += 1;
        }
        records.read(&self.bytes, deliver);
        self.bytes.clear();
    }

    /// This one lies after a zero, and these bytes follow.
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

/// Bytes of the stream up to `end`, read as far as they lie between zeros.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) end: u64,
    /// What lies before the first zero; everything, if there is none.
    head: Piece,
    /// What lies after the last zero.
    tail: Option<Piece>,
}

impl Stretch {
    /// Nothing yet, in the middle of the stream.
    pub(super) fn within(at: u64) -> Self {
        Self { end: at, head: Piece::default(), tail: None }
    }

    /// Nothing yet, at the stream's beginning, where a record may begin as after a zero.
    pub(super) fn beginning() -> Self {
        Self { end: 0, head: Piece::default(), tail: Some(Piece::default()) }
    }

    /// What lies before `at` never comes.
    pub(super) fn forgotten(at: u64) -> Self {
        Self { end: at, head: Piece::useless(), tail: None }
    }

    /// What lies before its first zero never becomes a record.
    pub(super) fn forget_head(&mut self) {
        self.head.spoil();
    }

    /// How many bytes it keeps.
    pub(super) fn held(&self) -> usize {
        self.head.len() + self.tail.as_ref().map_or(0, Piece::len)
    }

    /// These bytes follow it.
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

    /// Another stretch follows it.
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
