//! Whole connections checked by tshark, captured where nothing is lost yet.

use timeous_tcp::Config;

use crate::capture::{skip, tshark, wrapped, write};
use crate::duel::{Duel, MS, SEC, addresses, good};

/// Returns the frames that `filter` selects in tshark; `None` without tshark.
fn frames(duel: &Duel, filter: &str) -> Option<Vec<Vec<String>>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let packets = duel
        .sent
        .iter()
        .map(|sent| ((sent.at - timeous_core::Instant::ZERO).into(), wrapped(&sent.bytes, addresses(sent.from))));
    write(packets, file.path());
    tshark(file.path(), true, filter, &["frame.number", "_ws.col.Info", "_ws.expert.message"])
}

const RETRANSMISSIONS: &str = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission \
    || tcp.analysis.spurious_retransmission || tcp.analysis.out_of_order";

#[test]
fn tshark_finds_nothing_odd_in_a_good_connection() {
    let mut duel = Duel::connected(&Config::default());
    for end in &mut duel.ends {
        end.send(200_000, true);
    }
    duel.finish(SEC * 10);
    let odd =
        "tcp.analysis.flags || _ws.malformed || tcp.checksum.status != \"Good\" || _ws.expert.severity >= \"Warning\"";
    let Some(odd) = frames(&duel, odd) else { return skip("tshark_finds_nothing_odd_in_a_good_connection") };
    // A window update is flagged, too.
    let odd: Vec<_> = odd.into_iter().filter(|frame| !frame[1].contains("[TCP Window Update]")).collect();
    assert!(odd.is_empty(), "{odd:?}");
    // SYN, SYN with ACK, ACK, data and FIN, and no reset.
    let complete = frames(&duel, "tcp.completeness == 31").unwrap();
    assert_eq!(complete.last().unwrap()[0], duel.sent.len().to_string());
}

#[test]
fn tshark_counts_the_repetitions_that_we_count() {
    let mut duel = Duel::connected(&Config::default());
    let mut count = 0;
    duel.rule = Box::new(move |now, from, bytes, ecn| {
        count += 1;
        // Every twentieth segment of the client is lost.
        if from == 0 && count % 20 == 0 { vec![] } else { good(MS * 10)(now, from, bytes, ecn) }
    });
    duel.ends[0].send(300_000, true);
    duel.ends[1].send(0, true);
    duel.finish(SEC * 100);
    let Some(repeated) = frames(&duel, RETRANSMISSIONS) else {
        return skip("tshark_counts_the_repetitions_that_we_count");
    };
    let ours = duel.ends.iter().map(|end| end.connection.statistics().retransmissions).sum::<u64>();
    assert!(ours > 5);
    assert_eq!(repeated.len() as u64, ours, "{repeated:?}");
    let wrong = frames(&duel, "_ws.malformed || tcp.checksum.status != \"Good\"").unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn tshark_sees_a_closed_window_and_its_probes() {
    let config = Config { receive_buffer: 14_600, timestamps: false, ..Config::default() };
    let mut duel = Duel::connected(&config);
    duel.ends[1].reads = (0, SEC);
    duel.ends[0].send(100_000, false);
    duel.run_for(SEC * 20);
    let Some(closed) = frames(&duel, "tcp.analysis.zero_window") else {
        return skip("tshark_sees_a_closed_window_and_its_probes");
    };
    assert!(!closed.is_empty());
    let full = frames(&duel, "tcp.analysis.window_full").unwrap();
    assert_eq!(full.len(), 1, "{full:?}");
    // tshark recognises the window probes, which carry no data.
    let probes = frames(&duel, "tcp.analysis.keep_alive || tcp.analysis.zero_window_probe").unwrap();
    assert_eq!(probes.len() as u64, duel.ends[0].connection.statistics().window_probes, "{probes:?}");
}
