//! Linux's DCCP, in a virtual machine, against ours: connect, exchange data and close, with and without loss.
//!
//! Needs root, qemu and Debian's packages, from which the kernel comes.

mod machine;
mod refusals;
mod session;
mod wire;

use std::sync::{Mutex, PoisonError};

use machine::{Machine, Nothing};
use session::{Outcome, Session, Side};
use timeous_core::Duration;
use timeous_dccp::Ccid;
use timeous_net::LinkConfig;
use timeous_net::link::{Limit, Loss};

/// Datagrams sent by each side in a session.
const COUNT: u64 = 10_000;
/// Maximum number of these that Linux may refuse. Its window for our acknowledgements does not count the
/// acknowledgements that it sends itself (RFC 4340 §7.5.2), and data with an acknowledgement may be outside the window
/// when it was just narrowed.
const REFUSED: u64 = 10;

fn link(loss: f64) -> LinkConfig {
    let loss = if loss > 0.0 { Loss::Bernoulli { p: loss } } else { Loss::None };
    LinkConfig { delay: Duration::from_millis(2), queue: Limit::Packets(20_000), loss, ..LinkConfig::default() }
}

/// Runs one session over an emulated link, and checks the counters of both sides against the capture.
fn judge(machine: &mut Machine, session: &Session, loss: f64) -> Result<Outcome, Nothing> {
    let capture = machine.path(&format!("session-{}.pcapng", session.number));
    let wire = machine.wire(&link(loss), u64::from(session.number), &capture);
    let outcome = session.run(machine);
    drop(wire);
    let outcome = outcome?;
    let [ours, linuxs] = wire::passed(&capture);
    let Outcome { got, wrong, linux_got, linux_wrong, acked, took, statistics, .. } = &outcome;
    let missing = session.count - linux_got.min(&session.count);
    eprintln!(
        "{session}, loss {loss}: Linux got {linux_got} and refused {}, we got {got}, in {took:?}; {missing} missing; \
         {statistics:?}",
        ours.refused
    );
    let check = |what: &str, is: u64, should: u64| match is == should {
        true => Ok(()),
        false => Err(Nothing(format!("{what}: {is}, and not {should}; {outcome:?}"))),
    };
    check("of our datagrams, Linux got what the link delivered", linux_got + ours.refused, ours.data.len() as u64)?;
    check("of Linux's datagrams, we got what the link delivered", *got, linuxs.data.len() as u64)?;
    check("damaged or doubled", wrong + linux_wrong, 0)?;
    check("packets that are none", ours.malformed + linuxs.malformed, 0)?;
    check("packets that we took for out of step, or unexpected", statistics.violations(), 0)?;
    if ours.refused > REFUSED {
        return Err(Nothing(format!("Linux refused {} datagrams: {outcome:?}", ours.refused)));
    }
    // With CCID 3 Linux sends no Ack Vectors: the fate of a single datagram is unknown.
    if session.ccid == Ccid::Ccid2 {
        check("more was acknowledged than Linux got", acked.saturating_sub(*linux_got), 0)?;
    }
    if loss == 0.0 {
        check("Linux got everything", linux_got + ours.refused, session.count)?;
        check("we got everything", *got, session.count)?;
    }
    match wire::complaints(&capture, machine::OURS) {
        None => machine::skip("what tshark says of our packets", "tshark"),
        Some(complaints) if complaints.is_empty() => {}
        Some(complaints) => return Err(Nothing(format!("tshark says of packets of ours: {complaints:?}"))),
    }
    Ok(outcome)
}

/// One machine at a time: there are few processors.
static TURN: Mutex<()> = Mutex::new(());

/// A check, with its name.
type Show<'a> = (String, Box<dyn Fn(&mut Machine) -> Result<(), Nothing> + 'a>);

/// Boots a machine and runs all checks, whichever fail.
fn show(test: &str, all: Vec<Show<'_>>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut machine) = Machine::boot(test) else { return };
    let mut failed = String::new();
    for (name, run) in all {
        if let Err(Nothing(why)) = run(&mut machine) {
            failed += &format!("\n{name}: {why}");
        }
    }
    if !failed.is_empty() {
        panic!("captures and logs are in {}{failed}", machine.keep().display());
    }
}

/// Returns every kind of session with this congestion control in both directions.
fn sessions(ccid: Ccid) -> Vec<Show<'static>> {
    let mut all: Vec<Show<'static>> = Vec::new();
    for (number, (loss, caller, closer)) in (1..).zip([
        (0.0, Side::Us, Side::Us),
        (0.0, Side::Linux, Side::Linux),
        (0.02, Side::Us, Side::Linux),
        (0.02, Side::Linux, Side::Us),
    ]) {
        let session = Session { number, ccid, caller, closer, count: COUNT };
        let name = format!("session {number}: {session}, loss {loss}");
        all.push((name, Box::new(move |machine| judge(machine, &session, loss).map(drop))));
    }
    all
}

#[test]
fn linux_and_we_talk_with_ccid_2() {
    show("linux_and_we_talk_with_ccid_2", sessions(Ccid::Ccid2));
}

#[test]
fn linux_and_we_talk_with_ccid_3() {
    show("linux_and_we_talk_with_ccid_3", sessions(Ccid::Ccid3));
}

#[test]
fn linux_and_we_refuse_each_other() {
    type Refusal = fn(&mut Machine) -> Result<(), Nothing>;
    let all: [(&str, Refusal); 4] = [
        ("our wrong service", refusals::our_wrong_service),
        ("Linux's wrong service", refusals::linuxs_wrong_service),
        ("our wrong port", refusals::our_wrong_port),
        ("our wrong CCID", refusals::our_wrong_ccid),
    ];
    let on_a_wire = |refusal: Refusal| {
        move |machine: &mut Machine| {
            let _wire = machine.wire(&link(0.0), 0, &machine.path("refusals.pcapng"));
            refusal(machine)
        }
    };
    let all = all.map(|(name, refusal)| -> Show<'_> { (name.to_owned(), Box::new(on_a_wire(refusal))) });
    show("linux_and_we_refuse_each_other", all.into());
}
