//! Sender and receiver with tokio, as tasks of one thread: sensor readings that expire after 200 ms.
//!
//! `cargo run -p timeous --example tokio --features tokio`

use std::error::Error;
use std::net::UdpSocket;

use timeous::{AsyncListener, AsyncSender, Hints};

const READINGS: u32 = 25;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let listener = AsyncListener::open(&format!("timeous://:{port}").parse()?)?;
    let (received, sent) = tokio::join!(receive(listener), send(port));
    sent?;
    println!("{} of {READINGS} readings received", received?);
    Ok(())
}

async fn send(port: u16) -> Result<(), Box<dyn Error>> {
    let uri = format!("timeous://127.0.0.1:{port}?latency=200ms&policy=deadline").parse()?;
    let mut sender = AsyncSender::open(uri).await?;
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(20));
    let mut told = 0;
    for n in 0..READINGS {
        // Waits only if the packet ring is full.
        sender.send(format!("reading {n}").as_bytes(), Hints::default()).await?;
        // Until the next reading is due there is time to hear what became of the earlier ones.
        loop {
            tokio::select! {
                _ = tick.tick() => break,
                delivery = sender.delivery(), if told <= n => {
                    told += 1;
                    println!("{:?}", delivery?);
                }
            }
        }
    }
    let stats = sender.finish().await?;
    println!("{} acknowledged, {} expired", stats.pkt_acked_total, stats.pkt_snd_expired_total);
    Ok(())
}

async fn receive(mut listener: AsyncListener) -> Result<u32, Box<dyn Error>> {
    let (_sender, mut receiver) = listener.accept().await?.accept_async()?;
    let mut received = 0;
    while let Some(datagram) = receiver.receive().await? {
        println!("{}", String::from_utf8_lossy(&datagram.bytes));
        received += 1;
    }
    Ok(received)
}
