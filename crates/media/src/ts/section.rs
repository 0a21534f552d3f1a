//! Sections of program-specific information, put together from packets (ISO/IEC 13818-1 §2.4.4).

/// Bytes of a section before those that its length counts (§2.4.4.3).
const HEADER: usize = 3;
/// Length of the CRC at a section's end.
const CRC: usize = 4;
/// Longest section in bytes (§2.4.4.11).
const MAX_SECTION: usize = 4_096;

/// Sections of one PID.
#[derive(Clone, Debug, Default)]
pub(super) struct Sections {
    bytes: Vec<u8>,
    is_open: bool,
}

impl Sections {
    /// Takes a packet's payload; returns the sections that it completes, whose CRC is right.
    pub(super) fn push(&mut self, starts: bool, payload: &[u8]) -> Vec<Vec<u8>> {
        let mut done = Vec::new();
        if !starts {
            if self.is_open {
                self.bytes.extend_from_slice(payload);
                self.take(&mut done);
            }
            return done;
        }
        let Some((&pointer, rest)) = payload.split_first() else { return done };
        let Some((before, after)) = rest.split_at_checked(usize::from(pointer)) else { return done };
        if self.is_open {
            self.bytes.extend_from_slice(before);
            self.take(&mut done);
        }
        (self.bytes, self.is_open) = (after.to_vec(), true);
        self.take(&mut done);
        done
    }

    /// Takes the complete sections.
    fn take(&mut self, done: &mut Vec<Vec<u8>>) {
        while let Some(len) = section_len(&self.bytes) {
            if len > MAX_SECTION {
                self.stop();
            }
            if len > self.bytes.len() {
                return;
            }
            let rest = self.bytes.split_off(len);
            let section = std::mem::replace(&mut self.bytes, rest);
            if crc(&section) == 0 {
                done.push(section);
            }
        }
        // Stuffing fills the packet after the last section (§2.4.4).
        if self.bytes.first() == Some(&0xff) {
            self.stop();
        }
    }

    fn stop(&mut self) {
        self.bytes.clear();
        self.is_open = false;
    }
}

/// Length of the section that begins here; `None` if too little is known, or stuffing begins.
pub(super) fn section_len(bytes: &[u8]) -> Option<usize> {
    match *bytes {
        [0xff, ..] => None,
        [_, high, low, ..] => Some(HEADER + usize::from(u16::from_be_bytes([high & 0x0f, low]))),
        _ => None,
    }
}

/// Contents of a section after its header of eight bytes (§2.4.4.3), without the CRC.
pub(super) fn body(section: &[u8]) -> &[u8] {
    section.get(8..section.len().saturating_sub(CRC)).unwrap_or_default()
}

/// CRC of MPEG-2 sections (ISO/IEC 13818-1 annex A): zero over a section with its own.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc & 0x8000_0000 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 }
        })
    })
}
