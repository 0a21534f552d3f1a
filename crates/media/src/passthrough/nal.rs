//! Payloads of H.264 (RFC 6184) and H.265 (RFC 7798) as the beginning of an access unit, from which its kind is read.

use rtp_types::RtpPacket;

use crate::h264::annexb::START_CODE;
use crate::h264::depacketize::Payload;
use crate::h264::svc::{EXTENDED_SLICE, SvcHeader};

/// Types of payloads of H.265 (RFC 7798 §4.4): aggregation packet, fragmentation unit.
const AP: u8 = 48;
const FU: u8 = 49;
/// Start of a fragmented NAL unit (RFC 7798 §4.4.3).
const FU_START: u8 = 0x80;

/// Appends the NAL units of a packet of H.264, with start codes, as far as they are in it.
pub(crate) fn append_h264(annexb: &mut Vec<u8>, payload: &[u8]) {
    if let Ok(payload) = Payload::parse(payload) {
        payload.append_to(annexb);
    }
}

/// Types of payloads of H.264 (RFC 6184 §5.2): aggregation packet, fragmentation unit, and the start of one.
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const FU_A_START: u8 = 0x80;

/// First bytes of a NAL unit, as many as an SVC header has: zeros where it is shorter.
type NalStart = [u8; 4];

/// Start of the first NAL unit in a packet of H.264 that is part of a picture.
fn first_slice(payload: &[u8]) -> Option<NalStart> {
    let start = |parts: [&[u8]; 2]| {
        let mut start = NalStart::default();
        start.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        start
    };
    let is_slice = |nal: &NalStart| matches!(nal[0] & 0x1f, 1..=5 | EXTENDED_SLICE);
    match *payload {
        [first, ref rest @ ..] if first & 0x1f == STAP_A => {
            let mut rest = rest;
            while let Some((size, after)) = rest.split_first_chunk::<2>() {
                let (nal, after) = after.split_at_checked(u16::from_be_bytes(*size).into())?;
                if let Some(found) = Some(start([nal, &[]])).filter(is_slice) {
                    return Some(found);
                }
                rest = after;
            }
            None
        }
        [first, unit, ref data @ ..] if first & 0x1f == FU_A => {
            Some(start([&[first & 0xe0 | unit & 0x1f], data])).filter(|nal| unit & FU_A_START != 0 && is_slice(nal))
        }
        _ => Some(start([payload, &[]])).filter(is_slice),
    }
}

/// Layer of a packet of H.264 with SVC (RFC 6190); `None`: no slice begins in it.
pub(super) fn svc_layer(payload: &[u8]) -> Option<u8> {
    first_slice(payload).map(|nal| SvcHeader::read(&nal).map_or(0, |header| header.spatial))
}

/// Header of a packet with a slice of an upper layer, and whether no other picture refers to it.
pub(super) fn upper_layer(payload: &[u8]) -> Option<(SvcHeader, bool)> {
    let nal = first_slice(payload)?;
    Some((SvcHeader::read(&nal).filter(|header| header.spatial > 0)?, nal[0] & 0x60 == 0))
}

/// Appends the NAL units of a packet of H.265.
pub(crate) fn append_h265(annexb: &mut Vec<u8>, payload: &[u8]) {
    let Some((&[first, second], rest)) = payload.split_first_chunk::<2>() else { return };
    match first >> 1 & 0x3f {
        AP => {
            let mut rest = rest;
            while let Some((size, after)) = rest.split_first_chunk::<2>() {
                let Some((nal, after)) = after.split_at_checked(u16::from_be_bytes(*size).into()) else { return };
                append(annexb, nal);
                rest = after;
            }
        }
        FU => {
            let Some((&fu, data)) = rest.split_first() else { return };
            if fu & FU_START == 0 {
                annexb.extend_from_slice(data);
                return;
            }
            append(annexb, &[&[first & 0x81 | (fu & 0x3f) << 1, second], data].concat());
        }
        _ => append(annexb, payload),
    }
}

fn append(annexb: &mut Vec<u8>, nal: &[u8]) {
    annexb.extend_from_slice(&START_CODE);
    annexb.extend_from_slice(nal);
}

/// Whether a packet begins a parameter set of H.265 (types 32 to 34), alone or aggregated: for streams of an unknown codec.
pub(super) fn has_h265_parameters(payload: &[u8]) -> bool {
    let mut annexb = Vec::new();
    let is_kind = |first: u8| first & 0x81 == 0 && matches!(first >> 1, 32..=34 | AP);
    if payload.first().is_none_or(|&first| !is_kind(first)) || payload.get(1) != Some(&1) {
        return false;
    }
    append_h265(&mut annexb, payload);
    annexb.get(4..6).is_some_and(|header| matches!(header[0] >> 1, 32..=34) && header[1] == 1)
}

/// Payload type of an RTP packet, and whether it may be of H.264 (RFC 6184): of a type that encoders use, and consistent.
pub fn look_for_h264(datagram: &[u8]) -> Option<(u8, bool)> {
    let packet = RtpPacket::parse(datagram).ok()?;
    let payload = Payload::parse(packet.payload());
    Some((packet.payload_type(), payload.is_ok_and(|payload| payload.is_usual())))
}
