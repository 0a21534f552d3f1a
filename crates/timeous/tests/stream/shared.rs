//! Tests of buffers that several streams send.

use timeous::core::Fate;
use timeous::{CloseReason, Culprit, Error, FrozenBuffer, Hints, Options, SendError, Uri, Zone, clock};

use crate::support::{PATIENCE, collect, fates, pause, stream};

fn buffer(zone: &Zone, bytes: &[u8]) -> FrozenBuffer {
    let mut buffer = zone.buffer().unwrap();
    buffer.truncate(bytes.len());
    buffer.bytes_mut().copy_from_slice(bytes);
    buffer.freeze()
}

#[test]
fn one_buffer_is_sent_by_several_streams_and_free_afterwards() {
    for transport in ["dccp", "tcp"] {
        let zone = Zone::new(4096, 1).unwrap();
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..4).map(|_| stream(&format!("latency=9s&transport={transport}"))).unzip();
        let receivers: Vec<_> = receivers.into_iter().map(collect).collect();
        let whole = buffer(&zone, b"hello, world");
        for sender in &mut senders {
            sender.send_shared(&whole, Hints::default()).unwrap();
            sender.send_shared(&whole.part(7..12).unwrap(), Hints::default()).unwrap();
        }
        drop(whole);
        for sender in &mut senders {
            assert!(fates(sender).into_values().eq([Fate::Acked, Fate::Acked]), "{transport}");
            assert_eq!(sender.ring().copied_bytes(), 0, "{transport}");
        }
        let end = clock::now() + PATIENCE;
        while zone.in_use() > 0 {
            assert!(clock::now() < end, "{transport}: the buffer is still in use");
            pause(timeous::core::Duration::from_millis(1));
            senders.iter_mut().for_each(|sender| assert_eq!(sender.poll_delivery(), None));
        }
        for sender in senders {
            sender.finish().unwrap();
        }
        for receiver in receivers {
            assert_eq!(receiver.join().unwrap(), [&b"hello, world"[..], b"world"], "{transport}");
        }
    }
}

#[test]
fn a_shared_buffer_is_refused_as_other_data_are() {
    let zone = Zone::new(1 << 16, 1).unwrap();
    let (mut sender, receiver) = stream("latency=9s");
    let max = Options::MAX_ADU;
    let whole = zone.buffer().unwrap().freeze();
    let refused = sender.send_shared(&whole, Hints::default());
    assert_eq!(refused, Err(SendError::TooLarge { len: 1 << 16, max }));
    sender.begin_finish();
    let end = clock::now() + PATIENCE;
    let part = whole.part(0..1).unwrap();
    while sender.send_shared(&part, Hints::default()) != Err(SendError::Closed(CloseReason::Local)) {
        assert!(clock::now() < end, "it goes on");
        sender.wait(Some(clock::now() + timeous::core::Duration::from_millis(5)));
    }
    drop(receiver);
}

#[test]
fn a_uri_without_a_daemon_makes_zones_of_this_process() {
    let (mut sender, receiver) = stream("latency=9s");
    let receiver = collect(receiver);
    let uri = |daemon: &str| format!("timeous://192.0.2.1?encryption=off&daemon={daemon}").parse::<Uri>().unwrap();
    let zone = uri("off").zone(4096, 1).unwrap();
    sender.send_shared(&buffer(&zone, b"hello"), Hints::default()).unwrap();
    sender.finish().unwrap();
    assert_eq!(receiver.join().unwrap(), [b"hello"]);

    let error = uri("off").zone(100, 1).unwrap_err();
    assert!(matches!(error, Error::Zone(_)) && error.culprit() == Culprit::Caller, "{error}");
    let error = uri("/nowhere/daemon.sock").zone(4096, 1).unwrap_err();
    assert!(matches!(error, Error::NoDaemon(_)), "{error}");
}
