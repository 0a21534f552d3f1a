//! Property tests of text parsers for quantities and traces: any text is parsed or refused, without a panic.

use proptest::prelude::*;
use timeous_core::{Duration, Instant, Rng, units};
use timeous_net::link::{Capacity, DropTail, Jitter, Limit, Loss, QueueKind, RateTrace, Reorder};
use timeous_net::{Link, LinkConfig};

proptest! {
    #[test]
    fn quantities_of_any_text(text in "[-+0-9.,%eEkKMGinfpsumhb µ/]{0,24}|.{0,24}") {
        let _ = (units::parse_rate(&text), units::parse_duration(&text), units::parse_bytes(&text));
        let _ = (text.parse::<Limit>(), text.parse::<Loss>(), text.parse::<Jitter>(), text.parse::<Reorder>());
        let _ = [text.clone(), format!("red,{text}"), format!("codel,{text}")].map(|text| text.parse::<QueueKind>());
        if let Ok(share) = units::parse_share(&text) {
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }

    #[test]
    fn what_is_written_in_nanoseconds_or_bytes_is_read_back(number: u64) {
        prop_assert_eq!(units::parse_duration(&format!("{number}ns")), Ok(Duration::from_nanos(number)));
        prop_assert_eq!(units::parse_bytes(&number.to_string()), Ok(number));
        prop_assert_eq!(units::parse_rate(&number.to_string()).map(|rate| rate.as_bps()), Ok(number));
    }

    #[test]
    fn a_trace_that_is_read_can_be_sent_over(
        text in "([0-9]{1,20}\n){0,12}|([0-9]{1,22}[ ,][0-9]{1,22}\n){0,6}|(0 [0-9]{1,9}\n)([0-9]{1,3}e[0-9]{1,3} [0-9]{1,9}\n){0,6}",
    ) {
        let Ok(trace) = text.parse::<RateTrace>() else { return Ok(()) };
        let _ = trace.mean_rate();
        let queue = Limit::Time(Duration::from_millis(100));
        let waiting = Box::new(DropTail::new(queue, Some(trace.mean_rate())));
        let config = LinkConfig { capacity: Capacity::Trace(trace), ..LinkConfig::default() };
        let mut link = Link::with_discipline(config, waiting, Rng::from_seed(0));
        for packet in 0..20 {
            link.handle_packet(Instant::ZERO, 1_500, packet);
        }
        let mut last = Instant::ZERO;
        while let Some(due) = link.poll_timeout() {
            prop_assert!(due >= last);
            last = due;
            prop_assert!(link.poll_deliver(due).is_some());
        }
    }
}
