//! Frames that the sender gave up at the end of a stream: no later frame tells of them, but the sender does.

use std::collections::BTreeMap;

/// Frames of a stream of the source by its number (`None`: of all streams).
pub(super) type Frames = BTreeMap<Option<u32>, u64>;

/// Comparison of the frames that the sender handed over with those that are known here.
#[derive(Debug, Default)]
pub(super) struct ToldFrames {
    /// Frames known when the connection began.
    before: Frames,
    /// Frames that its sender told of, at its end.
    told: Frames,
    /// Frames of which only the senders told.
    missing: Frames,
}

impl ToldFrames {
    /// Begins a connection.
    pub(super) fn begin(&mut self, known: Frames) {
        self.settle(&known);
        self.before = known;
    }

    /// Takes what the sender tells of each stream.
    pub(super) fn tell(&mut self, frames: &[(u32, u32)]) {
        self.told = frames.iter().map(|&(stream, count)| (Some(stream), count.into())).collect();
        self.told.insert(None, frames.iter().map(|(_, count)| u64::from(*count)).sum());
    }

    /// Counts frames that are not known at the end of a connection.
    pub(super) fn settle(&mut self, known: &Frames) {
        for (stream, told) in std::mem::take(&mut self.told) {
            let [now, before] = [known, &self.before].map(|frames| frames.get(&stream).copied().unwrap_or(0));
            let came = now.saturating_sub(before);
            *self.missing.entry(stream).or_default() += told.saturating_sub(came);
        }
    }

    /// Frames of which only the senders told.
    pub(super) fn missing(&self, stream: Option<u32>) -> u64 {
        self.missing.get(&stream).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_only_the_sender_knows_are_missing_in_each_connection() {
        let known = |video: u64, all: u64| Frames::from([(Some(256), video), (None, all)]);
        let mut told = ToldFrames::default();
        told.begin(Frames::default());
        told.tell(&[(256, 100), (257, 13)]);
        told.begin(known(77, 100));
        assert_eq!([Some(256), Some(257), None].map(|stream| told.missing(stream)), [23, 13, 13]);
        // The next one ends with a frame that came; one that breaks off tells nothing.
        told.tell(&[(256, 20), (257, 5)]);
        told.begin(known(97, 130));
        told.begin(known(99, 140));
        assert_eq!([Some(256), None].map(|stream| told.missing(stream)), [23, 13]);
    }
}
