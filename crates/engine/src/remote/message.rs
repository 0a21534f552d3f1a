//! Messages between both sides of a remote stream. They are parsed with care, since an untrusted process may have
//! written them.

use std::net::SocketAddr;

use timeous_core::{Advice, BufferState, Duration, Instant, PathState, Rate, Reason, SubStream, Thresholds};
use timeous_dccp::{CloseReason, ResetCode, ResetReason, Statistics};
use timeous_kernel_tcp::{Reach, TcpView};
use timeous_ring::ZoneKey;
use timeous_seal::{Intent, SealError};

use super::seal_error;
use crate::inbox::Received;
use crate::shared::{Snapshot, Status};

/// Requests of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteRequest {
    /// Read the ring: it was empty.
    Notify,
    /// Close the connection when everything has been sent.
    Finish,
    /// Send a snapshot.
    Tell,
    /// The application dropped the receiving half.
    Ignore,
    /// The source's rate has changed.
    Rate(Rate),
    /// Refuse the incoming stream as busy.
    Refuse,
    /// Attach a packet zone to the ring under this number.
    Zone(u8, ZoneKey),
}

impl RemoteRequest {
    /// Maximum message length, in bytes.
    pub(crate) const LONGEST: usize = 18;

    pub(crate) fn write(self) -> Vec<u8> {
        match self {
            Self::Notify => vec![1],
            Self::Finish => vec![2],
            Self::Tell => vec![3],
            Self::Ignore => vec![4],
            Self::Refuse => vec![6],
            Self::Zone(number, ZoneKey(key)) => [[7, number].as_slice(), &key.to_le_bytes()].concat(),
            Self::Rate(rate) => [[5].as_slice(), &rate.as_bps().to_le_bytes()].concat(),
        }
    }

    /// Parses a message; `None` if it is malformed.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        match message {
            [1] => Some(Self::Notify),
            [2] => Some(Self::Finish),
            [3] => Some(Self::Tell),
            [4] => Some(Self::Ignore),
            [6] => Some(Self::Refuse),
            [7, number, key @ ..] => Some(Self::Zone(*number, ZoneKey(u128::from_le_bytes(key.try_into().ok()?)))),
            [5, rate @ ..] => Some(Self::Rate(Rate::from_bps(u64::from_le_bytes(rate.try_into().ok()?)))),
            _ => None,
        }
    }
}

/// Notices of the engine.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// A datagram was received.
    Received(Received),
    /// The connection's status has changed.
    Status(Status),
    /// The ring has room again, or the fate of an ADU is known.
    Writable,
    /// Statistics of the stream.
    Snapshot(Box<Snapshot>),
    /// Advice of the late choice to the source.
    Advice(Advice),
    /// The peer's address.
    Peer(SocketAddr),
    /// Whether the requested packet zone is attached to the ring.
    Zone(bool),
    /// Stream that the caller has named.
    StreamId(String),
    /// Direction of the data for which the caller was admitted.
    Intent(Intent),
    /// Reason why the stream's packets cannot be encrypted.
    SealError(SealError),
}

const RECEIVED: u8 = 1;
const STATUS: u8 = 2;
const WRITABLE: u8 = 3;
const SNAPSHOT: u8 = 4;
const ADVICE: u8 = 5;
const PEER: u8 = 6;
const ZONE: u8 = 7;
const STREAM_ID: u8 = 8;
const SEAL_ERROR: u8 = 9;
const INTENT: u8 = 10;
/// Encoding of a missing duration or number.
const NONE: u64 = u64::MAX;
const STATISTICS: usize = 30;
const PATH: usize = 10;
const QUEUE: usize = 5;
const TCP: usize = 9;
const BUFFER: usize = 5;
const ADVISED: usize = 9;

impl News {
    /// Maximum message length, in bytes: a datagram with its head.
    pub(crate) const LONGEST: usize = 1 << 17;

    pub(crate) fn write(&self) -> Vec<u8> {
        match self {
            Self::Received(Received { bytes, at, substream: _ }) => {
                let mut message = Vec::with_capacity(9 + bytes.len());
                message.push(RECEIVED);
                message.extend(at.as_nanos().to_le_bytes());
                message.extend(bytes);
                message
            }
            Self::Status(status) => [[STATUS].as_slice(), &status_bytes(*status)].concat(),
            Self::Writable => vec![WRITABLE],
            Self::Zone(attached) => vec![ZONE, u8::from(*attached)],
            Self::Peer(peer) => [[PEER].as_slice(), peer.to_string().as_bytes()].concat(),
            Self::StreamId(stream_id) => [[STREAM_ID].as_slice(), stream_id.as_bytes()].concat(),
            Self::Intent(intent) => vec![INTENT, u8::from(*intent == Intent::Publish)],
            Self::SealError(error) => [[SEAL_ERROR].as_slice(), &seal_error::write(error)].concat(),
            Self::Snapshot(snapshot) => {
                let words = snapshot_words(snapshot);
                [SNAPSHOT].into_iter().chain(words.into_iter().flat_map(u64::to_le_bytes)).collect()
            }
            Self::Advice(advice) => {
                [ADVICE].into_iter().chain(advice_words(advice).into_iter().flat_map(u64::to_le_bytes)).collect()
            }
        }
    }

