//! Lip sync: an hour of sound and pictures whose clocks drift, as a player sees it by the reports of the sink.

use timeous_core::{Duration, Instant, Rng};

use super::*;
use crate::playout::Release;
use crate::rtp::control::Control;
use crate::rtp::session::MediaDescription;

/// Stream of a source whose RTP clock is off.
struct Source {
    rate: u32,
    ticks: u64,
    ppm: i64,
    sent: u64,
}

impl Source {
    /// Instant of a tick by an exact clock.
    fn instant(&self, ticks: u64) -> Instant {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.rate);
        Instant::from_nanos((nanos as i128 * 1_000_000 / i128::from(1_000_000 + self.ppm)) as u64)
    }

    /// Tick of an instant.
    fn tick(&self, at: Instant) -> u32 {
        let ticks = i128::from(at.as_nanos()) * i128::from(self.rate) * i128::from(1_000_000 + self.ppm);
        (ticks / 1_000_000 / 1_000_000_000) as u32
    }
}

/// Wall clock of the source, a hundred parts per million fast, as NTP.
fn wall(at: Instant) -> u64 {
    let nanos = i128::from(at.as_nanos()) * 1_000_100 / 1_000_000;
    (3_900_000_000 << 32) + ((nanos << 32) / 1_000_000_000) as u64
}

/// Largest error between sound and picture of an hour, after the first half minute, in milliseconds.
fn largest_error(has_reports: bool) -> u64 {
    let mut sources = [
        Source { rate: 90_000, ticks: 3_600, ppm: -80, sent: 0 },
        Source { rate: 48_000, ticks: 960, ppm: 150, sent: 0 },
    ];
    let streams =
        ["m=video 5004 RTP/AVP 96\na=rtpmap:96 VP8/90000", "m=audio 5006 RTP/AVP 97\na=rtpmap:97 opus/48000/2"];
    let mut reader = PassthroughReader::new(streams.map(|lines| MediaDescription::parse(lines).unwrap()));
    let mut packetizer = PassthroughPacketizer::new(1_200, 1, 0, 0).unwrap();
    let mut playout = PassthroughPlayout::new(Duration::from_millis(200), Release::Constant);
    let mut reports = [StreamReports::new(90_000), StreamReports::new(48_000)];
    let mut told: [Option<StreamClock>; 2] = [None; 2];
    let (mut next_report, mut next_clocks, mut worst) = ([Instant::ZERO; 2], Instant::ZERO, 0);
    let mut checked = 0;
    let mut rng = Rng::from_seed(3);
    let end = Instant::ZERO + Duration::from_secs(3_600);
    loop {
        let number = usize::from(
            sources[1].instant(sources[1].sent * sources[1].ticks)
                < sources[0].instant(sources[0].sent * sources[0].ticks),
        );
        let source = &mut sources[number];
        let (captured, timestamp) = (source.instant(source.sent * source.ticks), (source.sent * source.ticks) as u32);
        let now = captured + Duration::from_millis(5) + Duration::from_micros(rng.below(9_000));
        if captured > end {
            assert!(checked > 200_000, "{checked} instants were checked");
            return worst;
        }
        let mut packet = vec![0x80, 0x80 | (96 + number as u8)];
        packet.extend((source.sent as u16).to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend([0, 0, 0, number as u8, 0x10, u8::from(!source.sent.is_multiple_of(25)), 0]);
        source.sent += 1;
        reader.push(now, number, &packet).unwrap();
        if has_reports && captured >= next_report[number] {
            next_report[number] = captured + Duration::from_secs(5);
            let clock =
                Control::SenderClock { ssrc: number as u32, ntp: wall(captured), timestamp: source.tick(captured) };
            reader.push_control(number, &clock.write());
        }
        if now >= next_clocks {
            next_clocks = now + Duration::from_secs(1);
            for (reports, clock) in reports.iter_mut().zip(reader.clocks(Duration::from_secs(1_700_000_000))) {
                clock.into_iter().for_each(|clock| reports.set_clock(clock));
            }
        }
        while let Some(unit) = reader.next_unit() {
            for (_, packet) in packetizer.packetize(&unit, unit.captured.as_nanos() * 9 / 100_000, false) {
                playout.handle_packet(now, &packet).unwrap();
            }
        }
        while let Some(release) = playout.poll_release() {
            let number = usize::from(release.stream);
            let report = reports[number].sent(now, 7, release.timestamp, 100, "player");
            for message in report.iter().flat_map(|report| Control::read(report)) {
                if let Control::SenderClock { ntp, timestamp, .. } = message {
                    told[number] = Some(StreamClock { ntp, timestamp });
                }
            }
        }
        if let [Some(video), Some(audio)] = told
            && captured > Instant::ZERO + Duration::from_secs(30)
        {
            let [video, audio] = [(video, &sources[0]), (audio, &sources[1])]
                .map(|(clock, source)| clock.at(source.tick(captured), source.rate).ntp);
            checked += 1;
            worst = worst.max((video.abs_diff(audio) * 1_000) >> 32);
        }
    }
}

#[test]
fn sound_and_picture_stay_together_for_an_hour_by_reports_of_the_source() {
    let error = largest_error(true);
    assert!(error < 20, "{error} ms");
}

#[test]
fn sound_and_picture_stay_together_for_an_hour_by_their_arrivals() {
    let error = largest_error(false);
    assert!(error < 20, "{error} ms");
}
