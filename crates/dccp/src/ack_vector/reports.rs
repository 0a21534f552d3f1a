//! The sender's decoding of Ack Vectors (RFC 4340 §11.4, appendix A.4).

use super::state::PacketState;
use crate::options::{Opt, Options};
use crate::seq::Seq;

/// Consecutive packets in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Newest packet of the range.
    pub newest: Seq,
    /// Oldest packet of the range; at most 63 before the newest.
    pub oldest: Seq,
    /// State of the packets.
    pub state: PacketState,
}

impl Report {
    /// Packets of the range, oldest first.
    pub fn packets(&self) -> impl Iterator<Item = Seq> + use<> {
        let oldest = self.oldest;
        (0..=self.newest.distance_from(oldest)).map(move |steps| oldest + steps)
    }
}

/// The peer's Ack Vectors are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AckVectorError {
    /// They report packets from before the connection (§11.4).
    #[error(
        "the peer's Ack Vector covers {covered} packets of the {sent} sent so far; ignore it or reset with Option Error"
    )]
    BeforeFirst {
        /// Packets covered.
        covered: u64,
        /// Packets from the first to the one acknowledged.
        sent: u64,
    },
}

/// Returns the Ack Vectors among a packet's options, for [`Reports::new`].
pub fn vectors_of(options: Options<'_>) -> impl Iterator<Item = &[u8]> + Clone {
    options.filter_map(|item| match item {
        Ok(item) => match item.opt {
            Opt::AckVector { vector, .. } => Some(vector),
            _ => None,
        },
        Err(_) => None,
    })
}

/// Iterator over all reports in the Ack Vectors of one packet, newest packets first.
///
/// ```
/// use timeous_dccp::{PacketState, Seq, ack_vector::Reports};
/// let vectors: [&[u8]; 1] = [&[0, 192, 3, 64, 5]]; // the example of RFC 4340 §11.4
/// let reports = Reports::new(Seq::new(100), Seq::new(1), vectors)?;
/// let lost: Vec<Seq> =
///     reports.filter(|report| report.state == PacketState::Missing).flat_map(|report| report.packets()).collect();
/// assert_eq!(lost, [Seq::new(99)]);
/// # Ok::<(), timeous_dccp::ack_vector::AckVectorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reports<'a, I> {
    vectors: I,
    vector: &'a [u8],
    next: Seq,
}

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> Reports<'a, I> {
    /// Decodes `vectors`, in order, of a packet with Acknowledgement Number `ack`; the first packet ever sent was
    /// `first_sent`.
    ///
    /// # Errors
    /// [`AckVectorError::BeforeFirst`] if they cover packets before the first.
    pub fn new(ack: Seq, first_sent: Seq, vectors: impl IntoIterator<IntoIter = I>) -> Result<Self, AckVectorError> {
        let vectors = vectors.into_iter();
        let covered = vectors.clone().flatten().map(|&byte| u64::from(byte & 0x3f) + 1).sum();
        let sent = ack.distance_from(first_sent) + 1;
        if covered > sent {
            return Err(AckVectorError::BeforeFirst { covered, sent });
        }
        Ok(Self { vectors, vector: &[], next: ack })
    }
}

impl<'a, I: Iterator<Item = &'a [u8]>> Iterator for Reports<'a, I> {
    type Item = Report;

    fn next(&mut self) -> Option<Report> {
        loop {
            if let Some((&byte, rest)) = self.vector.split_first() {
                self.vector = rest;
                let newest = self.next;
                let oldest = newest - u64::from(byte & 0x3f);
                self.next = oldest.prev();
                return Some(Report { newest, oldest, state: PacketState::from_bits(byte >> 6) });
            }
            self.vector = self.vectors.next()?;
        }
    }
}
