//! Transport stream packet of 188 bytes: header and adaptation field (ISO/IEC 13818-1 §2.4.3).

/// Length of a packet in bytes (§2.4.3.2).
pub const PACKET_LEN: usize = 188;
/// First byte of each packet (§2.4.3.3).
pub(crate) const SYNC: u8 = 0x47;
/// PID of null packets (§2.4.3.3, table 2-3).
pub(super) const NULL_PID: u16 = 0x1fff;
/// Ticks of the program clock reference (PCR) a second (§2.4.3.5).
pub(super) const PCR_HZ: u64 = 27_000_000;
/// Step of the program clock beyond which it has begun anew: ten times the longest interval between two values
/// (ISO/IEC 13818-1 §2.7.2: 100 ms).
pub(super) const MOST_STEP: u64 = PCR_HZ;
/// Bytes from one packet to the next: alone; behind a time stamp of four bytes, as on Blu-ray discs and in cameras' files (M2TS); with
/// a Reed-Solomon code of 16 bytes (ETSI EN 300 429 §4.4).
pub(super) const SPACINGS: [usize; 3] = [PACKET_LEN, M2TS_SPACING, MAX_SPACING];
pub(super) const M2TS_SPACING: usize = PACKET_LEN + 4;
const MAX_SPACING: usize = PACKET_LEN + 16;
/// Number of values of a time stamp: 33 bits of 90 kHz (§2.4.3.7).
pub(crate) const TIME_VALUES: i64 = 1 << 33;
/// Number of PCR values: those of a time stamp, each of 300 ticks (§2.4.3.5).
pub(super) const PCR_VALUES: u64 = TIME_VALUES as u64 * 300;
/// Smallest and largest length of a packet's header with an adaptation field.
const HEADER: usize = 4;

/// Returns whether bytes are of a transport stream: sync bytes a packet apart. `None`: too few bytes to tell.
///
/// ```
/// use timeous_media::ts::is_transport_stream;
/// let mut bytes = vec![0; 3 * 188];
/// assert_eq!(is_transport_stream(&bytes), Some(false));
/// bytes.iter_mut().step_by(188).for_each(|byte| *byte = 0x47);
/// assert_eq!(is_transport_stream(&bytes), Some(true));
/// assert_eq!(is_transport_stream(&bytes[..100]), None);
/// assert_eq!(is_transport_stream(&[0, 0, 0, 1]), Some(false));
/// ```
pub fn is_transport_stream(bytes: &[u8]) -> Option<bool> {
    let first = bytes.iter().take(PACKET_LEN).position(|byte| *byte == SYNC);
    let Some(first) = first else {
        // H.264 begins with a start code: no need to wait for more.
        return (bytes.len() >= PACKET_LEN || bytes.starts_with(&[0, 0])).then_some(false);
    };
    let found = (first..bytes.len().min(MAX_SPACING))
        .any(|at| SPACINGS.iter().any(|spacing| sync_at(bytes, at, *spacing) == Some(true)));
    if found {
        return Some(true);
    }
    if bytes.len() > 3 * MAX_SPACING { Some(false) } else { None }
}

