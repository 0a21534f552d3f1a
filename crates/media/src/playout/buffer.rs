//! Reassembly buffer: received packets, by RTP timestamp and in order of their sequence numbers.

use std::collections::BTreeMap;

use timeous_core::Instant;

use crate::h264::depacketize::{Payload, assemble};
use crate::rtp::FrameDescriptor;

/// Packet of a frame. Its payload is dropped once the frame cannot be shown any more.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) payload: Option<Payload>,
    pub(super) descriptor: Option<FrameDescriptor>,
    pub(super) starts: bool,
    pub(super) has_slice: bool,
    pub(super) idr: bool,
    pub(super) marker: bool,
    pub(super) len: usize,
}

impl Piece {
    pub(super) fn new(payload: Payload, descriptor: Option<FrameDescriptor>, marker: bool) -> Self {
        let starts = descriptor.is_some() || payload.starts_access_unit();
        let (has_slice, idr, len) = (payload.has_slice(), payload.is_idr(), payload.len());
        Self { payload: Some(payload), descriptor, starts, has_slice, idr, marker, len }
    }
}

/// Packets received so far of one frame (one RTP timestamp); at least one.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pieces: BTreeMap<u64, Piece>,
    pub(super) bytes: usize,
    first_arrival: Option<Instant>,
    pub(super) last_arrival: Instant,
    has_slice: bool,
    descriptor: Option<FrameDescriptor>,
}

impl Parts {
    pub(super) fn insert(&mut self, seq: u64, piece: Piece, now: Instant) {
        self.bytes += piece.len;
        self.first_arrival.get_or_insert(now);
        self.last_arrival = now.max(self.last_arrival);
        self.has_slice |= piece.has_slice;
        self.descriptor = self.descriptor.or(piece.descriptor);
        self.pieces.insert(seq, piece);
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Arrival time of its first packet.
    pub(super) fn first_arrival(&self) -> Instant {
        self.first_arrival.unwrap_or(self.last_arrival)
    }

    /// Frame descriptor from the sender, if its packet has come.
    pub(super) fn descriptor(&self) -> Option<&FrameDescriptor> {
        self.descriptor.as_ref()
    }

    /// Whether a decoder can start here, as far as the packets tell before they are decoded.
    pub(super) fn is_entry(&self) -> bool {
        self.descriptor.map_or_else(|| self.is_idr(), |descriptor| descriptor.is_entry)
    }

    /// Whether a packet before the last one has the marker bit.
    pub(super) fn has_early_marker(&self) -> bool {
        self.pieces.values().rev().skip(1).any(|piece| piece.marker)
    }

    /// Whether the last packet has the marker bit.
    pub(super) fn ends_marked(&self) -> bool {
        self.pieces.values().next_back().is_some_and(|piece| piece.marker)
    }

    pub(super) fn first(&self) -> u64 {
        self.pieces.first_key_value().map_or(0, |(&seq, _)| seq)
    }

    pub(super) fn last(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(&seq, _)| seq)
    }

    /// Number of packets missing between the first and the last.
    pub(super) fn holes(&self) -> u64 {
        self.last() + 1 - self.first() - self.pieces.len() as u64
    }

    pub(super) fn is_idr(&self) -> bool {
        self.pieces.values().any(|piece| piece.idr)
    }

    /// Whether the frame is complete. Its start is known by its content or because it follows the previous frame
    /// (`joined`); its end (`ended`), by a marker or by the next frame.
    pub(super) fn is_whole(&self, joined: bool, ended: bool) -> bool {
        let starts = || self.pieces.values().next().is_some_and(|piece| piece.starts);
        self.holes() == 0 && ended && (joined || starts()) && self.has_slice
    }

    pub(super) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        self.pieces.values().filter_map(|piece| piece.payload.as_ref())
    }

    pub(super) fn assemble(&self) -> Option<Vec<Vec<u8>>> {
        assemble(self.payloads())
    }

    /// Drops the payloads; sequence numbers and sizes stay.
    pub(super) fn strip(mut self) -> Self {
        for piece in self.pieces.values_mut() {
            piece.payload = None;
        }
        self
    }
}

/// State of a frame in decoding order.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// Frame that waits, by its timestamp.
    Waiting(i64),
    /// Frame that is settled already, by its last sequence number.
    Settled(u64),
}

/// Frames that wait, by timestamp and in decoding order.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    frames: BTreeMap<i64, Parts>,
    order: BTreeMap<u64, Entry>,
    bytes: usize,
    packets: usize,
}

impl Buffer {
    pub(super) fn insert(&mut self, seq: u64, ticks: i64, piece: Piece, now: Instant) {
        self.bytes += piece.len;
        self.packets += 1;
        let parts = self.frames.entry(ticks).or_default();
        if parts.len() > 0 {
            self.order.remove(&parts.first());
        }
        parts.insert(seq, piece, now);
        self.order.insert(parts.first(), Entry::Waiting(ticks));
    }

    /// Returns the first waiting frame in decoding order. Frames settled out of order before it are removed; `passed`
    /// gets their first and last sequence numbers.
    pub(super) fn head(&mut self, mut passed: impl FnMut(u64, u64)) -> Option<i64> {
        loop {
            let (&first, &entry) = self.order.first_key_value()?;
            match entry {
                Entry::Waiting(ticks) => return Some(ticks),
                Entry::Settled(last) => {
                    passed(first, last);
                    self.order.remove(&first);
                }
            }
        }
    }

    /// First waiting frame in decoding order, without removing settled ones.
    pub(super) fn first_waiting(&self) -> Option<i64> {
        self.order.values().find_map(|entry| match entry {
            Entry::Waiting(ticks) => Some(*ticks),
            Entry::Settled(_) => None,
        })
    }

    pub(super) fn get(&self, ticks: i64) -> Option<&Parts> {
        self.frames.get(&ticks)
    }

    /// Whether the packet with this number is the first of a frame.
    pub(super) fn begins_at(&self, seq: u64) -> bool {
        self.order.contains_key(&seq)
    }

    /// Timestamp of the earliest frame.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.frames.first_key_value().map(|(&ticks, _)| ticks)
    }

    /// Timestamp of the earliest frame other than `except`.
    pub(super) fn earliest_but(&self, except: i64) -> Option<i64> {
        self.frames.keys().copied().find(|&ticks| ticks != except)
    }

    /// Removes a frame.
    pub(super) fn remove(&mut self, ticks: i64) -> Option<Parts> {
        let parts = self.frames.remove(&ticks)?;
        self.order.remove(&parts.first());
        self.bytes -= parts.bytes;
        self.packets -= parts.len();
        Some(parts)
    }

    /// Removes a frame out of order; its sequence numbers stay marked as settled.
    pub(super) fn remove_early(&mut self, ticks: i64) -> Option<Parts> {
        let parts = self.remove(ticks)?;
        self.order.insert(parts.first(), Entry::Settled(parts.last()));
        Some(parts)
    }

    /// Marks a packet of a settled frame.
    pub(super) fn mark_settled(&mut self, seq: u64) {
        self.order.insert(seq, Entry::Settled(seq));
    }

    pub(super) fn exceeds(&self, bytes: usize, packets: usize) -> bool {
        self.bytes > bytes || self.packets > packets || self.order.len() > packets
    }
}
