//! Path MTU discovery: a search by probes, and detection of black holes (RFC 4340 §14.1, RFC 8899). Sizes are those of
//! DCCP packets.

use timeous_core::Duration;

use super::config::Config;
use crate::seq::Seq;

/// Path MTUs that are tried, in bytes: IPv6's minimum (RFC 8200 §5), tunnels, WireGuard, VXLAN, GRE, PPPoE, Ethernet and
/// jumbo frames. More entries find a path's MTU more exactly, and take more probes.
const COMMON: [usize; 9] = [1_280, 1_360, 1_400, 1_420, 1_450, 1_480, 1_492, ETHERNET, 9_000];
/// Path MTU up to which every stream searches, in bytes (RFC 894). A larger probe could hold up a slow link: it leaves
/// only for a stream that has larger ADUs.
const ETHERNET: usize = 1_500;
/// Probes of one size before it is taken for too large (`MAX_PROBES`, RFC 8899 §5.1.2).
const MAX_PROBES: u32 = 3;
/// Large packets in a row, lost or without an acknowledgement, after which the path is checked. Chosen by us: a lower value
/// checks more often for nothing; a higher one finds a black hole later.
const SUSPICIOUS_PACKETS: u32 = 3;
/// Probes of the present size in each round of a check, of which one leaves after the small probe: a burst of losses that
/// ends before that spares it, too. Chosen by us: more find a black hole sooner, and add load.
const CHECK_PROBES: usize = 3;
/// Weight of a large probe that was lost, against one that was answered, where the small probe beside it was answered (a
/// sequential test). Chosen by us: a higher value takes random losses for a black hole more often; with a lower one, a path that
/// loses a third of its large packets keeps its size.
const LOST_WEIGHT: usize = 3;
/// Weight of lost large probes that makes a black hole: that of a whole round. Chosen by us: a lower value takes random
/// losses for one more often; a higher one finds one later.
const BLACK_HOLE_WEIGHT: usize = CHECK_PROBES * LOST_WEIGHT;
/// Rounds of a check without any answer after which it ends: the path is interrupted, which says nothing of sizes.
/// Chosen by us: a higher value sends more probes into an outage.
const MAX_SILENT_ROUNDS: u32 = 3;
/// Time after which a complete search is repeated: the path may have changed (`PMTU_RAISE_TIMER`, RFC 8899 §5.1.1).
pub(super) const RAISE_INTERVAL: Duration = Duration::from_secs(600);

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: usize,
    seq: Seq,
}

/// Present task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// The search is complete.
    Done,
    /// Whether the candidate at this place passes.
    Try(usize),
    /// Whether the present size still passes, where smaller packets do.
    Check {
        /// Rounds without any answer.
        silent: u32,
        /// Weight of large probes lost beside small ones that were answered, less that of large ones that were, not below zero.
        evidence: usize,
        /// Whether this round's small probe was answered.
        is_answered: bool,
    },
}

/// Change of the packet size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeChange {
    pub(super) size: usize,
    /// Packets of the previous size were lost without a message.
    pub(super) is_black_hole: bool,
}

/// Large packets in a row without an arrival of one as large.
#[derive(Clone, Copy, Debug)]
struct Missing {
    packets: u32,
    /// Size of the smallest.
    smallest: usize,
    /// Sequence number of the first.
    first: Option<Seq>,
}

impl Missing {
    const NONE: Self = Self { packets: 0, smallest: usize::MAX, first: None };

    fn add(&mut self, size: usize, seq: Option<Seq>) {
        *self = Self { packets: self.packets + 1, smallest: self.smallest.min(size), first: self.first.or(seq) };
    }

    fn on_arrival(&mut self, size: usize) {
        if size >= self.smallest {
            *self = Self::NONE;
        }
    }

    fn is_suspicious(self) -> bool {
        self.packets >= SUSPICIOUS_PACKETS
    }
}

