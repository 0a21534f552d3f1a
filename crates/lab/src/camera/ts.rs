//! MPEG-TS of one video stream: where its frames begin, and its elementary stream.

use super::arrivals::Arrivals;

/// Packet length, ISO/IEC 13818-1 §2.4.3.2.
const PACKET: usize = 188;
/// Sync byte of a packet.
const SYNC: u8 = 0x47;
/// PID that ffmpeg's muxer gives its first stream.
const VIDEO: u16 = 0x100;

/// Cuts a stream into frames: tables go with the frame before which they stand.
pub(crate) fn frames(ts: &[u8]) -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut tables = Vec::new();
    for packet in ts.chunks_exact(PACKET) {
        let (is_video, is_start) = (pid(packet) == VIDEO, packet[1] & 0x40 != 0);
        match (is_video, is_start, frames.last_mut()) {
            (true, false, Some(frame)) => frame.extend_from_slice(packet),
            (true, _, _) => frames.push([std::mem::take(&mut tables).as_slice(), packet].concat()),
            (false, _, _) => tables.extend_from_slice(packet),
        }
    }
    frames
}

/// Elementary stream of the packets that came. What was lost leaves no gap: a NAL unit around it is another one.
pub(crate) fn elementary(ts: &Arrivals) -> Arrivals {
    let mut video = Arrivals::default();
    let mut at = 0;
    while let Some(packet) = ts.bytes.get(at..at + PACKET) {
        if packet[0] != SYNC {
            at += 1;
            continue;
        }
        if pid(packet) == VIDEO
            && let Some(payload) = payload(packet)
        {
            video.push(payload, ts.at(at + PACKET - 1));
        }
        at += PACKET;
    }
    video
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1F, packet[2]])
}

/// Bytes of the elementary stream in a packet: behind the adaptation field, and behind the PES header if one begins.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let adaptation = if packet[3] & 0x20 == 0 { 0 } else { 1 + usize::from(packet[4]) };
    let payload = packet.get(4 + adaptation..).filter(|_| packet[3] & 0x10 != 0)?;
    let header = if packet[1] & 0x40 == 0 { 0 } else { 9 + usize::from(*payload.get(8)?) };
    payload.get(header..)
}

#[cfg(test)]
mod tests {
    use timeous::core::Instant;

    use super::*;

    /// Packet with `payload`, filled up by its adaptation field.
    fn packet(pid: u16, is_start: bool, payload: &[u8]) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let pes: &[u8] = if is_start { &[0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0, 0, 0, 0, 0] } else { &[] };
        let filling = PACKET - 5 - pes.len() - payload.len();
        let head = [SYNC, high | if is_start { 0x40 } else { 0 }, low, 0x30, filling as u8];
        [&head, vec![0xFF; filling].as_slice(), pes, payload].concat()
    }

    #[test]
    fn frames_begin_with_their_tables_and_the_elementary_stream_is_theirs() {
        let packets =
            [packet(0, true, b""), packet(VIDEO, true, b"ab"), packet(VIDEO, false, b"cd"), packet(VIDEO, true, b"e")];
        let ts = packets.concat();
        assert_eq!(frames(&ts), [packets[..3].concat(), packets[3].clone()]);
        let (mut arrivals, at) = (Arrivals::default(), Instant::from_nanos);
        arrivals.push(&ts[..PACKET * 2 - 1], at(1));
        arrivals.push(&ts[PACKET * 2 - 1..], at(2));
        let video = elementary(&arrivals);
        assert_eq!((video.bytes.as_slice(), video.at(0)), (b"abcde".as_slice(), at(2)), "a packet comes with its end");
    }
}