    /// Parses a message; `None` if it is malformed.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let (&kind, body) = message.split_first()?;
        Some(match kind {
            RECEIVED => {
                let (at, bytes) = body.split_first_chunk()?;
                let at = Instant::from_nanos(u64::from_le_bytes(*at));
                // Streams of other processes go over DCCP, which has no sub-streams.
                Self::Received(Received { bytes: bytes.to_vec(), at, substream: SubStream::default() })
            }
            STATUS => Self::Status(read_status(body.try_into().ok()?)?),
            WRITABLE if body.is_empty() => Self::Writable,
            ZONE if matches!(body, [0 | 1]) => Self::Zone(body == [1]),
            PEER => Self::Peer(std::str::from_utf8(body).ok()?.parse().ok()?),
            STREAM_ID => Self::StreamId(std::str::from_utf8(body).ok()?.to_owned()),
            INTENT if matches!(body, [0 | 1]) => Self::Intent(if body == [1] { Intent::Publish } else { Intent::Play }),
            SEAL_ERROR => Self::SealError(seal_error::read(body)?),
            SNAPSHOT => Self::Snapshot(Box::new(read_snapshot(body)?)),
            ADVICE => Self::Advice(read_advice(*<&[u64; ADVISED]>::try_from(words(body)?.as_slice()).ok()?)?),
            _ => return None,
        })
    }
}

fn status_bytes(status: Status) -> [u8; 5] {
    let reset = |kind, ResetReason { code, data: [a, b, c] }: ResetReason| [kind, code.number(), a, b, c];
    let plain = |kind| [kind, 0, 0, 0, 0];
    match status {
        Status::Connecting => plain(0),
        Status::Open => plain(1),
        Status::Closed(CloseReason::Local) => plain(2),
        Status::Closed(CloseReason::Peer) => plain(3),
        Status::Closed(CloseReason::Reset(reason)) => reset(4, reason),
        Status::Closed(CloseReason::Misbehaved(reason)) => reset(5, reason),
        Status::Closed(CloseReason::Timeout) => plain(6),
        Status::Closed(CloseReason::Unreachable) => plain(8),
        Status::Closed(CloseReason::Unsealed) => plain(9),
        // Abandoned, or a reason without a number of its own.
        Status::Closed(_) => plain(7),
    }
}

fn read_status([kind, code, a, b, c]: [u8; 5]) -> Option<Status> {
    let reset = ResetReason { code: ResetCode::from(code), data: [a, b, c] };
    Some(match kind {
        0 => Status::Connecting,
        1 => Status::Open,
        2 => Status::Closed(CloseReason::Local),
        3 => Status::Closed(CloseReason::Peer),
        4 => Status::Closed(CloseReason::Reset(reset)),
        5 => Status::Closed(CloseReason::Misbehaved(reset)),
        6 => Status::Closed(CloseReason::Timeout),
        7 => Status::Closed(CloseReason::Abandoned),
        8 => Status::Closed(CloseReason::Unreachable),
        9 => Status::Closed(CloseReason::Unsealed),
        _ => return None,
    })
}

fn snapshot_words(snapshot: &Snapshot) -> Vec<u64> {
    let Snapshot { transport, path, queued_packets, queued_bytes, buffer, repaired, repairs, unread, tcp } = *snapshot;
    let queue: [u64; QUEUE] = [queued_packets as u64, queued_bytes as u64, repaired, unread, repairs.into()];
    [statistics_words(transport).as_slice(), &path_words(path), &queue, &tcp_words(tcp), &buffer_words(buffer)].concat()
}

fn tcp_words(view: Option<TcpView>) -> [u64; TCP] {
    let TcpView { reach, replaced, padded, unchanged, stalled, tapped, early, longest } = view.unwrap_or_default();
    let reach = match reach {
        Reach::Sending => 0,
        Reach::Queue => 1,
        Reach::Retransmissions => 2,
    };
    [view.is_some().into(), reach, replaced, padded, stalled.into(), tapped.into(), early, unchanged, longest as u64]
}