/// State of path MTU discovery.
#[derive(Clone, Debug)]
pub(super) struct PathMtu {
    /// Candidates, in ascending order. The first is the base, which is assumed to pass.
    sizes: Vec<usize>,
    /// Number of candidates within Ethernet's MTU.
    ethernet: usize,
    /// Number of candidates that pass.
    passed: usize,
    /// Place of the smallest candidate that does not pass; the number of candidates if none is known.
    failed: usize,
    wants_more: bool,
    task: Task,
    /// Probes of the candidate so far.
    tries: u32,
    /// Sizes of probes that are to leave; zero is one without padding.
    due: Vec<usize>,
    in_flight: Vec<Probe>,
    /// Large packets lost in a row.
    lost: Missing,
    /// Large packets sent.
    unanswered: Missing,
    /// Whether a black hole was found since the search began anew: another one ends it.
    has_fallen: bool,
}

impl PathMtu {
    /// Creates a search from `base` up to `bound`; `headers`: bytes of a packet beside the DCCP packet.
    pub(super) fn new(base: usize, bound: usize, headers: usize) -> Self {
        let bound = bound.max(base);
        let common =
            COMMON.iter().filter_map(|mtu| mtu.checked_sub(headers)).filter(|&size| size > base && size < bound);
        let mut sizes = vec![base];
        sizes.extend(common);
        if bound > base {
            sizes.push(bound);
        }
        let ethernet = sizes.iter().filter(|&&size| size + headers <= ETHERNET).count().max(1);
        let failed = sizes.len();
        Self {
            sizes,
            ethernet,
            passed: 1,
            failed,
            wants_more: false,
            task: Task::Done,
            tries: 0,
            due: Vec::new(),
            in_flight: Vec::new(),
            lost: Missing::NONE,
            unanswered: Missing::NONE,
            has_fallen: false,
        }
    }

    /// Size up to which packets pass, as far as known.
    pub(super) fn size(&self) -> usize {
        self.passed.checked_sub(1).map_or(self.least(), |newest| self.sizes[newest])
    }

    pub(super) fn base(&self) -> usize {
        self.sizes[0]
    }

    /// Size below the base: packets that every host must take.
    fn least(&self) -> usize {
        self.base().min(Config::FALLBACK_MPS)
    }

    /// Size of packets after a black hole.
    fn fallback(&self) -> usize {
        if self.passed > 1 { self.base() } else { self.least() }
    }

    /// Begins the search, or goes on with it.
    pub(super) fn search(&mut self) {
        self.tries = 0;
        self.ask(&[]);
        self.task = match self.candidate() {
            Some(place) => {
                self.ask(&[self.sizes[place]]);
                Task::Try(place)
            }
            None => Task::Done,
        };
    }

    /// Next candidate: Ethernet's MTU, the bound if larger packets are wanted, then by halves.
    fn candidate(&self) -> Option<usize> {
        let end = self.failed.min(if self.wants_more { self.sizes.len() } else { self.ethernet });
        if self.passed >= end {
            None
        } else if end < self.failed || end == self.sizes.len() {
            Some(if self.passed < self.ethernet { self.ethernet.min(end) - 1 } else { end - 1 })
        } else {
            Some((self.passed + end) / 2)
        }
    }

    /// Begins a check, or its next round.
    fn check(&mut self, silent: u32, evidence: usize) {
        self.task = Task::Check { silent, evidence, is_answered: false };
        let mut sizes = [self.size(); CHECK_PROBES + 1];
        sizes[CHECK_PROBES - 1] = 0;
        self.ask(&sizes);
    }

    fn ask(&mut self, sizes: &[usize]) {
        self.in_flight.clear();
        self.due = sizes.to_vec();
    }

    /// Returns the size of the next probe to leave.
    pub(super) fn poll_probe(&mut self) -> Option<usize> {
        if self.due.is_empty() { None } else { Some(self.due.remove(0)) }
    }

    /// Notes that a probe left.
    pub(super) fn sent(&mut self, size: usize, seq: Seq) {
        self.in_flight.push(Probe { size, seq });
    }

    /// Whether the search is complete.
    pub(super) fn is_done(&self) -> bool {
        self.task == Task::Done
    }

