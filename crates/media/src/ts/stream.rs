//! Elementary stream of a transport stream, for statistics: its PID, and what the tables tell of it.

/// Kind of an elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum StreamKind {
    /// Video.
    Video,
    /// Audio.
    Audio,
    /// Subtitles and teletext.
    Subtitles,
    /// Data, and what no table names.
    #[default]
    Data,
    /// Tables.
    Tables,
    /// Values of the program clock in packets of their own.
    Clock,
}

impl std::fmt::Display for StreamKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Subtitles => "subtitles",
            Self::Data => "data",
            Self::Tables => "tables",
            Self::Clock => "clock",
        })
    }
}

/// Elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TsStream {
    /// PID of its packets.
    pub pid: u16,
    /// Kind, as far as tables tell.
    pub kind: StreamKind,
    /// Name of the codec; empty if there is none, or it is not known.
    pub codec: &'static str,
}

/// Bit of a stream's number for packets of a PID that carry nothing but its clock. PIDs have 13 bits (ISO/IEC 13818-1 §2.4.3.3).
const CLOCK: u16 = 1 << 15;

/// Number of the stream of packets of a PID, with payload or without.
pub(super) fn number_of(pid: u16, has_payload: bool) -> u16 {
    if has_payload { pid } else { pid | CLOCK }
}

/// PID of a stream's number, and whether its packets carry only a clock.
pub(super) fn pid_of(number: u16) -> (u16, bool) {
    (number & !CLOCK, number & CLOCK != 0)
}
