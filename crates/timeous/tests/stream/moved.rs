//! Test of a caller whose port is changed by its NAT during the stream.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use timeous::core::Duration;
use timeous::{Arrival, Hints, Status, clock};

use crate::support::{PATIENCE, both_ends, direct, free_port, patience, pause};

/// A NAT for one caller: it forgets it when asked to, and gives it another port.
struct Nat {
    near: SocketAddr,
    forgets: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Nat {
    fn to(port: u16) -> Self {
        // Hosts of its own: what other tests of this process learn of 127.0.0.1, such as a narrow link, does not count for it.
        let bind = |host: &str| {
            let socket = UdpSocket::bind((host, 0)).unwrap();
            socket.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
            socket
        };
        let (inside, mut outside) = (bind("127.0.0.7"), bind("127.0.0.8"));
        let near = inside.local_addr().unwrap();
        let [forgets, stops] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (forget, stop) = (forgets.clone(), stops.clone());
        let thread = thread::spawn(move || {
            let (mut caller, mut buffer) = (None, [0; 2_048]);
            while !stop.load(Ordering::Relaxed) {
                if forget.swap(false, Ordering::Relaxed) {
                    outside = bind("127.0.0.8");
                }
                if let Ok((len, from)) = inside.recv_from(&mut buffer) {
                    caller = Some(from);
                    // A port that was closed says so by ICMP, which is nothing to an open stream.
                    let _ = outside.send_to(&buffer[..len], direct(port));
                }
                if let (Ok(len), Some(caller)) = (outside.recv(&mut buffer), caller) {
                    let _ = inside.send_to(&buffer[..len], caller);
                }
            }
        });
        Self { near, forgets, stops, thread: Some(thread) }
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed.
            let _ = thread.join();
        }
    }
}

#[test]
fn both_ends_of_a_stream_outlive_a_change_of_the_callers_port() {
    let port = free_port();
    let nat = Nat::to(port);
    let [(mut near, mut near_receiver), (mut far, mut far_receiver)] =
        both_ends(nat.near, port, "latency=2s&timeout=4s");
    let before = far_receiver.peer().expect("it is known");
    let end = clock::now() + PATIENCE;
    let mut last = [0u32; 2];
    for n in 1..300u32 {
        if n == 100 {
            nat.forgets.store(true, Ordering::Relaxed);
        }
        near.send(&n.to_be_bytes(), Hints::default()).unwrap();
        far.send(&n.to_be_bytes(), Hints::default()).unwrap();
        near.wait(Some(clock::now() + Duration::from_millis(5)));
        pause(Duration::from_millis(5));
        while near.poll_delivery().is_some() || far.poll_delivery().is_some() {}
    }
    for (receiver, last) in [&mut near_receiver, &mut far_receiver].into_iter().zip(&mut last) {
        while *last < 299 {
            assert!(clock::now() < end, "only up to {last}");
            let Arrival::Data(adu) = receiver.receive(patience()).unwrap() else { panic!("no data") };
            // One that was sent again may come after the newest.
            *last = (*last).max(u32::from_be_bytes(adu.bytes.try_into().unwrap()));
        }
    }
    let after = far_receiver.peer().expect("it is known");
    assert_ne!(before, after);
    assert_eq!(after, far.peer().unwrap());
    assert_eq!(near.peer(), Some(nat.near), "what the caller called is where it was");
    assert_eq!((near.status(), far.status()), (Status::Open, Status::Open));
    // And it ends in order.
    near.finish().unwrap();
    assert_eq!(far_receiver.receive(patience()).unwrap(), Arrival::End);
}

/// It hears nothing any more, and has nothing to say by which its sender could learn where it is, until it asks.
#[test]
fn a_caller_that_only_receives_is_found_before_its_sender_gives_it_up() {
    let port = free_port();
    let nat = Nat::to(port);
    let [(_near, mut receiver), (mut sender, _far)] = both_ends(nat.near, port, "latency=1s&timeout=3s");
    let before = sender.peer().expect("it is known");
    let end = clock::now() + PATIENCE;
    let (mut n, mut heard) = (0u32, None);
    while sender.peer() == Some(before) || heard.is_none_or(|heard| heard + 50 < n) {
        assert!(clock::now() < end, "{n}, {heard:?}");
        n += 1;
        if n == 20 {
            nat.forgets.store(true, Ordering::Relaxed);
        }
        sender.send(&n.to_be_bytes(), Hints::default()).unwrap();
        while sender.poll_delivery().is_some() {}
        pause(Duration::from_millis(10));
        while let Some(Arrival::Data(adu)) = receiver.poll_receive().unwrap() {
            heard = Some(u32::from_be_bytes(adu.bytes.try_into().unwrap()));
        }
    }
    assert_eq!((sender.status(), receiver.status()), (Status::Open, Status::Open));
}
