//! Tests of applications that read too slowly or not at all: their peers are informed, over real sockets.

use timeous_core::{AduMeta, DropReason, Duration, Fate};
use timeous_engine::{Carrier, DccpConfig, Engine, EnqueueError, Status, Stream, StreamConfig, clock};

const PATIENCE: Duration = Duration::from_secs(60);

/// Limit of datagrams in flight. Both ends remember at least a thousand: older ones would count as lost at one end, and as delivered at the
/// other.
const MOST_OPEN: u64 = 500;

fn config() -> StreamConfig {
    StreamConfig {
        dccp: DccpConfig { server_holds_timewait: true, ..DccpConfig::default() },
        ..StreamConfig::new(Carrier::Udp)
    }
}

/// Opens a stream between two engines; returns the caller's and the listener's end.
fn streams(engines: &[Engine; 2]) -> [Stream; 2] {
    let mut listener = engines[1].listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    let caller = engines[0].connect(listener.local_addr(), config()).unwrap();
    let called = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
    [caller, called]
}

#[test]
fn a_sender_hears_of_a_full_inbox_and_counts_as_acked_only_what_was_delivered() {
    let engines = [(), ()].map(|()| Engine::start().unwrap());
    let [mut sender, mut receiver] = streams(&engines);
    let (mut acked, mut lost, mut got, mut enqueued) = (0_u64, 0_u64, 0_u64, 0_u64);
    let payload = vec![7; 1_000];
    let end = clock::now() + PATIENCE;
    // The receive buffer holds eight megabytes, and the application does not read.
    while sender.sending().snapshot().transport.data_dropped < 10 {
        assert!(clock::now() < end, "{:?}", sender.sending().snapshot().transport);
        if enqueued < acked + lost + MOST_OPEN && sender.sending().enqueue(&AduMeta::default(), &payload).is_ok() {
            enqueued += 1;
        } else {
            sender.sending().wait(Some(clock::now() + Duration::from_millis(10)));
        }
        while let Some(completion) = sender.sending().poll_completion() {
            match completion.fate {
                Fate::Acked => acked += 1,
                Fate::Lost => lost += 1,
                fate => panic!("{fate:?}"),
            }
        }
    }
    let transport = sender.sending().snapshot().transport;
    assert!(transport.slow_receiver > 0, "it was asked to go no faster before: {transport:?}");
    sender.sending().finish();
    loop {
        match sender.sending().poll_completion() {
            Some(completion) if completion.fate == Fate::Acked => acked += 1,
            Some(_) => lost += 1,
            None if matches!(sender.status(), Status::Closed(_)) => break,
            None => assert!(sender.sending().wait(Some(end)), "{acked} acked, {lost} lost"),
        }
        while receiver.receiving().poll_received().is_some() {
            got += 1;
        }
    }
    while !matches!(receiver.status(), Status::Closed(_)) {
        receiver.receiving().wait(Some(end));
    }
    while receiver.receiving().poll_received().is_some() {
        got += 1;
    }
    let unread = receiver.receiving().snapshot().unread;
    let transport = sender.sending().snapshot().transport;
    // What a timeout gave up may have arrived all the same. Exactly, in virtual time:
    // `an_overrun_receiver_slows_its_sender_down_and_nothing_counts_as_arrived_that_was_dropped` of the DCCP tests.
    let delivered = acked..=acked + transport.lost;
    assert!(delivered.contains(&(got + unread)), "{got} + {unread}, {lost} were lost: {transport:?}");
    assert!(lost >= 10);
}

#[test]
fn who_stops_reading_goes_on_sending_and_its_peer_is_told() {
    let engines = [(), ()].map(|()| Engine::start().unwrap());
    let [caller, mut called] = streams(&engines);
    let (mut sending, receiving) = caller.split();
    drop(receiving);
    let end = clock::now() + PATIENCE;
    let mut fates = Vec::new();
    // The first packets arrive and are discarded; queued ones are dropped then.
    let refused = loop {
        assert!(clock::now() < end, "{fates:?}");
        match called.sending().enqueue(&AduMeta::default(), b"does anybody listen?") {
            Err(EnqueueError::Closed) => break called.sending().snapshot().transport,
            _ => called.sending().wait(Some(clock::now() + Duration::from_millis(5))),
        };
        while let Some(completion) = called.sending().poll_completion() {
            fates.push(completion.fate);
        }
    };
    while let Some(completion) = called.sending().poll_completion() {
        fates.push(completion.fate);
    }
    let told = |fate: &Fate| matches!(fate, Fate::Lost | Fate::Dropped(DropReason::Closed) | Fate::Acked);
    assert!(fates.contains(&Fate::Lost) && fates.iter().all(told), "{fates:?}, {refused:?}");
    // The other direction still works.
    sending.enqueue(&AduMeta::default(), b"I do").unwrap();
    loop {
        if let Some(received) = called.receiving().poll_received() {
            assert_eq!(received.bytes, b"I do");
            break;
        }
        assert!(called.receiving().wait(Some(end)), "{:?}", called.status());
    }
}
