//! Mapping of the application's 16-bit datagram numbers to frames and references.

use timeous::core::{FrameId, References};

/// Extends wrapping numbers to 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    latest: Option<u32>,
}

impl Numbers {
    /// Returns the frame of the datagram `seq` and its reference to `dep`; a datagram that depends on itself is
    /// independent (McQuistin §3.3). Numbers are extended to the value nearest to the last datagram's.
    pub(super) fn place(&mut self, seq: u16, dep: u16) -> (FrameId, References) {
        // Far enough from zero, which is no frame, that earlier numbers have a place, too.
        let latest = self.latest.unwrap_or(u32::from(seq) | 1 << 16);
        let own = near(latest, seq);
        self.latest = Some(own);
        let references = if dep == seq { References::NONE } else { References::from([FrameId(near(own, dep))]) };
        (FrameId(own), references)
    }
}

/// Returns the number nearest to `to` whose low 16 bits are `of`.
fn near(to: u32, of: u16) -> u32 {
    let by = of.wrapping_sub(to as u16) as i16;
    match to.wrapping_add_signed(by.into()) {
        0 => 1 << 16,
        near => near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(references: References) -> Vec<u32> {
        references.iter().map(|frame| frame.0).collect()
    }

    #[test]
    fn numbers_go_round_and_what_depends_on_itself_is_independent() {
        let mut numbers = Numbers::default();
        let (first, references) = numbers.place(65_535, 65_535);
        assert_eq!((first.0, frames(references)), (0x1_FFFF, vec![]));
        let (next, references) = numbers.place(0, 65_535);
        assert_eq!((next.0, frames(references)), (0x2_0000, vec![first.0]));
        let (earlier, references) = numbers.place(65_534, 1);
        assert_eq!((earlier.0, frames(references)), (0x1_FFFE, vec![0x2_0001]));
    }

    #[test]
    fn no_number_is_that_of_no_frame() {
        let mut numbers = Numbers { latest: Some(5) };
        assert_ne!(numbers.place(0, 0).0, FrameId::NONE);
    }
}
