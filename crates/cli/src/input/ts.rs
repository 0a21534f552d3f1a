//! MPEG-TS from a file, a live pipe, or UDP with or without RTP (RFC 2250), and raw H.265, which is made one.

use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::container::H265Stream;
use timeous_media::ts::{Spread, TsDatagrams, TsReader, TsUnit};
use timeous_media::{Ending, MediaError};

use super::captured::{CapturedFrame, Frames, Timing};
use super::media::MediaPart;
use super::pipe::{is_ready, read};
use super::silence::Silence;
use crate::failure::Failure;
use crate::notice::{RateLimitedMessages, tell};

const CHUNK: usize = 64 * 1024;
/// Pause after which what has come is sent, though few packets wait. Chosen by us: writers write many packets at once; a higher value
/// delays them.
const QUIET: Duration = Duration::from_millis(2);

/// Reads all packets of a file, paced by its program clock.
pub(super) fn read_file(
    mut from: impl Read,
    first: &[u8],
    raw: Option<H265Stream>,
    frames: &Frames,
) -> Result<Ending, Failure> {
    let mut source = Source { raw, ..Source::new(frames, true) };
    let mut chunk = vec![0; CHUNK];
    source.push(first)?;
    loop {
        let count = read(&mut from, &mut chunk)?;
        if count == 0 {
            return source.finish();
        }
        source.push(&chunk[..count])?;
        if !source.give() {
            return source.finish();
        }
    }
}

/// Reads packets of a file that become known one after another, paced by their program clock.
pub(super) fn read_packets(
    frames: &Frames,
    mut next: impl FnMut() -> Result<Option<Vec<u8>>, Failure>,
) -> Result<Ending, Failure> {
    let mut source = Source::new(frames, true);
    while let Some(packets) = next()? {
        source.push(&packets)?;
        if !source.give() {
            break;
        }
    }
    source.finish()
}

/// Reads a live pipe: packets are captured when they arrive.
pub(super) fn read_live(
    mut from: impl Read + AsFd,
    first: &[u8],
    raw: Option<H265Stream>,
    frames: &Frames,
) -> Result<Ending, Failure> {
    let mut source = Source { raw, ..Source::new(frames, false) };
    let mut chunk = vec![0; CHUNK];
    source.push(first)?;
    loop {
        source.wait(|patience| is_ready(&from, patience))?;
        let count = read(&mut from, &mut chunk)?;
        if count == 0 {
            return source.finish();
        }
        source.push(&chunk[..count])?;
        if !source.give() {
            return source.finish();
        }
    }
}

/// Reads UDP, after a first datagram. UDP has no end of stream: a silent source may come back.
pub(super) fn read_udp(socket: &UdpSocket, first: &[u8], silence: Silence, frames: &Frames) -> Result<Ending, Failure> {
    let mut source = Source { silence, ..Source::new(frames, false) };
    let (mut datagrams, mut datagram) = (TsDatagrams::default(), vec![0; CHUNK]);
    let mut restarts = RateLimitedMessages::default();
    datagrams.push(clock::now(), first);
    tell("the source is MPEG-TS");
    loop {
        while let Some(packets) = datagrams.next(clock::now()) {
            source.push(&packets)?;
        }
        if !source.give() {
            return source.finish();
        }
        // Packets held back for missing datagrams are given in time.
        match datagrams.poll_timeout() {
            Some(due) => {
                if !source.wait_until(due, |patience| is_ready(socket, patience))? {
                    continue;
                }
            }
            None => source.wait(|patience| is_ready(socket, patience))?,
        }
        match socket.recv(&mut datagram) {
            // Others' datagrams do not matter.
            Ok(len) => {
                datagrams.push(clock::now(), &datagram[..len]);
                if datagrams.take_has_restarted() {
                    restarts.tell_as("anew", "the source begins anew");
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Failure::file("the source", &error)),
        }
    }
}

/// Reader of a source, with its queue.
struct Source<'a> {
    /// Reader of raw H.265, if that is what comes.
    raw: Option<H265Stream>,
    reader: TsReader,
    spread: Spread,
    frames: &'a Frames,
    is_paced: bool,
    given: u64,
    silence: Silence,
}

impl<'a> Source<'a> {
    fn new(frames: &'a Frames, is_paced: bool) -> Self {
        Self {
            raw: None,
            reader: TsReader::new(),
            spread: Spread::default(),
            frames,
            is_paced,
            given: 0,
            silence: Silence::of_pipe(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        match &mut self.raw {
            Some(raw) => self.reader.push(&raw.push(bytes)?),
            None => self.reader.push(bytes),
        }
    }

    /// Waits for bytes; after a short pause, what has come is sent.
    fn wait(&mut self, mut is_ready: impl FnMut(Duration) -> Result<bool, Failure>) -> Result<(), Failure> {
        if !is_ready(QUIET)? {
            self.reader.flush();
            self.give();
            while !is_ready(self.silence.after())? {
                self.silence.look();
            }
        }
        self.silence.end();
        Ok(())
    }

    /// Waits for bytes up to an instant; returns whether some are there.
    fn wait_until(
        &mut self,
        due: Instant,
        mut is_ready: impl FnMut(Duration) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let left = || due.saturating_since(clock::now());
        let mut is_there = is_ready(left().min(QUIET))?;
        if !is_there {
            self.reader.flush();
            self.give();
            is_there = is_ready(left())?;
        }
        if is_there {
            self.silence.end();
        }
        Ok(is_there)
    }

    fn next_unit(&mut self) -> Option<TsUnit> {
        if !self.is_paced {
            return self.reader.next_unit();
        }
        while let Some(unit) = self.reader.next_unit() {
            self.spread.push(unit);
        }
        self.spread.next_unit()
    }

    /// Passes units on; returns `false` if the receiving side is gone.
    fn give(&mut self) -> bool {
        while let Some(unit) = self.next_unit() {
            self.given += u64::from(unit.first == 0);
            let captured = clock::now();
            let timing = if self.is_paced { Timing::Paced } else { Timing::Live { captured, presented: None } };
            let part = MediaPart::Ts(unit);
            if !self.frames.give(CapturedFrame { part, timing, encoding: self.frames.encoding }) {
                return false;
            }
        }
        true
    }

    fn finish(mut self) -> Result<Ending, Failure> {
        if let Some(raw) = &mut self.raw {
            let last = raw.finish()?;
            self.reader.push(&last)?;
        }
        self.reader.finish();
        self.give();
        self.spread.finish();
        self.give();
        let counts = self.reader.counts();
        if self.given == 0 && counts.packets == 0 {
            return Err(Failure::Input("the source ends before its first frame".to_owned()));
        }
        if self.given == 0 {
            return Err(Failure::Input(format!(
                "the source is MPEG-TS without a PES packet or table that is whole ({} packets)",
                counts.packets
            )));
        }
        if self.is_paced && self.reader.time().is_none() {
            tell("the file has no program clock (PCR) to be paced by, and was sent as fast as it could");
        }
        if counts.garbage > 0 {
            tell(format_args!(
                "{} bytes of the source were between packets of MPEG-TS, and were left out",
                counts.garbage
            ));
        }
        Ok(Ending { frames: self.given, ..Ending::default() })
    }
}
