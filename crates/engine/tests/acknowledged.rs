//! Over the kernel's TCP, our receiver acknowledges what it reads at once: a sender's window and its path model go by acknowledgements.

use std::net::SocketAddr;

use timeous_core::{AduMeta, Duration};
use timeous_engine::{Carrier, Engine, Sealing, StreamConfig, TcpConfig, TcpFraming, clock};
use timeous_kernel_tcp::Trial;

const PATIENCE: Duration = Duration::from_secs(20);
/// Half of the time for which Linux delays the acknowledgement of a single segment (`TCP_DELACK_MIN`, 40 ms).
const PROMPT: Duration = Duration::from_millis(20);
/// Number of segments that Linux acknowledges at once at the beginning of a connection (`TCP_MAX_QUICKACKS`, 16), and as many to spare.
const QUICK: usize = 32;
/// Number of segments that count.
const COUNTED: usize = 32;

/// A receiver that answers is taken for one whose next answer will carry the acknowledgement, which the kernel delays for that.
#[test]
fn a_segment_is_acknowledged_when_it_is_read_by_a_receiver_that_answers_too() {
    let engine = Engine::start().unwrap();
    let config = StreamConfig {
        tcp: TcpConfig { framing: TcpFraming::None, ..TcpConfig::default() },
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Tcp)
    };
    let mut listener = engine.listen(SocketAddr::from(([127, 0, 0, 1], 0)), config).unwrap();
    let mut caller = Trial::call(listener.local_addr(), None).unwrap();
    let end = clock::now() + PATIENCE;
    let mut called = listener.accept(Some(end)).expect("a caller");
    let mut prompt = 0;
    for nth in 0..QUICK + COUNTED {
        let sent = clock::now();
        caller.send(&[7; 1_000]).unwrap();
        while !caller.view().unwrap().is_acknowledged {
            assert!(clock::now() < end, "segment {nth}");
            std::thread::yield_now();
        }
        prompt += usize::from(nth >= QUICK && clock::now().saturating_since(sent) < PROMPT);
        while called.receiving().poll_received().is_some() {}
        called.sending().enqueue(&AduMeta::default(), b"answer").unwrap();
        let mut answer = [0; 16];
        while caller.receive(&mut answer).unwrap().is_none() {
            assert!(clock::now() < end, "answer {nth}");
            std::thread::yield_now();
        }
    }
    // The kernel delays every second one: by the next, its timer has shown that no answer followed. On a busy machine, threads wait.
    assert!(prompt > COUNTED * 3 / 4, "{prompt} of {COUNTED}");
}
