//! Entry points: the pictures that decoding can begin at.

use super::sei::RecoveryPoint;
use super::slice::{SliceHeader, SliceKind};
use crate::frame::EntryPoint;

/// Pictures without an IDR picture or a recovery point after which a stream is taken to have none: 5 to 12 seconds,
/// the keyframe interval that encoders choose by themselves (250 frames) and some more.
const WITHOUT: u64 = 300;

/// Decides which pictures are entry points.
///
/// IDR pictures and those with a recovery point are. In a stream that has neither, I pictures are, as decoders have it;
/// in one that has them, an I picture may be followed by pictures that refer to what was before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryPoints {
    pictures: u64,
    /// The last IDR picture or recovery point. The very first picture does not count, which is one in any stream.
    marked: Option<u64>,
    /// An I picture has come since.
    intra: bool,
}

impl EntryPoints {
    /// Returns what the next picture is as an entry point. `kind` is the most demanding one of its slices.
    pub(crate) fn judge(
        &self,
        header: &SliceHeader,
        recovery: Option<RecoveryPoint>,
        kind: SliceKind,
    ) -> Option<EntryPoint> {
        if header.is_idr() {
            return Some(EntryPoint { recovery: 0 });
        }
        if let Some(point) = recovery {
            return Some(EntryPoint { recovery: point.frames });
        }
        let without = self.marked.is_none_or(|marked| self.pictures - marked > WITHOUT);
        (is_plain(header, kind) && self.intra && without).then_some(EntryPoint { recovery: 0 })
    }

    /// The picture has been taken.
    pub(crate) fn take(&mut self, header: &SliceHeader, recovery: Option<RecoveryPoint>, kind: SliceKind) {
        if (header.is_idr() || recovery.is_some()) && self.pictures > 0 {
            (self.marked, self.intra) = (Some(self.pictures), false);
        }
        self.intra |= is_plain(header, kind);
        self.pictures += 1;
    }
}

/// Whether it is an I picture that others refer to.
pub(crate) fn is_plain(header: &SliceHeader, kind: SliceKind) -> bool {
    kind == SliceKind::I && header.is_reference() && !header.is_idr()
}
