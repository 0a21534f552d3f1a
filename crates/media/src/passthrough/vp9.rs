//! Payload header of VP9 (RFC 9628 §4.2).

use super::chain::{Header, Look};

/// First byte: picture number; inter-picture predicted; layers; flexible mode; start of a frame.
const PICTURE: u8 = 0x80;
const PREDICTED: u8 = 0x40;
const LAYERS: u8 = 0x20;
const FLEXIBLE: u8 = 0x10;
const START: u8 = 0x08;

/// Looks at a packet of a frame: of a picture, or of a spatial layer of one.
pub(super) fn look(payload: &[u8]) -> Look {
    read(payload).map_or(Look::Unknown, |header| header.map_or(Look::More, Look::Frame))
}

/// Spatial layer of a packet, if it tells.
pub(super) fn spatial_layer(payload: &[u8]) -> Option<u8> {
    let (&first, rest) = payload.split_first()?;
    let picture = match rest.first()? & 0x80 {
        _ if first & PICTURE == 0 => 0,
        0 => 1,
        _ => 2,
    };
    let layers = rest.get(picture)?;
    (first & LAYERS != 0).then_some(layers >> 1 & 7)
}

/// `Some(None)`: a packet within a frame, whose beginning is missing.
fn read(payload: &[u8]) -> Option<Option<Header>> {
    let (&first, mut rest) = payload.split_first()?;
    let mut header = Header::default();
    if first & PICTURE != 0 {
        let byte = *rest.first()?;
        let long = byte & 0x80 != 0;
        // Seven or fifteen bits.
        header.picture =
            Some(if long { u16::from_be_bytes([byte & 0x7f, *rest.get(1)?]) } else { u16::from(byte & 0x7f) });
        rest = rest.get(if long { 2 } else { 1 }..)?;
    }
    if first & LAYERS != 0 {
        // Temporal layer 3, switching up 1, spatial layer 3, inter-layer predicted 1.
        let byte = *rest.first()?;
        (header.layer, header.spatial, header.has_below) = (byte >> 5, byte >> 1 & 7, byte & 1 != 0);
        rest = rest.get(if first & FLEXIBLE == 0 { 2 } else { 1 }..)?;
    }
    if first & (PREDICTED | FLEXIBLE) == PREDICTED | FLEXIBLE {
        // Distances of seven bits, up to three, each with a flag that another one follows.
        let mut back = [0; 3];
        for slot in &mut back {
            let (&byte, after) = rest.split_first()?;
            (*slot, rest) = (byte >> 1, after);
            if byte & 1 == 0 {
                break;
            }
        }
        header.back = Some(back);
    }
    if first & START == 0 {
        return Some(None);
    }
    header.is_within_picture = first & PREDICTED == 0;
    header.is_entry = header.is_within_picture && header.spatial == 0;
    Some(Some(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_layers_and_references_are_told() {
        let entry = Header { is_entry: true, is_within_picture: true, picture: Some(5), ..Header::default() };
        assert_eq!(look(&[0x88, 0x05, 0]), Look::Frame(entry));
        let predicted = Header { picture: Some(0x106), ..Header::default() };
        assert_eq!(look(&[0xc8, 0x81, 0x06, 0]), Look::Frame(predicted));
        let layered = Header { picture: Some(6), layer: 2, ..Header::default() };
        assert_eq!(look(&[0xe8, 0x06, 0x50, 0x07, 0]), Look::Frame(layered));
        let flexible = Header { picture: Some(6), layer: 1, back: Some([1, 2, 0]), ..Header::default() };
        assert_eq!(look(&[0xf8, 0x06, 0x20, 0x03, 0x04, 0]), Look::Frame(flexible));
        let upper = Header { picture: Some(6), spatial: 1, has_below: true, ..Header::default() };
        assert_eq!(look(&[0xe8, 0x06, 0x03, 0x07, 0]), Look::Frame(upper));
        let in_key_picture = Header { is_within_picture: true, ..upper };
        assert_eq!(look(&[0xa8, 0x06, 0x03, 0x07, 0]), Look::Frame(in_key_picture));
        let layers = [&[0xe0, 0x86, 0x01, 0x44, 0x07][..], &[0x20, 0x42], &[0x88, 0x05], &[0xe0, 0x86], &[]];
        assert_eq!(layers.map(spatial_layer), [Some(2), Some(1), None, None, None]);
        assert_eq!(look(&[0xc0, 0x05, 0]), Look::More, "it goes on");
        assert_eq!(look(&[0xf8, 0x06]), Look::Unknown, "it breaks off");
    }
}
