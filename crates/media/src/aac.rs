//! AAC: its configuration in containers (AudioSpecificConfig) and its headers in a stream (ADTS).

pub(crate) mod adts;

/// Samples of a frame (ISO/IEC 14496-3 §4.5.2.1.1).
pub(crate) const FRAME_SAMPLES: i64 = 1_024;
/// Sampling frequencies by their index, in Hz (ISO/IEC 14496-3 table 1.18).
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
/// Lengths of a header without and with a checksum (ISO/IEC 13818-7 §6.2).
const HEADER: usize = 7;
const HEADER_CHECKED: usize = 9;
/// Longest frame with its header: its length has 13 bits (ISO/IEC 13818-7 §6.2.1).
const MAX_FRAME: usize = (1 << 13) - 1;
/// Object types of spectral band replication and parametric stereo, behind which the basic object stands (ISO/IEC 14496-3
/// table 1.17).
const EXTENDED: [u8; 2] = [5, 29];

/// Format of AAC, as far as ADTS can express it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AacFormat {
    /// Profile: the object type less one.
    profile: u8,
    /// Index of the sampling frequency.
    rate: u8,
    /// Channel configuration.
    channels: u8,
}

impl AacFormat {
    /// Reads an AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1). `None`: ADTS cannot express it.
    pub(crate) fn read_config(config: &[u8]) -> Option<Self> {
        let &[first, second, ..] = config else { return None };
        let (object, rate, channels) = (first >> 3, (first & 7) << 1 | second >> 7, second >> 3 & 0x0f);
        let object = if EXTENDED.contains(&object) { config.get(2)? >> 2 & 0x1f } else { object };
        let is_expressible =
            (1..=4).contains(&object) && usize::from(rate) < RATES.len() && (1..=7).contains(&channels);
        is_expressible.then_some(Self { profile: object - 1, rate, channels })
    }

    /// AudioSpecificConfig of the basic object.
    pub(crate) fn config(self) -> [u8; 2] {
        [(self.profile + 1) << 3 | self.rate >> 1, (self.rate & 1) << 7 | self.channels << 3]
    }

    /// Header of ADTS for a frame of `len` bytes. `None`: the frame is too long.
    pub(crate) fn header(self, len: usize) -> Option<[u8; HEADER]> {
        let len = u32::try_from(len + HEADER).ok().filter(|len| *len as usize <= MAX_FRAME)?;
        Some([
            0xff,
            0xf1,
            self.profile << 6 | self.rate << 2 | self.channels >> 2,
            (self.channels & 3) << 6 | (len >> 11) as u8,
            (len >> 3) as u8,
            ((len & 7) << 5) as u8 | 0x1f,
            0xfc,
        ])
    }

    /// Reads a header of ADTS; returns the format, the frame behind it, and the rest.
    pub(crate) fn read_frame(bytes: &[u8]) -> Option<(Self, &[u8], &[u8])> {
        let len = Self::frame_len(bytes)??;
        let &[_, second, third, fourth, ..] = bytes else { return None };
        let header = if second & 1 == 0 { HEADER_CHECKED } else { HEADER };
        let format = Self { profile: third >> 6, rate: third >> 2 & 0x0f, channels: (third & 1) << 2 | fourth >> 6 };
        Some((format, bytes.get(header..len)?, &bytes[len..]))
    }

    /// Length of the frame that begins here, with its header: `Some(None)`: none begins; `None`: too few bytes to tell.
    fn frame_len(bytes: &[u8]) -> Option<Option<usize>> {
        let &[first, second, third, fourth, fifth, sixth, _, ..] = bytes else { return None };
        let len = usize::from(fourth & 3) << 11 | usize::from(fifth) << 3 | usize::from(sixth >> 5);
        let is_one = first == 0xff && second & 0xf6 == 0xf0 && usize::from(third >> 2 & 0x0f) < RATES.len();
        Some((is_one && len >= HEADER).then_some(len))
    }

    /// Sampling frequency in Hz.
    pub(crate) fn hz(self) -> u32 {
        RATES[usize::from(self.rate)]
    }

    /// Channel configuration: the number of channels, up to six.
    pub(crate) fn channels(self) -> u8 {
        self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_with_its_header_is_read_back() {
        // Low complexity, 44.1 kHz, stereo.
        let format = AacFormat::read_config(&[0x12, 0x10]).unwrap();
        assert_eq!((format.config(), format.hz(), format.channels()), ([0x12, 0x10], 44_100, 2));
        assert_eq!(format.header(100).unwrap(), [0xff, 0xf1, 0x50, 0x80, 0x0d, 0x7f, 0xfc]);
        let stream = [&format.header(3).unwrap()[..], &[1, 2, 3, 9, 9]].concat();
        assert_eq!(AacFormat::read_frame(&stream), Some((format, &[1, 2, 3][..], &[9, 9][..])));
        assert_eq!(AacFormat::read_frame(&stream[..9]), None, "cut off");
        assert_eq!(format.header(9_000), None, "too long");
    }

    #[test]
    fn behind_spectral_band_replication_stands_the_basic_object() {
        // Object 5 at 24 kHz, two channels, 48 kHz with the extension, basic object 2.
        let bits = format!("{:05b}{:04b}{:04b}{:04b}{:05b}00", 5, 6, 2, 3, 2);
        let config: Vec<u8> = (0..3).map(|at| u8::from_str_radix(&bits[8 * at..8 * at + 8], 2).unwrap()).collect();
        let format = AacFormat::read_config(&config).unwrap();
        assert_eq!((format.profile, format.hz(), format.channels()), (1, 24_000, 2));
        assert!(AacFormat::read_config(&[]).is_none() && AacFormat::read_config(&[0xff, 0xff]).is_none());
    }
}
