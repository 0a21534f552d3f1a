//! Tests of the dialer that redials after failures.

use timeous::core::Duration;
use timeous::{Arrival, DialEvent, Dialer, Error, Hints, Listener, Receiver, Sender, Uri, clock};

use crate::support::{PATIENCE, free_port, patience, pause, uri};

fn to(port: u16, query: &str) -> Uri {
    uri(&format!("timeous://127.0.0.1:{port}?latency=9s&{query}"))
}

fn next(dialer: &Dialer) -> DialEvent {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(event) = dialer.poll() {
            return event;
        }
        assert!(clock::now() < end, "nothing happens");
        dialer.wait(Some(end));
    }
}

fn connected(dialer: &Dialer) -> (Sender, Receiver) {
    loop {
        match next(dialer) {
            DialEvent::Connected(sender, receiver) => return (sender, receiver),
            DialEvent::Failed { .. } => {}
            DialEvent::GivenUp { error } => panic!("{error}"),
            _ => {}
        }
    }
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("timeous-dialer")).count()
}

#[test]
fn it_calls_until_somebody_listens_and_again_when_a_stream_has_ended_and_its_thread_ends_with_it() {
    let port = free_port();
    let dialer = Dialer::new(to(port, "")).unwrap();
    for (least, most) in [(225, 275), (450, 550)] {
        let DialEvent::Failed { error, again_in } = next(&dialer) else { panic!("somebody has answered") };
        assert!(matches!(error, Error::NobodyListens { .. }), "{error}");
        assert!((Duration::from_millis(least)..=Duration::from_millis(most)).contains(&again_in), "{again_in:?}");
    }
    let mut listener = Listener::open(&uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s"))).unwrap();
    for n in 0..2u8 {
        let (mut sender, _receiver) = connected(&dialer);
        let (far, mut receiver) = listener.accept(patience()).unwrap().expect("it calls").accept();
        sender.send(&[n], Hints::default()).unwrap();
        assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(adu) if adu.bytes == [n]));
        // It leaves the caller alone until that says that it wants another stream.
        drop((far, receiver));
        assert!(dialer.poll().is_none());
        if n == 0 {
            dialer.redial();
        }
    }
    drop(dialer);
    let end = clock::now() + PATIENCE;
    while threads() > 0 {
        assert!(clock::now() < end, "its thread does not end");
        pause(Duration::from_millis(10));
    }
    // One that waits for an answer ends at once, too.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let dialer = Dialer::new(to(silent.local_addr().unwrap().port(), "timeout=600s")).unwrap();
    pause(Duration::from_millis(50));
    drop(dialer);
    let end = clock::now() + PATIENCE;
    while threads() > 0 {
        assert!(clock::now() < end, "it waits for the answer");
        pause(Duration::from_millis(10));
    }
}

#[test]
fn what_the_caller_has_to_mend_is_final_and_so_is_everything_without_reconnect() {
    assert!(Dialer::new(uri("timeous://:7000")).unwrap_err().to_string().contains("a dialer calls"));
    let dialer = Dialer::new(to(free_port(), "reconnect=off")).unwrap();
    assert!(matches!(next(&dialer), DialEvent::GivenUp { error: Error::NobodyListens { .. } }));
    let mut wrong = to(free_port(), "");
    wrong.options.slots = 0;
    assert!(matches!(next(&Dialer::new(wrong).unwrap()), DialEvent::GivenUp { .. }));
}
