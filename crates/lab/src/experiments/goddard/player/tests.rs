//! Tests of the player, event by event.

use timeous::core::AduSeq;
use timeous_host::Refused;
use timeous_ring::Producer;

use super::*;

/// Requests of the player.
#[derive(Default)]
struct Requests(Vec<Request>);

impl Outlet for Requests {
    fn next_seq(&self) -> AduSeq {
        AduSeq(self.0.len() as u64)
    }

    fn send(&mut self, _: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused> {
        self.0.extend(Request::read(bytes));
        Ok(self.next_seq())
    }

    fn ring(&mut self) -> Option<&mut Producer> {
        None
    }

    fn finish(&mut self) {}
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Player at 240 kbit/s that sent its request at 20 ms and has since received `frames` packets, one
/// every 33 ms.
struct TestPlayer {
    player: Player,
    said: Requests,
    now: Instant,
    number: u64,
    media: Duration,
}

impl TestPlayer {
    fn begun() -> Self {
        let probe = Probe::default();
        let mut player = Player::new(probe.clone(), PlayerRules::default());
        let mut said = Requests::default();
        player.run(at(0), &mut said);
        probe.found(Rate::from_kbps(300));
        player.run(at(20), &mut said);
        Self { player, said, now: at(20), number: 0, media: Duration::ZERO }
    }

    /// Delivers or loses a packet.
    fn packet(&mut self, lost: bool) {
        self.now += interval(2);
        let answers = self.player.request.number;
        let media = MediaHeader { number: self.number, made: self.now, at: self.media, level: 2, answers };
        (self.number, self.media) = (self.number + 1, self.media + interval(2));
        if !lost {
            let mut packet = Vec::new();
            media.write(&mut packet);
            self.player.on_received(self.now, &packet);
        }
        self.player.run(self.now, &mut self.said);
    }

    fn last(&self) -> Request {
        *self.said.0.last().unwrap()
    }
}

#[test]
fn the_rate_fits_the_link_and_the_buffer_fills_before_it_plays() {
    let mut played = TestPlayer::begun();
    assert_eq!(played.last(), Request { number: 1, play: true, fast: true, level: 2, up: false });
    // Thirty packets of 1/30 s play for a second less ten nanoseconds.
    (0..30).for_each(|_| played.packet(false));
    assert_eq!(played.player.pauses(), [Pause { from: at(20), to: None }]);
    played.packet(false);
    assert_eq!(played.player.pauses()[0].to, Some(played.now), "a second is there");
    assert_eq!(played.last(), Request { number: 2, play: true, fast: false, level: 2, up: false });
}

#[test]
fn an_empty_buffer_stops_the_stream_until_the_link_is_probed() {
    let mut played = TestPlayer::begun();
    (0..31).for_each(|_| played.packet(false));
    let (due, empty) = (played.player.poll_timeout().unwrap(), played.now + interval(2) * 31);
    played.player.run(empty, &mut played.said);
    assert_eq!(played.player.pauses()[1], Pause { from: empty, to: None });
    assert!(due <= empty && !played.last().play, "{due:?}");
    played.player.probe.found(Rate::from_kbps(100));
    played.player.run(empty + PLAYOUT, &mut played.said);
    assert_eq!((played.last().play, played.last().fast, played.last().level), (true, true, 0));
}

#[test]
fn what_was_not_answered_is_said_again() {
    let mut played = TestPlayer::begun();
    played.player.run(at(20) + TIMEOUT, &mut played.said);
    assert_eq!(played.said.0.len(), 2);
    assert_eq!(played.said.0[0], played.said.0[1]);
}

#[test]
fn losses_lower_the_rate_by_a_level_and_more_than_the_link_has_is_not_asked_for() {
    let mut played = TestPlayer::begun();
    (0..60).for_each(|_| played.packet(false));
    (0..60).for_each(|n| played.packet(n % 4 == 0));
    assert_eq!((played.last().level, played.last().up), (1, false));
    let before = played.said.0.len();
    // Thirty seconds without a loss; the streamer stays at 240 kbit/s.
    (0..2_000).for_each(|_| played.packet(false));
    let raised = played.said.0[before..].iter().find(|request| request.up);
    assert!(raised.is_none(), "240 is what it gets, 320 more than the link's 300: {raised:?}");
}
