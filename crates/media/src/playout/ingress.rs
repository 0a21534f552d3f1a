//! Packet filter of a stream: payload type and synchronisation source (SSRC), learned from the first packets, and
//! switched when a sender restarts with a new SSRC.

use timeous_core::{Duration, Instant};

use crate::error::RtpError;

/// Consecutive packets of a new source before it replaces one that has fallen silent: RFC 3550 §A.1 (`MIN_SEQUENTIAL`).
const PROBATION: usize = 2;
/// Silence of the old source before another replaces it; with two live sources on one port, the first one stays. Chosen
/// by us: a higher value shows a restarted source later.
const SILENCE: Duration = Duration::from_millis(100);
/// Packets kept from a new source on probation, so that its first keyframe is not lost. Chosen by us: a higher value
/// takes more memory.
const MAX_KEPT: usize = 512;
/// Payload types for dynamic assignment (RFC 3551 §3).
const DYNAMIC: [std::ops::RangeInclusive<u8>; 2] = [96..=127, 35..=63];

/// Decision about a packet.
#[derive(Debug)]
pub(super) enum Admission {
    /// The packet belongs to the stream.
    Taken,
    /// The packet may be of a source that takes over; it is kept.
    Kept,
    /// A new source has taken over; these are its packets so far, in order of arrival.
    TakenOver(Vec<(Instant, Vec<u8>)>),
}

/// The stream's payload type and source.
#[derive(Debug, Default)]
pub(super) struct Ingress {
    payload_type: Option<u8>,
    ssrc: Option<u32>,
    /// Whether the caller chose the SSRC; no other source takes over then.
    is_fixed: bool,
    /// Whether the payload type is confirmed by a decoded picture or by the caller.
    is_settled: bool,
    /// Whether the source has given a picture.
    has_picture: bool,
    candidate: Option<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    ssrc: u32,
    since: Instant,
    next: u16,
    in_a_row: usize,
    kept: Vec<(Instant, Vec<u8>)>,
}

impl Ingress {
    pub(super) fn new(payload_type: Option<u8>, ssrc: Option<u32>) -> Self {
        let (is_fixed, is_settled) = (ssrc.is_some(), payload_type.is_some());
        Self { payload_type, ssrc, is_fixed, is_settled, has_picture: false, candidate: None }
    }

    /// Confirms the payload type after a decoded picture.
    pub(super) fn settle(&mut self) {
        (self.is_settled, self.has_picture) = (true, true);
    }

    /// Synchronisation source (SSRC) being played.
    pub(super) fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// Checks the packet's payload type.
    pub(super) fn check_type(&self, found: u8) -> Result<(), RtpError> {
        match self.payload_type {
            Some(expected) if expected != found && self.is_settled => Err(RtpError::PayloadType { found, expected }),
            None if !DYNAMIC.iter().any(|range| range.contains(&found)) => Err(RtpError::NotDynamic(found)),
            _ => Ok(()),
        }
    }

    /// Decides on a packet with a valid payload type and payload. `is_telling`: the packet has picture data or a
    /// parameter set, with which a source must begin.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        header: (u8, u32, u16),
        is_telling: bool,
        rtp: &[u8],
    ) -> Result<Admission, RtpError> {
        let (payload_type, ssrc, number) = header;
        if self.ssrc.is_none() && !is_telling {
            return Err(RtpError::Payload { section: "5.2", what: "nothing of H.264 has come yet" });
        }
        let Some(playing) = self.ssrc.filter(|&playing| playing != ssrc) else {
            self.payload_type = Some(payload_type);
            self.ssrc = Some(ssrc);
            self.candidate = None;
            return Ok(Admission::Taken);
        };
        if self.is_fixed {
            return Err(RtpError::Source { found: ssrc, expected: playing });
        }
        let candidate = match &mut self.candidate {
            Some(candidate) if candidate.ssrc == ssrc => candidate,
            other => other.insert(Candidate { ssrc, since: now, next: number, in_a_row: 0, kept: Vec::new() }),
        };
        candidate.in_a_row = if candidate.next == number { candidate.in_a_row + 1 } else { 1 };
        candidate.next = number.wrapping_add(1);
        if candidate.kept.len() < MAX_KEPT {
            candidate.kept.push((now, rtp.to_vec()));
        }
        // A source without pictures, such as another program's on this port, keeps none away.
        let is_silent = now.saturating_since(candidate.since) >= SILENCE;
        if candidate.in_a_row < PROBATION || (self.has_picture && !is_silent) {
            return Ok(Admission::Kept);
        }
        let kept = std::mem::take(&mut candidate.kept);
        (self.candidate, self.has_picture) = (None, false);
        (self.ssrc, self.payload_type) = (Some(ssrc), Some(payload_type));
        Ok(Admission::TakenOver(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits packets sent every 50 ms.
    fn admit(ingress: &mut Ingress, ssrc: u32, number: u16, packet: u64) -> String {
        let now = Instant::ZERO + Duration::from_millis(50) * packet;
        match ingress.admit(now, (96, ssrc, number), true, &[number as u8]) {
            Ok(Admission::Taken) => "taken".to_owned(),
            Ok(Admission::Kept) => "kept".to_owned(),
            Ok(Admission::TakenOver(kept)) => format!("over with {}", kept.len()),
            Err(_) => "refused".to_owned(),
        }
    }

    #[test]
    fn a_source_takes_over_when_the_old_one_is_silent_and_not_before() {
        let mut ingress = Ingress::new(None, None);
        assert_eq!(admit(&mut ingress, 1, 100, 0), "taken");
        ingress.settle();
        assert_eq!(admit(&mut ingress, 2, 7, 1), "kept");
        assert_eq!(admit(&mut ingress, 1, 101, 2), "taken");
        assert_eq!(admit(&mut ingress, 2, 8, 3), "kept", "the old one was heard between them");
        assert_eq!(admit(&mut ingress, 2, 9, 4), "kept", "it may be between two frames");
        assert_eq!(admit(&mut ingress, 2, 10, 5), "over with 3");
        assert_eq!(admit(&mut ingress, 2, 11, 6), "taken");
        let mut blind = Ingress::new(None, None);
        assert_eq!(admit(&mut blind, 1, 100, 0), "taken");
        assert_eq!(admit(&mut blind, 2, 7, 1), "kept");
        assert_eq!(admit(&mut blind, 2, 8, 2), "over with 2", "the first one has given no picture");
        let mut fixed = Ingress::new(None, Some(1));
        assert_eq!([5, 9].map(|packet| admit(&mut fixed, 2, 7, packet)), ["refused", "refused"]);
    }

    #[test]
    fn the_payload_type_is_the_first_dynamic_one_unless_it_is_given() {
        let mut ingress = Ingress::new(None, None);
        assert_eq!(ingress.check_type(0), Err(RtpError::NotDynamic(0)));
        assert_eq!(ingress.check_type(97), Ok(()));
        ingress.admit(Instant::ZERO, (97, 1, 1), true, &[]).unwrap();
        assert_eq!(ingress.check_type(96), Ok(()), "a stray packet decides nothing");
        ingress.settle();
        assert_eq!(ingress.check_type(96), Err(RtpError::PayloadType { found: 96, expected: 97 }));
        assert_eq!(Ingress::new(Some(33), None).check_type(33), Ok(()));
    }
}
