//! Programs that the test binary runs as other processes: daemon and clients.

use std::env;
use std::io::{Read, Write, stdin, stdout};
use std::path::PathBuf;

use timeous_core::Duration;
use timeous_daemon::{Config, Daemon, Limits};
use timeous_engine::clock;
use timeous_ipc::{Client, Geometry, OpenFlow, Options};

use crate::hostile;
use crate::sender::Sender;
use crate::support::{ROLE, SOCKET, USER};
use crate::zones;

/// Entry point of the other processes; without a role it does nothing.
#[test]
fn the_other_process() {
    let Ok(role) = env::var(ROLE) else { return };
    let path = PathBuf::from(env::var_os(SOCKET).unwrap());
    if let Ok(user) = env::var(USER) {
        let uid = rustix::process::Uid::from_raw(user.parse().unwrap());
        rustix::thread::set_thread_uid(uid).unwrap();
    }
    match role.as_str() {
        "daemon" => daemon(path),
        "sender" => sender(path),
        "hostile" => hostile::attack(path),
        "publisher" => zones::publish(path),
        other => panic!("no such role: {other}"),
    }
}

/// Runs a daemon until its standard input ends.
fn daemon(path: PathBuf) {
    let limits = Limits { clients: 40, geometry: Geometry { flows: 256, ..Geometry::default() }, ..Limits::default() };
    let share_with_host = [TRUSTED].into();
    let daemon = Daemon::bind(Config { mode: 0o666, limits, share_with_host, ..Config::at(path) }).unwrap();
    let stopper = daemon.stopper();
    std::thread::spawn(move || {
        let _ = stdin().read(&mut [0]);
        stopper.stop();
    });
    daemon.run().unwrap();
}

/// User whose flows share congestion state with the host's.
pub(crate) const TRUSTED: u32 = 61_003;
/// Variable for the number of a sender's flows.
pub(crate) const FLOWS: &str = "TIMEOUS_DAEMON_TEST_FLOWS";
/// Variable for their destination.
pub(crate) const TO: &str = "TIMEOUS_DAEMON_TEST_TO";
/// Variable for the claimed share of arrived bytes, in thousandths.
pub(crate) const LIES: &str = "TIMEOUS_DAEMON_TEST_LIES";

pub(crate) fn argument<T: std::str::FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().map_or(default, |text| text.parse().ok().unwrap_or_else(|| panic!("{name}={text}")))
}

/// Sends at the permitted rate over a simulated path, and prints how much arrived, until it is killed.
fn sender(path: PathBuf) {
    let mut client = Client::connect(Options { path, ..Options::default() }).unwrap();
    let to = argument(TO, std::net::IpAddr::from([192, 0, 2, 1]));
    let flows: Vec<_> = (0..argument(FLOWS, 1)).map(|_| client.open(OpenFlow::to(to, 1_000)).unwrap()).collect();
    let mut sender = Sender::new(&mut client, &flows, argument(LIES, 1_000));
    let mut out = stdout();
    loop {
        sender.run(clock::now() + Duration::from_millis(20));
        // The reader has exited: stop.
        if writeln!(out, "arrived {}", sender.arrived()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
