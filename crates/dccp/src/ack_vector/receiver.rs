//! The receiver's record of arrivals, from which Ack Vectors are written (RFC 4340 §11.4, appendix A).

use std::collections::VecDeque;

use super::state::{MAX_RUN, PacketState};
use crate::options::{MAX_OPTION_DATA, Opt, OptionList};
use crate::seq::Seq;

/// Maximum number of sent vectors remembered; forgetting one only delays the removal of acknowledged entries. Chosen by
/// us: a higher value takes more memory.
const MAX_SENT: usize = 512;

/// Consecutive packets in the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    state: PacketState,
    packets: u64,
}

impl Run {
    /// Bytes that the run takes in a vector.
    const fn bytes(self) -> u64 {
        self.packets.div_ceil(MAX_RUN)
    }
}

/// An Ack Vector that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Our packet that carried it.
    on: Seq,
    /// Newest packet whose state the peer knows for good, once it acknowledges `on`.
    settles: Seq,
}

/// Result of [`AckVector::record`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The packet is newer than all before.
    Newest,
    /// The packet fills a hole.
    Late,
    /// The packet was recorded before: a duplicate.
    Duplicate,
    /// The packet is older than the record: a duplicate, or so late that it was long reported as missing.
    TooOld,
}

/// Record of received packets, in bounded memory: when it is full the oldest are forgotten, and the peer considers them
/// lost (§11.4: "packets that haven't been included … 'not yet received'").
///
/// The ECN Nonce Echo is always 0: RFC 8311 made the nonce historic.
///
/// ```
/// use timeous_dccp::{AckVector, OptionList, PacketState, Seq};
/// let mut vector = AckVector::new(253, 0);
/// for seq in [1, 2, 4] {
///     vector.record(Seq::new(seq), PacketState::Received);
/// }
/// let mut options = OptionList::new();
/// assert!(vector.push_options(Seq::new(900), &mut options));
/// assert_eq!(options.as_bytes(), [38, 5, 0x00, 0xc0, 0x01], "4 came, 3 did not, 2 and 1 did");
///
/// vector.record(Seq::new(5), PacketState::Received);
/// vector.on_ack(Seq::new(900)); // the peer has seen that vector: 4 and older are settled
/// options.reset(100);
/// vector.push_options(Seq::new(901), &mut options);
/// assert_eq!(options.as_bytes(), [38, 3, 0x00]);
/// ```
#[derive(Clone, Debug)]
pub struct AckVector {
    /// Newest received packet, first of the first run.
    newest: Option<Seq>,
    /// Runs, newest first; neighbours differ in state.
    runs: VecDeque<Run>,
    /// Packets in all runs.
    packets: u64,
    /// Bytes of all runs in a vector.
    bytes: u64,
    max_bytes: u64,
    late_window: u64,
    /// Sent vectors, oldest first.
    sent: VecDeque<Sent>,
    scratch: Vec<u8>,
}

