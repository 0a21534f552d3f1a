//! DCCP options from arbitrary bytes: parsing ends, and parsed options can be written, in no more bytes, and parsed
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_dccp::ack_vector::{Reports, vectors_of};
use timeous_dccp::options::{DropCode, drop_blocks, encode_drops};
use timeous_dccp::{Opt, OptionList, Options, PacketType, ResetCode, Seq};

fuzz_target!(|data: &[u8]| {
    let Some((&number, bytes)) = data.split_first() else { return };
    let bytes = &bytes[..bytes.len().min(OptionList::MAX_BYTES)];
    let packet = PacketType::ALL[usize::from(number) % PacketType::ALL.len()];
    let mut list = OptionList::new();
    let mut read = Vec::new();
    let mut options = Options::new(bytes, packet);
    while let Some(item) = options.next() {
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                assert!(matches!(error.reset().code, ResetCode::OptionError | ResetCode::MandatoryError));
                assert_ne!(packet, PacketType::Data, "no option on Data may reset (RFC 4340 §7.5.5)");
                assert!(options.next().is_none());
                break;
            }
        };
        assert!(item.opt.is_permitted_on(packet));
        assert_eq!(item.refusal().data[0], item.opt.kind());
        if item.mandatory {
            list.push(&Opt::Mandatory).unwrap();
        }
        list.push(&item.opt).unwrap();
        read.push((item.opt, item.mandatory));
    }
    assert!(list.as_bytes().len() <= bytes.len());
    let again: Vec<_> = list.iter(packet).map(|item| item.map(|item| (item.opt, item.mandatory)).unwrap()).collect();
    assert_eq!(again, read);

    // The bytes as Data Dropped blocks: decoding and encoding again must preserve the meaning.
    let ack = Seq::new(1 << 20);
    let dropped = drops(ack, bytes);
    let blocks = encode_drops(ack, dropped.iter().copied(), bytes.len());
    assert_eq!(drops(ack, &blocks), dropped);

    if let Ok(reports) = Reports::new(ack, ack - 5_000, vectors_of(list.iter(packet))) {
        let mut next = ack;
        for report in reports {
            assert_eq!(report.newest, next, "reports leave no gap");
            next = report.oldest.prev();
        }
        assert!(ack.distance_from(next) <= 5_001);
    }
});

fn drops(ack: Seq, bytes: &[u8]) -> Vec<(Seq, DropCode)> {
    let dropped = drop_blocks(ack, [bytes]).filter_map(|block| block.code.map(|code| (block, code)));
    dropped
        .flat_map(|(block, code)| {
            (0..=block.newest.distance_from(block.oldest)).map(move |back| (block.newest - back, code))
        })
        .collect()
}
