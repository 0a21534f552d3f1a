//! Congestion window validation for application-limited flows (RFC 7661).
//!
//! A live stream pauses between frames: when a loss is detected, only a packet or two may be in flight of a window that
//! just held a keyframe. RFC 5681 §3.1 halves the bytes in flight, although the path is known to carry more.

use timeous_core::Instant;

use crate::carried::Carried;

use super::Macroflow;

impl Macroflow {
    /// Whether the window is validated: "pipeACK >= (1/2)*cwnd" (RFC 7661 §4.3). It then grows like a full one.
    pub(super) fn is_validated(&self, now: Instant) -> bool {
        self.carried_of_late(now).is_some_and(|carried| self.validates(carried))
    }

    /// The amount that a congestion response reduces. Window-limited: the bytes in flight (RFC 5681 §3.1).
    /// Application-limited: a validated window itself, as in other TCPs (RFC 9002 §7.3.2, RFC 9438 §4.6), otherwise the
    /// used part (RFC 7661 §4.4.1). Resets `pipeACK`.
    pub(super) fn at_stake(&mut self, now: Instant, under_way: u64, lost: u64) -> u64 {
        let carried = self.carried_of_late(now).filter(|&carried| !self.validates(carried));
        self.carried = Carried::default();
        if !self.controller.goes_by_use() || self.was_limited_at(now) {
            return under_way;
        }
        carried.map_or(self.controller.window(), |carried| under_way.max(carried.saturating_sub(lost)))
    }

    fn carried_of_late(&self, now: Instant) -> Option<u64> {
        let srtt = self.rtt.smoothed().filter(|_| self.controller.goes_by_use())?;
        self.carried.of_late(now, srtt)
    }

    fn validates(&self, carried: u64) -> bool {
        carried.saturating_mul(2) >= self.controller.window()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use timeous_core::{Duration, Instant};

    use crate::controller::Controller;
    use crate::{Aimd, Cubic, FlowId, Loss, Manager, NewReno, Update};

    const MTU: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    struct Stream {
        cm: Manager,
        flow: FlowId,
        now: Instant,
    }

    impl Stream {
        fn new(make: fn(u64) -> Box<dyn Controller>) -> Self {
            let mut cm = Manager::new(make);
            let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), MTU);
            Self { cm, flow, now: Instant::ZERO }
        }

        /// Sends a frame, and acknowledges it a round trip later.
        fn frame(&mut self, packets: u64) {
            for _ in 0..packets {
                self.cm.notify_unasked(self.now, self.flow, MTU).unwrap();
            }
            self.now += RTT;
            for _ in 0..packets {
                let update = Update { acked: MTU, rtt: Some(RTT), ..Update::default() };
                self.cm.update(self.now, self.flow, update).unwrap();
            }
        }

        /// Loses one of two packets.
        fn loss(&mut self) {
            let sent_at = self.now;
            for _ in 0..2 {
                self.cm.notify_unasked(self.now, self.flow, MTU).unwrap();
            }
            self.now += RTT;
            let loss = Some((Loss::Transient, sent_at));
            let update = Update { acked: MTU, lost: MTU, loss, recovering: true, ..Update::default() };
            self.cm.update(self.now, self.flow, update).unwrap();
        }

        fn window(&self) -> u64 {
            self.cm.query(self.flow).unwrap().window
        }
    }

    fn reno(mtu: u64) -> Box<dyn Controller> {
        Box::new(NewReno::new(mtu).for_streams_that_pause())
    }

    fn cubic(mtu: u64) -> Box<dyn Controller> {
        Box::new(Cubic::new(mtu).for_streams_that_pause())
    }

    /// Found by `timeous-lab tcp-expired`: each loss among small frames left two packets for the next keyframe.
    #[test]
    fn a_loss_in_a_small_frame_does_not_take_the_window_that_a_large_one_has_used() {
        for (make, left) in [(reno as fn(u64) -> _, 5), (cubic, 7)] {
            let mut stream = Stream::new(make);
            stream.frame(8);
            let window = stream.window();
            stream.frame(2);
            stream.frame(2);
            stream.loss();
            assert!(stream.window() >= window * left / 10, "{} of {window}", stream.window());
        }
    }

    #[test]
    fn what_was_not_used_of_late_is_given_up() {
        for (make, left) in [(reno as fn(u64) -> _, 2 * MTU), (cubic, 2 * MTU + MTU / 10)] {
            let mut stream = Stream::new(make);
            stream.frame(10);
            // More than a second of low use.
            for _ in 0..12 {
                stream.frame(4);
            }
            stream.loss();
            let window = stream.window();
            assert!(window.abs_diff(left) <= 1, "{window}: of four packets a round trip, one of which is lost");
        }
    }

    /// Found by `timeous-lab tcp-expired`: a stream that sent nothing, as all queued packets were useless, met the next
    /// keyframe with the window that losses had left.
    #[test]
    fn a_window_smaller_than_one_to_begin_with_is_said_to_grow_by_use_alone() {
        for make in [reno as fn(u64) -> _, cubic] {
            let mut stream = Stream::new(make);
            let contended = |stream: &Stream| stream.cm.query(stream.flow).unwrap().contended;
            stream.frame(2);
            assert!(!contended(&stream), "nothing was lost");
            stream.loss();
            assert!(stream.window() < 10 * MTU && contended(&stream));
            while stream.window() < 10 * MTU {
                stream.frame(8);
            }
            assert!(!contended(&stream));
        }
        let mut stream = Stream::new(|mtu| Box::new(NewReno::new(mtu)));
        stream.loss();
        assert!(!stream.cm.query(stream.flow).unwrap().contended, "it is not told that the stream pauses");
    }

    #[test]
    fn a_window_of_which_half_is_used_grows_and_one_of_which_less_is_does_not() {
        let mut stream = Stream::new(reno);
        let mut most = 0;
        for _ in 0..40 {
            stream.frame(8);
            most = stream.window();
        }
        assert!((15 * MTU..=17 * MTU).contains(&most), "{most}: up to twice of what is used");
    }

    #[test]
    fn by_the_standard_what_is_under_way_counts() {
        let standard: [fn(u64) -> Box<dyn Controller>; 2] =
            [|mtu| Box::new(NewReno::new(mtu)), |mtu| Box::new(Aimd::new(mtu))];
        for make in standard {
            let mut stream = Stream::new(make);
            stream.frame(4);
            stream.loss();
            assert_eq!(stream.window(), 2 * MTU);
        }
    }
}
