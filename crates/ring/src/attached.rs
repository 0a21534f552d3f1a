//! Zones attached to a ring: those of the records whose buffers are not the ring's own.
//!
//! A record names a zone by a small number: 0 is the ring's own zone, the others are places in a table that the producer
//! writes and the consumer copies. The table is private to the process: for a consumer in another process, its own
//! process writes the table, at the request of the producer's.

use std::sync::{Arc, Mutex, PoisonError};

use crate::books::Books;
use crate::buffer::Handle;
use crate::buffers::Buffers;
use crate::error::EnqueueError;
#[cfg(not(loom))]
use crate::memory::Memory;
use crate::record::LAST_ZONE;
use crate::sync::{AtomicU64, Ordering};

/// Table of attached zones, shared by both sides of a ring within a process, or by a consumer and its process.
#[derive(Debug)]
pub(crate) struct Attachments {
    /// Number of changes of the table.
    version: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    zones: Vec<Buffers>,
    /// References of records that a producer left unsent at its end: the consumer may still send from there.
    left_behind: Vec<Handle>,
}

impl Attachments {
    pub(crate) fn new() -> Self {
        Self { version: AtomicU64::new(0), table: Mutex::default() }
    }

    fn set(&self, at: usize, zone: Buffers) {
        let zones = &mut self.table.lock().unwrap_or_else(PoisonError::into_inner).zones;
        if at == zones.len() {
            zones.push(zone);
        } else {
            zones[at] = zone;
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Sets the zone with this number, which is at most one above the highest in use; `false` if it is not.
    #[cfg(not(loom))]
    pub(crate) fn try_set(&self, number: u8, zone: Buffers) -> bool {
        let len = self.table.lock().unwrap_or_else(PoisonError::into_inner).zones.len();
        let fits = (1..=LAST_ZONE).contains(&number) && usize::from(number) <= len + 1;
        if fits {
            self.set(usize::from(number) - 1, zone);
        }
        fits
    }

    /// Keeps references until both sides of the ring are gone.
    pub(crate) fn leave_behind(&self, handles: Vec<Handle>) {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).left_behind.extend(handles);
    }
}

/// Producer's side: the attached zones with their reference counts.
#[derive(Debug, Default)]
pub(crate) struct AttachedZones(Vec<AttachedZone>);

#[derive(Debug)]
struct AttachedZone {
    books: Arc<Books>,
    /// Records of the ring that refer to it: the table's place is free for another zone if there is none.
    records: u32,
}

impl AttachedZones {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of a handle's zone; attaches the zone at first use.
    pub(crate) fn number_of(&mut self, handle: &Handle, shared: Option<&Attachments>) -> Result<u8, EnqueueError> {
        let at = match self.0.iter().position(|zone| Arc::ptr_eq(&zone.books, handle.books())) {
            Some(at) => at,
            None => self.attach(handle.books(), shared.ok_or(EnqueueError::ForeignBuffer)?)?,
        };
        Ok(at as u8 + 1)
    }

    fn attach(&mut self, books: &Arc<Books>, shared: &Attachments) -> Result<usize, EnqueueError> {
        let at = self.free_place()?;
        self.set(at, books);
        shared.set(at, books.buffers.clone());
        Ok(at)
    }

    /// Whether a zone is attached.
    #[cfg(not(loom))]
    pub(crate) fn has(&self, books: &Arc<Books>) -> bool {
        self.0.iter().any(|zone| Arc::ptr_eq(&zone.books, books))
    }

    /// Place for another zone: that of one without packets, or a new one.
    pub(crate) fn free_place(&self) -> Result<usize, EnqueueError> {
        // A zone that nobody else has any more is let go.
        let unused = |zone: &AttachedZone| zone.records == 0 && Arc::strong_count(&zone.books) == 1;
        let mut free = self.0.iter().position(unused);
        if free.is_none() && self.0.len() >= usize::from(LAST_ZONE) {
            free = Some(self.0.iter().position(|zone| zone.records == 0).ok_or(EnqueueError::TooManyZones)?);
        }
        Ok(free.unwrap_or(self.0.len()))
    }

    /// Attaches a zone at a free place.
    pub(crate) fn set(&mut self, at: usize, books: &Arc<Books>) {
        let zone = AttachedZone { books: Arc::clone(books), records: 0 };
        if at == self.0.len() {
            self.0.push(zone);
        } else {
            self.0[at] = zone;
        }
    }

    /// Notes a record that refers to a buffer of the zone.
    pub(crate) fn note_record(&mut self, zone: u8) {
        self.0[usize::from(zone) - 1].records += 1;
    }

    /// Shared part of the zone.
    #[cfg(not(loom))]
    pub(crate) fn books(&self, zone: u8) -> &Arc<Books> {
        &self.0[usize::from(zone) - 1].books
    }

    /// Leaves the references of all records to a consumer in another process, which sets a word of the ring's memory when
    /// it is gone.
    #[cfg(not(loom))]
    pub(crate) fn leave_to(&self, gone: (&Memory, usize), mut ids: impl FnMut(u8) -> Vec<u32>) {
        for (number, zone) in (1..).zip(&self.0) {
            let ids = ids(number);
            if !ids.is_empty() {
                zone.books.linger(gone, ids);
            }
        }
    }

    /// Returns a record's reference to its buffer as a handle.
    pub(crate) fn handle(&self, zone: u8, id: u32) -> Handle {
        Handle::new(id, Arc::clone(&self.0[usize::from(zone) - 1].books))
    }

    /// Drops a record's reference to its buffer.
    pub(crate) fn let_go(&mut self, zone: u8, id: u32) {
        let zone = &mut self.0[usize::from(zone) - 1];
        zone.records -= 1;
        zone.books.let_go(id);
    }
}

/// Consumer's side: a copy of the table.
#[derive(Debug, Default)]
pub(crate) struct KnownZones {
    version: u64,
    zones: Vec<Buffers>,
}

impl KnownZones {
    /// Copies the table if it has changed. A record is published after the change that attached its zone.
    pub(crate) fn refresh(&mut self, shared: Option<&Attachments>) {
        let Some(shared) = shared else { return };
        let version = shared.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.zones.clone_from(&shared.table.lock().unwrap_or_else(PoisonError::into_inner).zones);
        }
    }

    /// Returns the zone of this number, which is not 0; `None` if none is attached.
    pub(crate) fn get(&self, zone: u8) -> Option<&Buffers> {
        self.zones.get(usize::from(zone).checked_sub(1)?)
    }
}