impl AckVector {
    /// Creates an empty record of at most `max_bytes` of vector (at least 1). It keeps `late_window` packets even after
    /// the peer knows of them, to tell late packets from duplicates and report them.
    pub fn new(max_bytes: usize, late_window: u32) -> Self {
        Self {
            newest: None,
            runs: VecDeque::new(),
            packets: 0,
            bytes: 0,
            max_bytes: max_bytes.max(1) as u64,
            late_window: u64::from(late_window),
            sent: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// Newest packet recorded: the packet that carries the vector must have it as its Acknowledgement Number.
    pub const fn ack_number(&self) -> Option<Seq> {
        self.newest
    }

    /// Current size of the vector in bytes, without option types and lengths.
    pub const fn vector_len(&self) -> usize {
        self.bytes as usize
    }

    /// Number of packets that the record covers.
    pub const fn coverage(&self) -> u64 {
        self.packets
    }

    /// State of a packet, if it is covered.
    pub fn state_of(&self, seq: Seq) -> Option<PacketState> {
        let newest = self.newest.filter(|newest| !seq.is_after(*newest))?;
        self.find(newest.distance_from(seq)).map(|(index, _)| self.runs[index].state)
    }

    /// Records the arrival of an acknowledgeable packet (§7.4), `Received` or `Marked`; anything but `Marked` counts as
    /// `Received`. A duplicate changes nothing (§11.4.1 allows either).
    pub fn record(&mut self, seq: Seq, state: PacketState) -> Arrival {
        let state = if state == PacketState::Marked { state } else { PacketState::Received };
        let Some(newest) = self.newest else {
            self.newest = Some(seq);
            self.push_newest(Run { state, packets: 1 });
            return Arrival::Newest;
        };
        if seq.is_after(newest) {
            self.newest = Some(seq);
            self.push_newest(Run { state: PacketState::Missing, packets: seq.distance_from(newest) - 1 });
            self.push_newest(Run { state, packets: 1 });
            self.forget_beyond_room();
            return Arrival::Newest;
        }
        let Some((index, into)) = self.find(newest.distance_from(seq)) else { return Arrival::TooOld };
        if self.runs[index].state.has_arrived() {
            return Arrival::Duplicate;
        }
        self.fill_hole(index, into, state);
        self.forget_beyond_room();
        // Earlier vectors that called it missing must not settle it (appendix A.3).
        for sent in &mut self.sent {
            sent.settles = sent.settles.min(seq.prev());
        }
        Arrival::Late
    }

    /// Appends the record to `out` as Ack Vector options of the packet `on`, and remembers that.
    ///
    /// Returns whether all of it fitted. If not, as much as fits is written, newest first, and the peer's
    /// acknowledgement of `on` will settle nothing. Do not call it for a packet with another Acknowledgement Number
    /// than [`AckVector::ack_number`], such as a Sync or SyncAck.
    pub fn push_options(&mut self, on: Seq, out: &mut OptionList) -> bool {
        let Some(newest) = self.newest else { return true };
        self.scratch.clear();
        for run in &self.runs {
            let mut left = run.packets;
            while left > 0 {
                let now = left.min(MAX_RUN);
                self.scratch.push(run.state.bits() << 6 | (now - 1) as u8);
                left -= now;
            }
        }
        for chunk in self.scratch.chunks(MAX_OPTION_DATA) {
            let fitting = chunk.len().min(out.room().saturating_sub(2));
            let is_pushed =
                fitting > 0 && out.push(&Opt::AckVector { nonce: false, vector: &chunk[..fitting] }).is_ok();
            if !is_pushed || fitting < chunk.len() {
                return false;
            }
        }
        if self.sent.len() == MAX_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { on, settles: newest });
        true
    }

    /// Notes that the peer has processed our packet `ack`: the states reported there need not be repeated (A.3).
    pub fn on_ack(&mut self, ack: Seq) {
        let Some(index) = self.sent.iter().position(|sent| sent.on == ack) else { return };
        let settles = self.sent[index].settles;
        self.sent.drain(..=index);
        let Some(newest) = self.newest else { return };
        // The newest packet stays, so that the next arrival knows which packets are missing before it.
        let keep = newest.offset_from(settles).max(1) as u64;
        self.shorten_to(keep.saturating_add(self.late_window));
    }

    /// Finds the packet `back` before the newest: the index of its run, and the offset into the run.
    fn find(&self, mut back: u64) -> Option<(usize, u64)> {
        for (index, run) in self.runs.iter().enumerate() {
            if back < run.packets {
                return Some((index, back));
            }
            back -= run.packets;
        }
        None
    }

    fn push_newest(&mut self, run: Run) {
        if run.packets == 0 {
            return;
        }
        self.packets += run.packets;
        match self.runs.front_mut() {
            Some(first) if first.state == run.state => {
                self.bytes -= first.bytes();
                first.packets += run.packets;
                self.bytes += first.bytes();
            }
            _ => {
                self.bytes += run.bytes();
                self.runs.push_front(run);
            }
        }
    }

    /// Splits the missing run at `index`: the packet at offset `into` has arrived.
    fn fill_hole(&mut self, index: usize, into: u64, state: PacketState) {
        let hole = self.runs[index];
        let newer = Run { packets: into, ..hole };
        let filled = Run { state, packets: 1 };
        let older = Run { packets: hole.packets - into - 1, ..hole };
        self.runs.remove(index);
        self.bytes -= hole.bytes();
        let mut at = index;
        for run in [newer, filled, older] {
            if run.packets > 0 {
                self.runs.insert(at, run);
                self.bytes += run.bytes();
                at += 1;
            }
        }
        // Only the outer pieces can now equal their neighbours in state.
        self.merge_with_next(at - 1);
        self.merge_with_next(index.wrapping_sub(1));
    }

    fn merge_with_next(&mut self, index: usize) {
        let (Some(&run), Some(&next)) = (self.runs.get(index), self.runs.get(index.wrapping_add(1))) else { return };
        if run.state == next.state {
            let merged = Run { packets: run.packets + next.packets, ..run };
            self.bytes = self.bytes - run.bytes() - next.bytes() + merged.bytes();
            self.runs[index] = merged;
            self.runs.remove(index + 1);
        }
    }

    fn forget_beyond_room(&mut self) {
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.runs.back_mut() else { return };
            let (excess, had) = (self.bytes - self.max_bytes, oldest.bytes());
            if had <= excess {
                self.packets -= oldest.packets;
                self.bytes -= had;
                self.runs.pop_back();
            } else {
                let kept = (had - excess) * MAX_RUN;
                self.packets -= oldest.packets - kept;
                oldest.packets = kept;
                self.bytes -= excess;
            }
        }
    }

    fn shorten_to(&mut self, packets: u64) {
        while self.packets > packets {
            let Some(oldest) = self.runs.back_mut() else { return };
            let excess = self.packets - packets;
            let had = oldest.bytes();
            if oldest.packets <= excess {
                self.packets -= oldest.packets;
                self.bytes -= had;
                self.runs.pop_back();
            } else {
                oldest.packets -= excess;
                self.packets -= excess;
                self.bytes = self.bytes - had + oldest.bytes();
            }
        }
    }
}
