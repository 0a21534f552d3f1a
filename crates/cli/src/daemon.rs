//! `timeous daemon`: runs one Congestion Manager and one transport engine for all processes of the host.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ArgAction, Args};
use nix::unistd::User;
use signal_hook::consts::{SIGINT, SIGTERM};
use timeous::core::units::parse_bytes;
use timeous_daemon::metrics::{MetricsAccess, MetricsError};
use timeous_daemon::{Config, Daemon, DaemonError, Limits, Stopper, store};
use timeous_ipc::{Geometry, own_socket};
use tracing::Level;

use crate::failure::Failure;

/// Runs the Congestion Manager and the engine for all processes of this host
///
/// Applications find it by its socket and share what is known of each path: all flows of one user to one destination
/// together are as aggressive as one. Users share nothing, are not trusted, and have limits each. It runs in the
/// foreground until SIGINT or SIGTERM; applications survive its restart.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = NOTES)]
pub(crate) struct DaemonArgs {
    /// Socket of the daemon [default: $TIMEOUS_SOCKET, else /run/timeous/daemon.sock for root, else
    /// $XDG_RUNTIME_DIR/timeous/daemon.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Permissions of the socket, in octal [default: 666 for root, else 600]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    mode: Option<u32>,
    /// Remember paths in this file [default: /var/lib/timeous/paths.redb for root, else
    /// $XDG_STATE_HOME/timeous/paths.redb]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Do not remember paths beyond a restart
    #[arg(long, conflicts_with = "store")]
    no_store: bool,
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:9511
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Serve the metrics to other hosts, too
    #[arg(long, requires = "metrics")]
    metrics_beyond_loopback: bool,
    /// Write the Congestion Manager's events to this qlog file
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
    /// Share windows with the kernel's TCP by this name, if `timeous cm kernel-tcp` has loaded it
    #[arg(long, value_name = "NAME", default_value = timeous_kernel::NAME)]
    kernel_tcp: String,
    /// Share no windows with the kernel's TCP, even if `timeous cm kernel-tcp` is loaded
    #[arg(long)]
    no_kernel_tcp: bool,
    /// Charge datagrams of clients' flows that leave by plain sockets of this cgroup (version 2), such as /sys/fs/cgroup, though
    /// the clients do not report them. Needs root, and the feature `bpf`
    #[arg(long, value_name = "CGROUP")]
    count_datagrams: Option<PathBuf>,
    /// Share congestion windows between this user's flows (a name or a number), the host's streams, and the kernel's TCP;
    /// may be repeated. Trust is needed: false feedback of this user makes all of them too fast or too slow
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    share_with_host: Vec<u32>,
    /// Maximum clients of a user
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    max_clients: u32,
    /// Maximum clients of all users
    #[arg(long, value_name = "N", default_value_t = Limits::default().all_clients)]
    max_all_clients: u32,
    /// Maximum open flows of a user
    #[arg(long, value_name = "N", default_value_t = Limits::default().flows)]
    max_flows: u32,
    /// Maximum open flows of a client
    #[arg(long, value_name = "N", default_value_t = Limits::default().geometry.flows)]
    max_client_flows: u32,
    /// Maximum streams of a user, including ports that listen for streams
    #[arg(long, value_name = "N", default_value_t = Limits::default().streams)]
    max_streams: u32,
    /// Maximum packet zones of a user
    #[arg(long, value_name = "N", default_value_t = Limits::default().zones)]
    max_zones: u32,
    /// Maximum memory for the packet rings, packet zones and credentials of a user, such as 256MiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    max_ring_memory: u64,
    /// Maximum slots of a packet ring
    #[arg(long, value_name = "N", default_value_t = Limits::default().slots)]
    max_slots: u32,
    /// Log more: connecting and leaving clients (-v), or everything (-vv)
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

const NOTES: &str = "\
What it says goes to standard error: who was shown out and why, and what the system refuses.

Applications use it by themselves where there is one: `daemon=auto` in a timeous:// URI, `ManagerLocation::Auto` of the library.
`timeous top` shows what it does, `timeous paths` what it remembers.

Exit codes:
  0  ended by SIGINT or SIGTERM
  2  the command line is wrong
  4  the machine is in the way: another daemon has the socket, no right to make it, no memory or descriptors

Examples:
  sudo timeous daemon
  timeous daemon --socket /tmp/timeous.sock --no-store -v
  sudo timeous daemon --metrics 127.0.0.1:9511 --qlog /var/log/timeous.sqlog";

/// Runs the command.
pub(crate) fn run(args: DaemonArgs) -> Result<(), Failure> {
    let level = [Level::INFO, Level::DEBUG, Level::TRACE][usize::from(args.verbose.min(2))];
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_target(false).init();
    let config = config(args)?;
    grow_descriptors();
    let daemon = Daemon::bind(config)?;
    stop_on_signals(&daemon.stopper()).map_err(|error| Failure::Environment(error.to_string()))?;
    tracing::info!(socket = %daemon.path().display(), "serving");
    if let Some(address) = daemon.metrics() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    Ok(daemon.run()?)
}

fn config(args: DaemonArgs) -> Result<Config, Failure> {
    let nowhere = || {
        let text = "no place for the socket: name one with --socket or TIMEOUS_SOCKET, or set XDG_RUNTIME_DIR";
        Failure::Usage(text.to_owned())
    };
    let path = args.socket.or_else(own_socket).ok_or_else(nowhere)?;
    let mut config = Config::at(path);
    config.mode = args.mode.unwrap_or(config.mode);
    config.store = if args.no_store { None } else { args.store.or_else(store::default_path) };
    config.metrics = args.metrics;
    config.metrics_access = if args.metrics_beyond_loopback { MetricsAccess::Beyond } else { MetricsAccess::Loopback };
    config.qlog = args.qlog;
    config.kernel_tcp = (!args.no_kernel_tcp).then(|| timeous_kernel::pinned(&args.kernel_tcp));
    config.count_datagrams = args.count_datagrams;
    config.share_with_host = BTreeSet::from_iter(args.share_with_host);
    config.limits = Limits {
        all_clients: args.max_all_clients,
        clients: args.max_clients,
        flows: args.max_flows,
        streams: args.max_streams,
        zones: args.max_zones,
        ring_bytes: args.max_ring_memory,
        slots: args.max_slots,
        geometry: Geometry { flows: args.max_client_flows, ..config.limits.geometry },
    };
    Ok(config)
}

/// Raises the limit of file descriptors to the maximum: each client and each stream needs some.
fn grow_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "no more descriptors than usual");
    }
}

/// Handles signals: the first one stops the daemon in order, the second one at once.
fn stop_on_signals(stopper: &Stopper) -> io::Result<()> {
    let (mut end, bell) = UnixStream::pair()?;
    let wanted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, wanted.clone())?;
        signal_hook::flag::register(signal, wanted.clone())?;
        signal_hook::low_level::pipe::register(signal, bell.try_clone()?)?;
    }
    let stopper = stopper.clone();
    let wait = move || {
        // Only the signal handlers write to this socket.
        let _ = end.read(&mut [0]);
        stopper.stop();
    };
    std::thread::Builder::new().name("timeous-signals".to_owned()).spawn(wait).map(drop)
}

fn parse_user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("there is no user {text:?} on this host: take a name of `getent passwd`, or a number")),
        Err(error) => Err(format!("the system cannot look up users: {error}")),
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("{text:?} are no permissions: take three octal digits, such as 660")),
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Limits(_) | DaemonError::Metrics(MetricsError::NotLoopback(_)) => {
                Self::Usage(error.to_string())
            }
            _ => Self::Environment(error.to_string()),
        }
    }
}
