//! Other people's transports as programs: each takes datagrams from loopback at one end, and gives them to loopback at
//! the other.

mod cost;
mod quic;
mod rtc;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "timeous-peers quic-receive LISTEN TO | quic-send FROM THERE cubic|bbr BUFFER | rtc-receive LISTEN TO \
                     | rtc-send FROM THERE RATE MILLIS | cost PACKETS RUNS";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("timeous-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    match *words {
        ["quic-receive", listen, to] => quic::receive(listen.parse()?, to.parse()?).await,
        ["quic-send", from, there, congestion, buffer] => {
            quic::send(from.parse()?, there.parse()?, congestion, buffer.parse()?).await
        }
        ["cost", packets, runs] => cost::compare(packets.parse()?, runs.parse()?),
        ["cost-send", way, port, packets] => cost::send(way, port, packets.parse()?).await,
        ["cost-receive", way, port, packets] => cost::receive(way, port, packets.parse()?).await,
        ["rtc-receive", listen, to] => rtc::receive(listen.parse()?, to.parse()?).await,
        ["rtc-send", from, there, rate, millis] => {
            let deadline = Duration::from_millis(millis.parse()?);
            rtc::send(from.parse()?, there.parse()?, rate.parse()?, deadline).await
        }
        _ => Err(USAGE.into()),
    }
}