/// Whether packets begin at a place: this one, and the two after it, at a spacing. `None`: too few bytes.
pub(super) fn sync_at(bytes: &[u8], at: usize, spacing: usize) -> Option<bool> {
    let mut known = true;
    for packet in 0..3 {
        match bytes.get(at + packet * spacing) {
            Some(&SYNC) => {}
            Some(_) => return Some(false),
            None => known = false,
        }
    }
    // A short stream that ends with a packet is one, too.
    let ends = spacing == PACKET_LEN && bytes.len() > at && (bytes.len() - at).is_multiple_of(PACKET_LEN);
    (known || ends).then_some(true)
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a>(&'a [u8; PACKET_LEN]);

/// Fields of an adaptation field that matter here (§2.4.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Adaptation {
    pub(super) is_discontinuous: bool,
    /// A decoder can start here.
    pub(super) is_random_access: bool,
    /// Program clock reference in 27 MHz ticks.
    pub(super) pcr: Option<u64>,
    /// It has stuffing, as in the last packet of a PES packet.
    pub(super) is_stuffed: bool,
}

impl<'a> Packet<'a> {
    /// Returns the packet, if the bytes are one.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let bytes: &[u8; PACKET_LEN] = bytes.try_into().ok()?;
        (bytes[0] == SYNC).then_some(Self(bytes))
    }

    pub(super) fn bytes(self) -> &'a [u8; PACKET_LEN] {
        self.0
    }

    pub(super) fn pid(self) -> u16 {
        u16::from_be_bytes([self.0[1] & 0x1f, self.0[2]])
    }

    /// The sender of the packet marks it as damaged (`transport_error_indicator`).
    pub(super) fn is_damaged(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// A PES packet or a section begins in it (`payload_unit_start_indicator`).
    pub(super) fn starts(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    pub(super) fn is_scrambled(self) -> bool {
        self.0[3] & 0xc0 != 0
    }

    pub(super) fn has_payload(self) -> bool {
        self.0[3] & 0x10 != 0
    }

    /// Continuity counter, which counts packets of a PID with payload.
    pub(super) fn continuity(self) -> u8 {
        self.0[3] & 0x0f
    }

    fn has_adaptation(self) -> bool {
        self.0[3] & 0x20 != 0
    }

    pub(super) fn adaptation(self) -> Adaptation {
        let len = usize::from(self.0[4]);
        if !self.has_adaptation() || HEADER + 1 + len > PACKET_LEN {
            return Adaptation::default();
        }
        // One byte of length zero is a stuffing byte.
        let Some(flags) = (len > 0).then(|| self.0[5]) else {
            return Adaptation { is_stuffed: true, ..Adaptation::default() };
        };
        let pcr = (flags & 0x10 != 0 && len >= 7).then(|| {
            let [a, b, c, d, e, f] = [6, 7, 8, 9, 10, 11].map(|at| u64::from(self.0[at]));
            (a << 25 | b << 17 | c << 9 | d << 1 | e >> 7) * 300 + ((e & 1) << 8 | f)
        });
        Adaptation {
            is_discontinuous: flags & 0x80 != 0,
            is_random_access: flags & 0x40 != 0,
            pcr,
            is_stuffed: self.used_adaptation(flags).is_some_and(|used| len > used),
        }
    }

    /// Bytes of the adaptation field before stuffing; `None` with an extension.
    fn used_adaptation(self, flags: u8) -> Option<usize> {
        let clocks = 6 * usize::from(flags & 0x10 != 0) + 6 * usize::from(flags & 0x08 != 0);
        let private = 1 + clocks + usize::from(flags & 0x04 != 0);
        match flags & 0x03 {
            0 => Some(private),
            2 => Some(private + 1 + usize::from(*self.0.get(HEADER + 1 + private)?)),
            _ => None,
        }
    }

    /// Payload; empty if there is none or the adaptation field is longer than the packet.
    pub(super) fn payload(self) -> &'a [u8] {
        let begin = if self.has_adaptation() { HEADER + 1 + usize::from(self.0[4]) } else { HEADER };
        if self.has_payload() { self.0.get(begin..).unwrap_or_default() } else { &[] }
    }
}

/// Beginning of the elementary stream in a PES packet (§2.4.3.6).
pub(super) fn elementary_begin(payload: &[u8]) -> usize {
    if payload.starts_with(&[0, 0, 1]) { 9 + payload.get(8).copied().map_or(0, usize::from) } else { 0 }
}

/// Sets the continuity counter of a packet.
pub(super) fn set_continuity(packet: &mut [u8], counter: u8) {
    packet[3] = packet[3] & 0xf0 | counter & 0x0f;
}

/// Replaces the clock value of a packet that has one.
pub(super) fn set_pcr(packet: &mut [u8], pcr: u64) {
    packet[6..12].copy_from_slice(&pcr_field(pcr));
}

/// Sets the discontinuity indicator of a packet with an adaptation field (§2.4.3.5).
pub(super) fn mark_discontinuous(packet: &mut [u8]) {
    packet[5] |= 0x80;
}

/// Clock value in an adaptation field (§2.4.3.4).
fn pcr_field(pcr: u64) -> [u8; 6] {
    let (base, extension) = (pcr % PCR_VALUES / 300, pcr % 300);
    let last = ((base & 1) << 7) as u8 | 0x7e | (extension >> 8) as u8;
    [(base >> 25) as u8, (base >> 17) as u8, (base >> 9) as u8, (base >> 1) as u8, last, extension as u8]
}

/// Builds a packet without payload that carries a PCR (§2.4.3.5), with the continuity counter of the packet before it.
pub(super) fn pcr_packet(pid: u16, counter: u8, pcr: u64) -> [u8; PACKET_LEN] {
    let mut packet = [0xff; PACKET_LEN];
    let [high, low] = (pid & 0x1fff).to_be_bytes();
    packet[..6].copy_from_slice(&[SYNC, high, low, 0x20 | counter & 0x0f, (PACKET_LEN - HEADER - 1) as u8, 0x10]);
    packet[6..12].copy_from_slice(&pcr_field(pcr));
    packet
}
