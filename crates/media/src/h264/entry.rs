//! Entry points: pictures at which decoding can start.

use super::sei::RecoveryPoint;
use super::slice::{SliceHeader, SliceKind};
use crate::frame::EntryPoint;

/// Pictures without an IDR picture or recovery point after which a stream counts as having none: 5 to 12 seconds.
/// Chosen by us: above the default keyframe interval of x264 (250 frames).
const MAX_PICTURES_WITHOUT: u64 = 300;

/// Decides which pictures are entry points.
///
/// IDR pictures and recovery points are entry points. In a stream with neither, I pictures are, as in decoders;
/// elsewhere, pictures after an I picture may refer to earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryPoints {
    pictures: u64,
    /// Last IDR picture or recovery point. The first picture of the stream does not count, as it is one in any stream.
    marked: Option<u64>,
    /// Whether an I picture has come since.
    intra: bool,
}

impl EntryPoints {
    /// Returns the next picture as an entry point, if it is one. `kind` is the most demanding type of its slices.
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
        let without = self.marked.is_none_or(|marked| self.pictures - marked > MAX_PICTURES_WITHOUT);
        (is_plain(header, kind) && self.intra && without).then_some(EntryPoint { recovery: 0 })
    }

    /// Records a picture.
    pub(crate) fn take(&mut self, header: &SliceHeader, recovery: Option<RecoveryPoint>, kind: SliceKind) {
        if (header.is_idr() || recovery.is_some()) && self.pictures > 0 {
            (self.marked, self.intra) = (Some(self.pictures), false);
        }
        self.intra |= is_plain(header, kind);
        self.pictures += 1;
    }
}

/// Whether it is an I picture used for reference, and not IDR.
pub(crate) fn is_plain(header: &SliceHeader, kind: SliceKind) -> bool {
    kind == SliceKind::I && header.is_reference() && !header.is_idr()
}
