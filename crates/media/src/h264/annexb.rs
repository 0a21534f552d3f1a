//! Annex B byte stream of H.264: splits it into NAL units, and writes it.

use std::collections::VecDeque;

use crate::error::MediaError;

/// Four-byte start code, as before the first NAL unit of an access unit (H.264 B.1.2).
pub const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Default size limit of a NAL unit, in bytes; far above a slice of any level.
pub const DEFAULT_NAL_LIMIT: usize = 4 << 20;

/// Splits a byte stream into NAL units; chunks may end anywhere.
///
/// ```
/// use timeous_media::annexb::NalSplitter;
/// let mut splitter = NalSplitter::default();
/// splitter.push(&[0, 0, 0, 1, 0x67, 1, 0])?;
/// splitter.push(&[0, 1, 0x68, 2])?;
/// splitter.finish()?;
/// assert_eq!(splitter.next_nal(), Some(vec![0x67, 1]));
/// assert_eq!(splitter.next_nal(), Some(vec![0x68, 2]));
/// assert_eq!(splitter.next_nal(), None);
/// # Ok::<(), timeous_media::MediaError>(())
/// ```
#[derive(Debug)]
pub struct NalSplitter {
    limit: usize,
    started: bool,
    /// Zero bytes that may belong to the NAL unit or to a start code.
    zeros: usize,
    current: Vec<u8>,
    state: State,
    ready: VecDeque<Unit>,
    too_large: u64,
    torn: u64,
    bytes: u64,
}

/// Parser state: where the next bytes belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Current NAL unit.
    Within,
    /// A start code is expected: the NAL unit was ended by a pause.
    Taken,
    /// Bytes are skipped up to the next start code.
    Skipping,
}

/// Unit split from the stream.
#[derive(Debug)]
pub(crate) enum Unit {
    Nal(Vec<u8>),
    /// Start of a NAL unit above the size limit.
    TooLarge(Vec<u8>),
}

impl Default for NalSplitter {
    fn default() -> Self {
        Self::new(DEFAULT_NAL_LIMIT)
    }
}

impl NalSplitter {
    /// Creates a splitter that drops NAL units larger than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            started: false,
            zeros: 0,
            current: Vec::new(),
            state: State::Within,
            ready: VecDeque::new(),
            too_large: 0,
            torn: 0,
            bytes: 0,
        }
    }

    /// Adds the next bytes of the stream.
    ///
    /// # Errors
    /// [`MediaError::NotAnnexB`] if the stream does not begin with a start code; this cannot be recovered from.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), MediaError> {
        for &byte in chunk {
            self.bytes += 1;
            match byte {
                0 => self.zeros = self.zeros.saturating_add(1),
                1 if self.zeros >= 2 => self.start_code(),
                _ if !self.started => return Err(self.not_annexb(byte)),
                _ => self.extend(byte),
            }
        }
        Ok(())
    }

    /// Treats the current NAL unit as complete, since the source has paused.
    ///
    /// If no start code follows, it was incomplete: it is counted as torn, and the rest is dropped.
    pub fn flush(&mut self) {
        if self.state == State::Within && !self.current.is_empty() {
            self.ready.push_back(Unit::Nal(std::mem::take(&mut self.current)));
            self.state = State::Taken;
        }
    }

    /// Ends the stream; the rest is the last NAL unit. Returns whether the stream ends right after a start code; a cut
    /// within a NAL unit cannot be detected.
    ///
    /// # Errors
    /// [`MediaError::NoPicture`] if there was no start code at all.
    pub fn finish(&mut self) -> Result<bool, MediaError> {
        if !self.started {
            return Err(MediaError::NoPicture { bytes: self.bytes });
        }
        let torn = self.current.is_empty() && self.state == State::Within;
        self.start_code();
        Ok(torn)
    }

    /// Returns the next NAL unit with its header, without start code and trailing zeros.
    pub fn next_nal(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Unit::Nal(nal) = self.ready.pop_front()? {
                return Some(nal);
            }
        }
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// NAL units dropped because they exceed the size limit.
    pub fn too_large(&self) -> u64 {
        self.too_large
    }

    /// NAL units that [`flush`](Self::flush) treated as complete but that continued afterwards.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    pub(crate) fn next_unit(&mut self) -> Option<Unit> {
        self.ready.pop_front()
    }

    /// Start of the incomplete NAL unit.
    pub(crate) fn head(&self) -> &[u8] {
        &self.current
    }

    fn start_code(&mut self) {
        self.started = true;
        self.zeros = 0;
        self.state = State::Within;
        if !self.current.is_empty() {
            self.ready.push_back(Unit::Nal(std::mem::take(&mut self.current)));
        }
    }

    fn extend(&mut self, byte: u8) {
        match self.state {
            State::Within => {
                let len = self.current.len().saturating_add(self.zeros).saturating_add(1);
                if len > self.limit {
                    self.too_large += 1;
                    self.ready.push_back(Unit::TooLarge(std::mem::take(&mut self.current)));
                    self.state = State::Skipping;
                } else {
                    self.current.resize(len - 1, 0);
                    self.current.push(byte);
                }
            }
            State::Taken => {
                self.torn += 1;
                self.state = State::Skipping;
            }
            State::Skipping => {}
        }
        self.zeros = 0;
    }

    fn not_annexb(&self, byte: u8) -> MediaError {
        let mut found = vec![0; self.zeros.min(7)];
        found.push(byte);
        MediaError::NotAnnexB { found }
    }
}

