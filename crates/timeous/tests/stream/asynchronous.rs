//! Tests of streams with tokio.

use timeous::core::{DropReason, Fate, Rate, Reason};
use timeous::{
    AsyncListener, AsyncReceiver, AsyncSender, CloseReason, Error, Hints, Options, SendError, SenderEvent,
    asynchronous, clock,
};

use crate::support::{OddOnly, free_port, uri};

async fn pair(query: &str) -> (AsyncSender, AsyncReceiver) {
    let port = free_port();
    let listener = AsyncReceiver::open(uri(&format!("timeous://127.0.0.1:{port}?mode=listener&{query}")));
    let caller = async {
        loop {
            match AsyncSender::open(uri(&format!("timeous://127.0.0.1:{port}?{query}"))).await {
                // It does not listen yet.
                Err(Error::NobodyListens { .. }) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
                opened => return opened,
            }
        }
    };
    let (receiver, sender) = tokio::join!(listener, caller);
    (sender.unwrap(), receiver.unwrap())
}

async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(60), what).await.expect("it takes far less")
}

#[tokio::test]
async fn data_fates_and_the_end() {
    bounded(async {
        let (mut sender, mut receiver) = pair("latency=5s&policy=deadline&slots=8").await;
        let past = Some(clock::now());
        let sending = async {
            // More than the ring holds: it waits for room by itself.
            for n in 0..100u8 {
                let deadline = if n == 50 { past } else { None };
                sender.send(&[n], Hints { deadline, ..Hints::default() }).await.unwrap();
            }
            let mut fates = Vec::new();
            while fates.len() < 100 {
                fates.push(sender.delivery().await.unwrap());
            }
            assert_eq!(sender.get_mut().pending(), 0);
            (sender.finish().await.unwrap(), fates)
        };
        let receiving = async {
            let mut received = Vec::new();
            while let Some(datagram) = receiver.receive().await.unwrap() {
                received.push(datagram.bytes[0]);
            }
            received
        };
        let ((stats, mut fates), received) = tokio::join!(sending, receiving);
        fates.sort_by_key(|delivery| delivery.seq);
        for (n, delivery) in (0..).zip(&fates) {
            let expected = if n == 50 { Fate::Dropped(DropReason::Expired) } else { Fate::Acked };
            assert_eq!((delivery.seq.0, delivery.fate), (n, expected));
        }
        assert_eq!((stats.pkt_acked_total, stats.pkt_snd_expired_total), (99, 1));
        assert!(received.iter().copied().eq((0..100).filter(|&n| n != 50)));
    })
    .await;
}

#[tokio::test]
async fn adus_written_in_place_wait_for_room() {
    bounded(async {
        let (mut sender, mut receiver) = pair("latency=5s&policy=deadline&slots=8").await;
        let sending = async {
            for n in 0..100u8 {
                sender.send_with(2, Hints::default(), |buffer| buffer.fill(n)).await.unwrap();
            }
            let max = Options::MAX_ADU;
            let refused = sender.send_with(max + 1, Hints::default(), |_| unreachable!("it is refused")).await;
            assert_eq!(refused, Err(SendError::TooLarge { len: max + 1, max }));
            sender.finish().await.unwrap()
        };
        let receiving = async {
            for n in 0..100u8 {
                assert_eq!(receiver.receive().await.unwrap().expect("it was sent").bytes, [n, n]);
            }
        };
        let (stats, ()) = tokio::join!(sending, receiving);
        assert_eq!(stats.pkt_acked_total, 100);
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_is_gone() {
    bounded(async {
        let (mut sender, receiver) = pair("latency=5s&policy=deadline").await;
        drop(receiver);
        assert!(matches!(sender.delivery().await, Err(Error::Closed(CloseReason::Peer))));
        assert_eq!(sender.send(b"x", Hints::default()).await, Err(SendError::Closed(CloseReason::Peer)));
        // It ended in order, and nothing was taken that did not arrive.
        assert_eq!(sender.finish().await.unwrap().pkt_acked_total, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_and_nobody_there() {
    bounded(async {
        let (mut sender, _receiver) = pair("latency=5s").await;
        let max = Options::MAX_ADU;
        assert_eq!(
            sender.send(&vec![0; max + 1], Hints::default()).await,
            Err(SendError::TooLarge { len: max + 1, max })
        );
        let nobody = uri(&format!("timeous://127.0.0.1:{}?timeout=30s", free_port()));
        assert!(matches!(AsyncSender::open(nobody).await, Err(Error::NobodyListens { .. })));
    })
    .await;
}

#[tokio::test]
async fn advice_and_fates_as_they_come() {
    bounded(async {
        let (mut sender, _receiver) = pair("latency=5s&policy=dbat").await;
        // Less than what is sent below, however slowly.
        sender.get_mut().set_rate(Rate::from_kbps(5));
        let mut fates = 0;
        let advice = loop {
            sender.send(&[0; 250], Hints::default()).await.unwrap();
            match sender.event().await.unwrap() {
                SenderEvent::Advice(advice) => break advice,
                _ => fates += 1,
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        assert_eq!((advice.reason, advice.stream), (Reason::Room, Rate::from_kbps(5)));
        assert!(advice.rate > advice.stream && fates > 0);
    })
    .await;
}

#[tokio::test]
async fn a_listener_takes_one_caller_after_another() {
    bounded(async {
        let port = free_port();
        let mut listener =
            AsyncListener::open(&uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s"))).unwrap();
        for n in 0..3u8 {
            let calling = AsyncSender::open(uri(&format!("timeous://127.0.0.1:{port}?latency=9s")));
            let (sender, caller) = tokio::join!(calling, listener.accept());
            let (mut sender, (_, mut receiver)) = (sender.unwrap(), caller.unwrap().accept_async().unwrap());
            sender.send(&[n], Hints::default()).await.unwrap();
            assert_eq!(receiver.receive().await.unwrap().unwrap().bytes, [n]);
        }
    })
    .await;
}

#[tokio::test]
async fn both_directions_and_an_own_choice_at_either_end() {
    bounded(async {
        let port = free_port();
        let at = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s")).with_choice(|| OddOnly);
        let mut listener = AsyncListener::open(&at).unwrap();
        let calling = uri(&format!("timeous://127.0.0.1:{port}?latency=9s")).with_choice(|| OddOnly);
        let (near, far) = tokio::join!(asynchronous::open_both(calling), listener.accept());
        let (mut near_sender, mut near_receiver) = near.unwrap();
        let (mut far_sender, mut far_receiver) = far.unwrap().accept_async().unwrap();
        for n in 0..4u8 {
            near_sender.send(&[n], Hints::default()).await.unwrap();
            far_sender.send_with(1, Hints::default(), |buffer| buffer.fill(10 + n)).await.unwrap();
        }
        for n in [1, 3] {
            assert_eq!(far_receiver.receive().await.unwrap().expect("it was sent").bytes, [n]);
            assert_eq!(near_receiver.receive().await.unwrap().expect("it was sent").bytes, [10 + n]);
        }
    })
    .await;
}