fn read_tcp(words: [u64; TCP]) -> Option<Option<TcpView>> {
    let [is_tcp @ (0 | 1), reach, replaced, padded, stalled, tapped, early, unchanged, longest] = words else {
        return None;
    };
    let reach = match reach {
        0 => Reach::Sending,
        1 => Reach::Queue,
        2 => Reach::Retransmissions,
        _ => return None,
    };
    let (stalled, tapped) = (stalled != 0, tapped != 0);
    let longest = usize::try_from(longest).ok()?;
    let view = TcpView { reach, replaced, padded, unchanged, stalled, tapped, early, longest };
    Some((is_tcp == 1).then_some(view))
}

fn read_snapshot(body: &[u8]) -> Option<Snapshot> {
    let words = words(body)?;
    let (statistics, words) = words.split_first_chunk::<STATISTICS>()?;
    let (path, words) = words.split_first_chunk::<PATH>()?;
    let (&[packets, bytes, repaired, unread, repairs], words) = words.split_first_chunk::<QUEUE>()?;
    let (tcp, words) = words.split_first_chunk::<TCP>()?;
    let buffer = read_buffer(*<&[u64; BUFFER]>::try_from(words).ok()?);
    Some(Snapshot {
        transport: read_statistics(*statistics),
        path: read_path(*path),
        queued_packets: usize::try_from(packets).ok()?,
        queued_bytes: usize::try_from(bytes).ok()?,
        buffer,
        repaired,
        repairs: repairs != 0,
        unread,
        tcp: read_tcp(*tcp)?,
    })
}

