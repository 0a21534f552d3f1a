//! Kind of a frame: of video, of sound, or of what comes with them.

/// Kind of a frame of RTP, or of a PES packet, for statistics and late choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitKind {
    /// Tables of a transport stream.
    Tables,
    /// Video at which a decoder can start.
    VideoEntry,
    /// Video that others refer to.
    Video,
    /// Video that no other refers to.
    VideoDisposable,
    /// Audio.
    Audio,
    /// Subtitles and teletext.
    Subtitles,
    /// Data, and media of an unknown codec.
    Other,
}

impl UnitKind {
    /// Whether it is a picture.
    pub fn is_picture(self) -> bool {
        matches!(self, Self::VideoEntry | Self::Video | Self::VideoDisposable)
    }
}