    /// Whether probes are to leave.
    pub(super) fn has_probes(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether probes are in flight.
    pub(super) fn is_waiting(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Searches beyond Ethernet's MTU: the stream has ADUs that do not fit. Returns whether a search begins.
    pub(super) fn want_more(&mut self) -> bool {
        let begins = !std::mem::replace(&mut self.wants_more, true) && self.task == Task::Done;
        if begins {
            self.search();
        }
        begins
    }

    /// Processes the answer to a probe.
    pub(super) fn answered(&mut self, seq: Seq) -> Option<SizeChange> {
        let place = self.in_flight.iter().position(|probe| probe.seq == seq)?;
        let Probe { size, .. } = self.in_flight.remove(place);
        match &mut self.task {
            Task::Try(place) => {
                self.passed = *place + 1;
                self.search();
                Some(SizeChange { size, is_black_hole: false })
            }
            Task::Check { is_answered, .. } => {
                *is_answered |= size == 0;
                if self.in_flight.is_empty() && self.due.is_empty() { self.end_round() } else { None }
            }
            Task::Done => None,
        }
    }

    /// Ends a round of a check, in which the probes that are still in flight were lost.
    fn end_round(&mut self) -> Option<SizeChange> {
        let Task::Check { silent, mut evidence, is_answered } = self.task else { return None };
        let lost = self.in_flight.iter().filter(|probe| probe.size > 0).count();
        if is_answered {
            evidence = (evidence + lost * LOST_WEIGHT).saturating_sub(CHECK_PROBES - lost);
            if evidence >= BLACK_HOLE_WEIGHT {
                return Some(self.fall());
            }
        }
        let silent = if is_answered || lost < CHECK_PROBES { 0 } else { silent + 1 };
        if evidence == 0 && silent == 0 || silent == MAX_SILENT_ROUNDS {
            self.end_check();
        } else {
            self.check(silent, evidence);
        }
        None
    }

    /// Handles a probe without an answer, or the time to search anew.
    pub(super) fn timed_out(&mut self) -> Option<SizeChange> {
        match self.task {
            Task::Done => {
                (self.failed, self.has_fallen) = (self.sizes.len(), false);
                self.search();
            }
            Task::Try(place) => {
                self.tries += 1;
                if self.tries < MAX_PROBES {
                    self.ask(&[self.sizes[place]]);
                } else {
                    self.failed = place;
                    self.search();
                }
            }
            Task::Check { .. } => return self.end_round(),
        }
        None
    }

    /// Takes the size that the host's own interface refused: a hint that no answer will come.
    pub(super) fn refused(&mut self, size: usize) {
        if let Task::Try(place) = self.task
            && self.sizes[place] == size
        {
            self.failed = place;
            self.search();
        }
    }

    /// Whether a sent packet is large: it may not pass where smaller ones do. Still larger ones are from before a change.
    fn is_large(&self, size: usize) -> bool {
        size > self.fallback() && size <= self.size()
    }

    /// Notes a sent data packet, and begins a check after several large ones without an answer. `is_overdue`: whether the
    /// acknowledgement of the oldest packet in flight is.
    pub(super) fn on_sent(&mut self, size: usize, is_overdue: impl FnOnce() -> bool) {
        if !self.is_large(size) {
            return;
        }
        self.unanswered.add(size, None);
        if self.unanswered.is_suspicious() && !matches!(self.task, Task::Check { .. }) && is_overdue() {
            self.check(0, 0);
        }
    }

    /// First of the large packets that were lost in a row, small ones between them or not.
    pub(super) fn first_lost(&self) -> Option<Seq> {
        self.lost.first
    }

    /// Notes a data packet's fate; `is_timeout`: nothing has arrived since.
    pub(super) fn on_fate(&mut self, size: usize, seq: Seq, has_arrived: bool, is_timeout: bool) {
        if has_arrived {
            self.lost.on_arrival(size);
            self.unanswered.on_arrival(size);
        } else if self.is_large(size) {
            self.lost.add(size, Some(seq));
            if !matches!(self.task, Task::Check { .. }) && (is_timeout || self.lost.is_suspicious()) {
                self.check(0, 0);
            }
        }
    }

    /// Ends a check without a finding.
    fn end_check(&mut self) {
        (self.lost, self.unanswered) = (Missing::NONE, Missing::NONE);
        self.search();
    }

    /// Falls back to the base, or below it, and searches anew. The second time it stays there until the next search: a path
    /// whose size goes up and down would interrupt the stream each time.
    fn fall(&mut self) -> SizeChange {
        self.passed = usize::from(self.passed > 1);
        self.failed = if self.has_fallen { self.passed } else { self.sizes.len() };
        self.has_fallen = true;
        self.end_check();
        SizeChange { size: self.size(), is_black_hole: true }
    }
}

#[cfg(test)]
mod tests;
