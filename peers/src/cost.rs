//! Processor time a packet of a sender and of a receiver: Timeous plain and encrypted beside QUIC datagrams, in one run over
//! loopback, all at the same rate.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use timeous::{Arrival, Hints, Listener, SendError, Sender};

use crate::quic;

/// Payload of a packet in bytes.
const PAYLOAD: usize = 1_400;
/// Packets before the measurement, in which congestion windows grow.
const WARM_UP: usize = 20_000;
/// Packets handed over at once, each [`TICK`]: 20 000 packets a second, as of a source of 224 Mbit/s.
const BURST: usize = 20;
const TICK: Duration = Duration::from_millis(1);
/// Largest datagram in bytes: payload, headers, and 25 bytes of encryption fit.
const MTU: u16 = 1_500;
const WAYS: [&str; 3] = ["plain", "encrypted", "quic"];

/// Runs each way `runs` times in turn, and prints medians.
pub(crate) fn compare(packets: usize, runs: usize) -> Result<(), Box<dyn Error>> {
    println!("payload of {PAYLOAD} bytes, {packets} packets, median of {runs}; nanoseconds of processor time a packet");
    println!("{:<24} {:>8} {:>10} {:>10}", "", "sender", "receiver", "packets/s");
    let mut results = vec![Vec::new(); WAYS.len()];
    for _ in 0..runs {
        for (results, way) in results.iter_mut().zip(WAYS) {
            results.push(run(way, packets)?);
        }
    }
    for (results, way) in results.into_iter().zip(WAYS) {
        let median = |of: fn(&[f64; 3]) -> f64| {
            let mut values: Vec<f64> = results.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let name = if way == "quic" { "QUIC (quinn)".to_owned() } else { format!("Timeous, {way}") };
        println!(
            "{name:<24} {:>8.0} {:>10.0} {:>10.0}",
            median(|run| run[0]),
            median(|run| run[1]),
            median(|run| run[2])
        );
    }
    Ok(())
}

/// One run, each end a process: nanoseconds of the sender and of the receiver, and packets a second.
fn run(way: &str, packets: usize) -> Result<[f64; 3], Box<dyn Error>> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let program = std::env::current_exe()?;
    let start = |end: &str| {
        let words = [end, way, &port.to_string(), &packets.to_string()].map(str::to_owned);
        // Both ends run on this host, for the measurement only.
        Command::new(&program).args(words).env("TIMEOUS_COST", "no secret of anybody").stdout(Stdio::piped()).spawn()
    };
    let mut receiver = start("cost-receive")?;
    let mut output = BufReader::new(receiver.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let sent = start("cost-send")?.wait_with_output()?;
    line.clear();
    output.read_line(&mut line)?;
    receiver.wait()?;
    let numbers = |text: &str| text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    let (sent, received) = (numbers(&String::from_utf8(sent.stdout)?)?, numbers(&line)?);
    let (&[sender, seconds], &[receiver, count]) = (&sent[..], &received[..]) else {
        return Err("an end failed".into());
    };
    Ok([sender / packets as f64, receiver / count, packets as f64 / seconds])
}

fn uri(way: &str, port: &str, rest: &str) -> String {
    let encryption = if way == "encrypted" { "passphrase=env:TIMEOUS_COST" } else { "encryption=off" };
    format!("timeous://127.0.0.1:{port}?mtu={MTU}&latency=10s&repair=off&policy=deadline&slots=1024&{encryption}{rest}")
}

/// The process that sends.
pub(crate) async fn send(way: &str, port: &str, packets: usize) -> Result<(), Box<dyn Error>> {
    let there: SocketAddr = format!("127.0.0.1:{port}").parse()?;
    let mut meter = Meter::default();
    if way == "quic" {
        let connection = quic::call(there, "cubic", 1 << 20, MTU).await?;
        let bytes = bytes::Bytes::from_static(&[7; PAYLOAD]);
        for at in 0..WARM_UP + packets {
            meter.tick(at).await;
            connection.send_datagram(bytes.clone())?;
        }
        meter.tick(WARM_UP + packets).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        connection.close(0u32.into(), b"");
        tokio::time::sleep(Duration::from_millis(200)).await;
    } else {
        let mut sender = Sender::open(&uri(way, port, "").parse()?)?;
        for at in 0..WARM_UP + packets {
            if meter.tick(at).await {
                while sender.poll_delivery().is_some() {}
            }
            match sender.send(&[7; PAYLOAD], Hints::default()) {
                Ok(_) | Err(SendError::Full) => {}
                Err(error) => return Err(error.into()),
            }
        }
        meter.tick(WARM_UP + packets).await;
        sender.finish()?;
    }
    let Meter { used, seconds, .. } = meter;
    println!("{} {seconds}", used.as_nanos());
    Ok(())
}

/// The sender's clock and meter.
#[derive(Default)]
struct Meter {
    began: Option<(tokio::time::Instant, Duration)>,
    next: Option<tokio::time::Instant>,
    used: Duration,
    seconds: f64,
}

impl Meter {
    /// Waits for the tick of packet number `at`, if it is the first of one, and measures from the warm-up to the last.
    async fn tick(&mut self, at: usize) -> bool {
        if !at.is_multiple_of(BURST) {
            return false;
        }
        let next = self.next.get_or_insert_with(tokio::time::Instant::now);
        *next += TICK;
        tokio::time::sleep_until(*next).await;
        if at == WARM_UP {
            self.began = Some((tokio::time::Instant::now(), processor_time()));
        } else if let Some((began, before)) = self.began {
            (self.used, self.seconds) = (processor_time() - before, began.elapsed().as_secs_f64());
        }
        true
    }
}

/// The process that receives.
pub(crate) async fn receive(way: &str, port: &str, packets: usize) -> Result<(), Box<dyn Error>> {
    let mut count = 0_usize;
    let mut before = Duration::ZERO;
    let mut note = |before: &mut Duration| {
        count += 1;
        if count == WARM_UP / 2 {
            *before = processor_time();
        }
    };
    if way == "quic" {
        let endpoint = quic::listen(format!("127.0.0.1:{port}").parse()?)?;
        println!();
        let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
        while connection.read_datagram().await.is_ok() {
            note(&mut before);
        }
    } else {
        let uri = uri(way, port, "&mode=listener").parse()?;
        let mut listener = Listener::open(&uri)?;
        println!();
        let (_sender, mut receiver) = listener.accept(None)?.ok_or("no caller")?.accept();
        while let Arrival::Data(_) = receiver.receive(None)? {
            note(&mut before);
        }
    }
    let used = processor_time() - before;
    if count < packets / 2 {
        return Err(format!("{count} of {packets} packets came").into());
    }
    println!("{} {}", used.as_nanos(), count - WARM_UP / 2);
    Ok(())
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