/// Splits the body into 64-bit words; `None` if it is no whole number of them.
fn words(body: &[u8]) -> Option<Vec<u64>> {
    let (chunks, rest) = body.as_chunks::<8>();
    rest.is_empty().then(|| chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
}

fn rate_word(rate: Option<Rate>) -> u64 {
    rate.map_or(NONE, Rate::as_bps)
}

fn read_rate(word: u64) -> Option<Rate> {
    (word != NONE).then(|| Rate::from_bps(word))
}

/// Encodes the buffer state; a missing buffer has no average.
fn buffer_words(buffer: Option<BufferState>) -> [u64; BUFFER] {
    let Some(BufferState { average, thresholds, stream, advised }) = buffer else { return [NONE; BUFFER] };
    let [min, max] = thresholds.map_or([NONE; 2], |Thresholds { min, max }| [min, max]);
    [average, min, max, rate_word(stream), rate_word(advised)]
}

fn read_buffer([average, min, max, stream, advised]: [u64; BUFFER]) -> Option<BufferState> {
    let thresholds = (min != NONE).then_some(Thresholds { min, max });
    let state = BufferState { average, thresholds, stream: read_rate(stream), advised: read_rate(advised) };
    (average != NONE).then_some(state)
}

fn advice_words(advice: &Advice) -> [u64; ADVISED] {
    let Advice { at, reason, queued, average, thresholds, stream, rate, path, .. } = *advice;
    let Thresholds { min, max } = thresholds;
    [at.as_nanos(), reason as u64, queued, average, min, max, stream.as_bps(), rate.as_bps(), rate_word(path)]
}

fn read_advice([at, reason, queued, average, min, max, stream, rate, path]: [u64; ADVISED]) -> Option<Advice> {
    let mut advice = Advice::new(Instant::from_nanos(at), *Reason::ALL.get(usize::try_from(reason).ok()?)?);
    (advice.queued, advice.average, advice.thresholds) = (queued, average, Thresholds { min, max });
    (advice.stream, advice.rate, advice.path) = (Rate::from_bps(stream), Rate::from_bps(rate), read_rate(path));
    Some(advice)
}

fn path_words(path: PathState) -> [u64; PATH] {
    let PathState {
        rate,
        srtt,
        rttvar,
        min_rtt,
        latest_rtt,
        window,
        outstanding,
        loss_ppm,
        delivered,
        contended,
        arrivals: _,
    } = path;
    let maybe = |time: Option<Duration>| time.map_or(NONE, Duration::as_nanos);
    let [srtt, min_rtt, latest_rtt] = [srtt, min_rtt, latest_rtt].map(maybe);
    let delivered = delivered.map_or(NONE, Rate::as_bps);
    let [rttvar, loss, contended] = [rttvar.as_nanos(), loss_ppm.into(), contended.into()];
    [rate.as_bps(), srtt, rttvar, min_rtt, latest_rtt, window, outstanding, loss, delivered, contended]
}

fn read_path(words: [u64; PATH]) -> PathState {
    let [rate, srtt, rttvar, min_rtt, latest_rtt, window, outstanding, loss, delivered, contended] = words;
    let maybe = |nanos| (nanos != NONE).then(|| Duration::from_nanos(nanos));
    PathState {
        rate: Rate::from_bps(rate),
        srtt: maybe(srtt),
        rttvar: Duration::from_nanos(rttvar),
        min_rtt: maybe(min_rtt),
        latest_rtt: maybe(latest_rtt),
        window,
        outstanding,
        loss_ppm: u32::try_from(loss).unwrap_or(u32::MAX),
        delivered: (delivered != NONE).then(|| Rate::from_bps(delivered)),
        contended: contended != 0,
        arrivals: None,
    }
}

fn statistics_words(statistics: Statistics) -> [u64; STATISTICS] {
    let Statistics {
        packets_sent,
        data_sent,
        bytes_sent,
        packets_received,
        data_received,
        bytes_received,
        acked,
        lost,
        ce_received,
        ce_acked,
        timeouts,
        data_gaps,
        slow_receiver,
        implausible,
        rates_capped,
        data_refused,
        data_dropped,
        malformed,
        sequence_invalid,
        duplicates,
        unexpected,
        syncs_sent,
        syncs_received,
        repeats_sent,
        repeats_dropped,
        parity_sent,
        parity_received,
        rebuilt,
        packet_size,
        black_holes,
    } = statistics;
    let sent = [packets_sent, data_sent, bytes_sent, packets_received, data_received, bytes_received];
    let path = [acked, lost, ce_received, ce_acked, timeouts, data_gaps, slow_receiver];
    let feedback = [data_refused, data_dropped, implausible, rates_capped];
    let odd = [malformed, sequence_invalid, duplicates, unexpected, syncs_sent, syncs_received];
    let again = [repeats_sent, repeats_dropped, parity_sent, parity_received, rebuilt, packet_size, black_holes];
    let mut words = [0; STATISTICS];
    words
        .iter_mut()
        .zip(sent.into_iter().chain(path).chain(feedback).chain(odd).chain(again))
        .for_each(|(word, value)| *word = value);
    words
}

fn read_statistics(words: [u64; STATISTICS]) -> Statistics {
    let [packets_sent, data_sent, bytes_sent, packets_received, data_received, bytes_received, rest @ ..] = words;
    let [acked, lost, ce_received, ce_acked, timeouts, data_gaps, slow_receiver, rest @ ..] = rest;
    let [data_refused, data_dropped, implausible, rates_capped, odd @ ..] = rest;
    let [malformed, sequence_invalid, duplicates, unexpected, syncs_sent, syncs_received, again @ ..] = odd;
    let [repeats_sent, repeats_dropped, parity_sent, parity_received, rebuilt, packet_size, black_holes] = again;
    Statistics {
        packets_sent,
        data_sent,
        bytes_sent,
        packets_received,
        data_received,
        bytes_received,
        acked,
        lost,
        ce_received,
        ce_acked,
        timeouts,
        data_gaps,
        slow_receiver,
        implausible,
        rates_capped,
        data_refused,
        data_dropped,
        malformed,
        sequence_invalid,
        duplicates,
        unexpected,
        syncs_sent,
        syncs_received,
        repeats_sent,
        repeats_dropped,
        parity_sent,
        parity_received,
        rebuilt,
        packet_size,
        black_holes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(news: &News) -> News {
        News::read(&news.write()).unwrap()
    }

    #[test]
    fn news_are_read_as_they_were_written() {
        let received =
            Received { bytes: b"frame".to_vec(), at: Instant::from_nanos(7), substream: SubStream::default() };
        assert!(matches!(again(&News::Received(received.clone())), News::Received(same) if same == received));
        let reset = ResetReason { code: ResetCode::OptionError, data: [1, 2, 3] };
        let reasons = [
            CloseReason::Local,
            CloseReason::Peer,
            CloseReason::Reset(reset),
            CloseReason::Misbehaved(reset),
            CloseReason::Timeout,
            CloseReason::Abandoned,
            CloseReason::Unreachable,
            CloseReason::Unsealed,
        ];
        for status in [Status::Connecting, Status::Open].into_iter().chain(reasons.map(Status::Closed)) {
            assert!(matches!(again(&News::Status(status)), News::Status(same) if same == status), "{status:?}");
        }
        assert!(matches!(again(&News::Writable), News::Writable));
        for text in ["192.0.2.1:7000", "[2001:db8::1]:7000"] {
            let peer = text.parse().unwrap();
            assert!(matches!(again(&News::Peer(peer)), News::Peer(same) if same == peer));
        }
    }

    #[test]
    fn a_snapshot_keeps_each_of_its_numbers() {
        let words: [u64; STATISTICS] = std::array::from_fn(|n| n as u64 + 1);
        let path = PathState {
            srtt: Some(Duration::from_millis(3)),
            loss_ppm: 9,
            window: 77,
            latest_rtt: Some(Duration::from_millis(2)),
            contended: true,
            ..PathState::default()
        };
        let transport = read_statistics(words);
        let thresholds = Some(Thresholds { min: 10, max: 20 });
        let buffer = BufferState { average: 9, thresholds, stream: Some(Rate::from_kbps(7)), advised: None };
        let buffer = Some(buffer);
        let tcp = Some(TcpView {
            reach: Reach::Retransmissions,
            replaced: 9,
            padded: 10,
            unchanged: 12,
            stalled: true,
            tapped: true,
            early: 11,
            longest: 13,
        });
        let snapshot = Snapshot {
            transport,
            path,
            queued_packets: 4,
            queued_bytes: 5,
            buffer,
            repaired: 6,
            repairs: true,
            unread: 8,
            tcp,
        };
        let News::Snapshot(same) = again(&News::Snapshot(Box::new(snapshot))) else { panic!("another kind") };
        assert_eq!(same.transport, transport);
        assert_eq!(statistics_words(transport), words);
        assert_eq!(same.path, path);
        assert_eq!((same.queued_packets, same.queued_bytes, same.repaired, same.unread), (4, 5, 6, 8));
        assert_eq!(same.buffer, buffer);
        assert!(same.repairs);
        let News::Snapshot(none) = again(&News::Snapshot(Box::default())) else { panic!("another kind") };
        assert_eq!(none.buffer, None);
    }

    #[test]
    fn advice_keeps_each_of_its_numbers() {
        for reason in Reason::ALL {
            let mut advice = Advice::new(Instant::from_nanos(1), reason);
            (advice.queued, advice.average, advice.thresholds) = (2, 3, Thresholds { min: 4, max: 8 });
            (advice.stream, advice.rate) = (Rate::from_bps(5), Rate::from_bps(6));
            let News::Advice(same) = again(&News::Advice(advice)) else { panic!("another kind") };
            assert_eq!(same, advice);
        }
        let mut message = News::Advice(read_advice([0; ADVISED]).unwrap()).write();
        message[9] = 4;
        assert!(News::read(&message).is_none(), "there is no fifth reason");
    }

    #[test]
    fn what_nobody_writes_is_not_read() {
        for message in [
            &[][..],
            &[0],
            &[10],
            &[RECEIVED, 1],
            &[STATUS],
            &[STATUS, 10, 0, 0, 0, 0],
            &[WRITABLE, 0],
            &[PEER, 1],
            &[ZONE, 2],
            &[STREAM_ID, 0xff],
            &[SEAL_ERROR, 1],
            &[INTENT, 2],
            &[11],
        ] {
            assert!(News::read(message).is_none(), "{message:?}");
        }
        assert!(News::read(&[SNAPSHOT; 8 * (STATISTICS + PATH + QUEUE + TCP + BUFFER)]).is_none());
        assert!(RemoteRequest::read(&[]).is_none());
        assert!(RemoteRequest::read(&[1, 1]).is_none());
        assert!(RemoteRequest::read(&[5, 1, 2]).is_none());
        assert!(RemoteRequest::read(&[7, 1, 2]).is_none());
        assert!(RemoteRequest::read(&[7; 19]).is_none());
        for intent in [Intent::Publish, Intent::Play] {
            assert!(matches!(News::read(&News::Intent(intent).write()), Some(News::Intent(read)) if read == intent));
        }
        for attached in [true, false] {
            assert!(matches!(News::read(&News::Zone(attached).write()), Some(News::Zone(read)) if read == attached));
        }
        for wish in [
            RemoteRequest::Notify,
            RemoteRequest::Finish,
            RemoteRequest::Tell,
            RemoteRequest::Ignore,
            RemoteRequest::Refuse,
            RemoteRequest::Rate(Rate::from_kbps(900)),
            RemoteRequest::Zone(127, ZoneKey(u128::MAX - 1)),
        ] {
            assert_eq!(RemoteRequest::read(&wish.write()), Some(wish));
            assert!(wish.write().len() <= RemoteRequest::LONGEST);
        }
    }
}