/// Appends NAL units to `out` as a byte stream, each with a four-byte start code.
pub fn write<'a>(nals: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for nal in nals {
        out.extend_from_slice(&START_CODE);
        out.extend_from_slice(nal);
    }
}

/// Places after the start codes of a byte stream, of H.264 or of another codec with the same ones.
pub(crate) fn unit_starts(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let codes = bytes.windows(3).enumerate().filter(|(_, code)| *code == [0, 0, 1]);
    codes.map(|(at, _)| at + 3).filter(|at| *at < bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = NalSplitter::default();
        for chunk in chunks {
            splitter.push(chunk).unwrap();
        }
        splitter.finish().unwrap();
        std::iter::from_fn(|| splitter.next_nal()).collect()
    }

    #[test]
    fn both_start_codes_and_trailing_zeros() {
        let stream = [0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x65, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0x41];
        assert_eq!(split(&[&stream]), [vec![9, 0xf0], vec![0x65, 0, 0, 3], vec![0x41]]);
    }

    #[test]
    fn an_mp4_file_is_refused_at_its_first_box() {
        let mut splitter = NalSplitter::default();
        let err = splitter.push(b"\0\0\0\x20ftypisom").unwrap_err();
        assert_eq!(err, MediaError::NotAnnexB { found: vec![0, 0, 0, 0x20] });
    }

    #[test]
    fn nothing_and_only_zeros_hold_no_picture() {
        assert_eq!(NalSplitter::default().finish(), Err(MediaError::NoPicture { bytes: 0 }));
        let mut splitter = NalSplitter::default();
        splitter.push(&[0; 100]).unwrap();
        assert_eq!(splitter.finish(), Err(MediaError::NoPicture { bytes: 100 }));
    }

    #[test]
    fn a_nal_unit_beyond_the_limit_is_left_out_whatever_it_holds() {
        for filling in [0xff, 0] {
            let mut splitter = NalSplitter::new(1000);
            splitter.push(&[0, 0, 1, 0x65]).unwrap();
            splitter.push(&[filling; 999]).unwrap();
            splitter.push(&[7; 5000]).unwrap();
            splitter.push(&[0, 0, 1, 0x41, 5]).unwrap();
            splitter.finish().unwrap();
            assert_eq!((splitter.next_nal(), splitter.too_large()), (Some(vec![0x41, 5]), 1));
        }
    }

    #[test]
    fn a_unit_taken_for_whole_is_torn_if_it_goes_on() {
        let mut splitter = NalSplitter::default();
        splitter.push(&[0, 0, 1, 0x65, 1, 2, 0, 0]).unwrap();
        splitter.flush();
        assert_eq!(splitter.next_nal(), Some(vec![0x65, 1, 2]));
        splitter.push(&[0, 1, 0x41, 3]).unwrap();
        splitter.flush();
        assert_eq!((splitter.next_nal(), splitter.torn()), (Some(vec![0x41, 3]), 0), "the start code was cut in two");
        splitter.push(&[4, 0, 5]).unwrap();
        splitter.flush();
        splitter.push(&[6, 0, 0, 1, 0x41, 7]).unwrap();
        splitter.finish().unwrap();
        assert_eq!((splitter.next_nal(), splitter.next_nal(), splitter.torn()), (Some(vec![0x41, 7]), None, 1));
    }

    #[test]
    fn an_end_inside_a_start_code_is_seen() {
        let mut splitter = NalSplitter::default();
        splitter.push(&[0, 0, 1, 0x65, 1, 0, 0, 1]).unwrap();
        assert_eq!(splitter.finish(), Ok(true));
    }

    /// Valid NAL unit: no start code within, no zero at its end.
    fn nal() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(3), any::<u8>()], 0..40).prop_map(|mut body| {
            body.insert(0, 0x41);
            body.push(0x80);
            let mut zeros = 0;
            for byte in &mut body {
                if zeros >= 2 && *byte < 3 {
                    *byte = 3;
                }
                zeros = if *byte == 0 { zeros + 1 } else { 0 };
            }
            body
        })
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            nals in proptest::collection::vec((nal(), any::<bool>(), 0usize..3), 1..12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut stream = Vec::new();
            for (nal, long, trailing) in &nals {
                stream.extend_from_slice(if *long { &START_CODE } else { &START_CODE[1..] });
                stream.extend_from_slice(nal);
                stream.resize(stream.len() + trailing, 0);
            }
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let expected: Vec<Vec<u8>> = nals.into_iter().map(|(nal, ..)| nal).collect();
            prop_assert_eq!(split(&chunks), expected);
        }

        #[test]
        fn no_input_makes_it_panic(chunks in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..50), 0..8)) {
            let mut splitter = NalSplitter::new(64);
            for chunk in &chunks {
                if splitter.push(chunk).is_err() {
                    return Ok(());
                }
                if chunk.len() % 3 == 0 {
                    splitter.flush();
                }
            }
            let _ = splitter.finish();
            while let Some(nal) = splitter.next_nal() {
                prop_assert!(!nal.is_empty() && nal.len() <= 64);
            }
        }
    }
}
