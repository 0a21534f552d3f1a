//! Tests of each example application and its plain version over a link that is too narrow, by counts: packets sent,
//! dropped by the link, and useful at the receiver.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use timeous::core::Rate;

use crate::support::{Link, port};

macro_rules! example {
    ($name:ident, $file:literal) => {
        #[allow(dead_code, unreachable_pub, reason = "its main is not called here")]
        #[path = $file]
        mod $name;
    };
}
example!(audio_plain, "../../examples/cm_audio_plain.rs");
example!(audio, "../../examples/cm_audio.rs");
example!(file_plain, "../../examples/cm_file_plain.rs");
example!(file, "../../examples/cm_file.rs");
example!(layers_plain, "../../examples/cm_layers_plain.rs");
example!(layers_alf, "../../examples/cm_layers_alf.rs");
example!(layers_rate, "../../examples/cm_layers_rate.rs");

/// Runs a sender and a receiver over a link; what each says, and how many packets the link dropped.
fn run<S, R: Send + 'static>(
    rate: Rate,
    queue: u64,
    receive: impl FnOnce(&UdpSocket) -> R + Send + 'static,
    send: impl FnOnce(UdpSocket, SocketAddr) -> S,
) -> (S, R, u64) {
    let far = port();
    let link = Link::to(far.local_addr().unwrap(), rate, queue);
    let receiver = thread::spawn(move || receive(&far));
    let sent = send(UdpSocket::bind("0.0.0.0:0").unwrap(), link.near);
    let received = receiver.join().unwrap();
    (sent, received, link.end().counters.queue_drops)
}

/// 100 chunks over 1 Mbit/s with room for ten.
#[test]
fn a_file_arrives_and_the_buffered_socket_does_it_with_fewer_packets() {
    let contents: Vec<u8> = (0..100_000u32).map(|n| (n / 7) as u8).collect();
    let rate = Rate::from_kbps(1_000);
    let plain = thread::spawn({
        let contents = contents.clone();
        move || {
            run(
                rate,
                10,
                |far| file_plain::receive(far).unwrap(),
                |socket, near| file_plain::send(socket, near, &contents).unwrap(),
            )
        }
    });
    let (packets, received, dropped) =
        run(rate, 10, |far| file::receive(far).unwrap(), |socket, near| file::send(socket, near, &contents).unwrap());
    assert!(received == contents, "{} of {} bytes", received.len(), contents.len());
    let (plain_packets, plain_received, plain_dropped) = plain.join().unwrap();
    assert!(plain_received == contents);
    println!("buffered {packets} packets, {dropped} dropped; plain {plain_packets}, {plain_dropped} dropped");
    assert!(packets < 140, "{packets} packets, {plain_packets} of the plain version");
    assert!(plain_packets > 140, "the link is narrow for whoever does not look: {plain_packets}");
}

/// 800 kbit/s of video over 300, which carries two layers of the four.
#[test]
fn layered_video_shows_what_the_path_carries() {
    const FRAMES: u32 = 150;
    let rate = Rate::from_kbps(300);
    let plain = thread::spawn(move || {
        run(
            rate,
            12,
            |far| layers_plain::receive(far).unwrap(),
            |socket, near| layers_plain::send(socket, near, FRAMES).unwrap(),
        )
    });
    let by_rate = thread::spawn(move || {
        run(
            rate,
            12,
            |far| layers_rate::receive(far).unwrap(),
            |socket, near| layers_rate::send(socket, near, FRAMES).unwrap(),
        )
    });
    let alf = run(
        rate,
        12,
        |far| layers_alf::receive(far).unwrap(),
        |socket, near| layers_alf::send(socket, near, FRAMES).unwrap(),
    );
    let (plain, by_rate) = (plain.join().unwrap(), by_rate.join().unwrap());
    println!("plain {plain:?}\nALF {alf:?}\nrate callbacks {by_rate:?}");
    let watchable = |shown: [u32; 5]| shown[1..].iter().sum::<u32>();
    let layers = |shown: [u32; 5]| (0..).zip(shown).map(|(layers, frames): (u32, u32)| layers * frames).sum::<u32>();
    assert!(plain.2 > u64::from(FRAMES), "the plain version floods the link");
    for (sent, shown, dropped) in [alf, by_rate] {
        assert!(watchable(shown) * 10 >= FRAMES * 8, "{shown:?}");
        // More than the base layer, on an average over the whole stream.
        assert!(layers(shown) > FRAMES * 14 / 10, "{shown:?}");
        assert!(dropped * 10 < sent, "{dropped} of {sent} packets dropped");
    }
}

/// 64 kbit/s of audio, 100 on the wire with what it adds, over 48.
#[test]
fn audio_is_policed_and_nothing_stale_is_heard() {
    const PACKETS: u32 = 300;
    let rate = Rate::from_kbps(48);
    let plain = thread::spawn(move || {
        run(
            rate,
            10,
            |far| audio_plain::receive(far).unwrap(),
            |socket, near| audio_plain::send(socket, near, PACKETS).unwrap(),
        )
    });
    let (sent, heard, dropped) =
        run(rate, 10, |far| audio::receive(far).unwrap(), |socket, near| audio::send(socket, near, PACKETS).unwrap());
    let (plain_sent, plain_heard, plain_dropped) = plain.join().unwrap();
    println!(
        "{sent:?}, heard {}, dropped {dropped}; plain {plain_sent:?}, heard {}, dropped {plain_dropped}",
        heard.len(),
        plain_heard.len()
    );
    assert!(plain_dropped > 80, "the plain version floods the link: {plain_dropped}");
    assert!(dropped * 10 <= u64::from(sent.packets), "{dropped} of {} dropped by the link", sent.packets);
    assert!(sent.policed > sent.stale, "the policer takes out most of it: {sent:?}");
    assert!(sent.behind <= 5, "what waits too long is not sent: {sent:?}");
    assert!(heard.len() as u32 + 10 > PACKETS * 4 / 10 && heard.is_sorted());
}
