//! `timeous cm kernel-tcp`: loads a BPF congestion control, by which unmodified TCP programs share the Congestion
//! Manager's windows.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use timeous::core::{Duration, Instant, Rate};
use timeous_kernel::{Flow, Installed, KernelError, Macroflow, NAME, Settings, SocketSelection, changes, pinned};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::notice::{put, say};

/// Interval at which stop signals are checked.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);
/// Idle time after which an unused macroflow is removed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Interval at which unused macroflows are removed.
const TIDY: Duration = Duration::from_secs(10);

const HELP: &str = "\
Loads a TCP congestion control named `timeous` into the kernel (as root, in a tool built with the feature `bpf`). \
Connections that use it share one window for each destination: a new one starts from what the path is known to bear, and \
all together are as aggressive as one. It serves programs as they are:

  one socket   any program that sets TCP_CONGESTION by name, as `iperf3 -C timeous`, or curl and Python by setsockopt
  one route    --route 192.0.2.0/24 (`ip route change … congctl timeous`): what goes there, and what answers from here
  all          --default: new connections of this network namespace

It goes, and what was changed is put back, on Ctrl-C, SIGTERM or `--remove`; connections in flight then go on with the \
default before. After a crash of this command the kernel goes on with it until `--remove`.";

/// Makes the kernel's TCP a client of the Congestion Manager
#[derive(Debug, Args)]
#[command(long_about = HELP)]
pub(crate) struct KernelTcpArgs {
    /// Make it the default of this network namespace
    #[arg(long)]
    default: bool,
    /// Use it for a destination: an address, a prefix, or `default` (may be repeated)
    #[arg(long = "route", value_name = "DEST")]
    routes: Vec<String>,
    /// Leave it loaded and exit; `--remove` unloads it
    #[arg(long)]
    stay: bool,
    /// Unload it, also after a process that died
    #[arg(long, conflicts_with_all = ["default", "routes", "stay"])]
    remove: bool,
    /// Show macroflows, and the connections of this network namespace
    #[arg(long, conflicts_with_all = ["default", "routes", "stay", "remove"])]
    status: bool,
    /// Network namespace, as named by `ip netns`, instead of this one (`ip netns exec` would hide pinned objects)
    #[arg(long, value_name = "NAMESPACE")]
    netns: Option<String>,
    /// Name of the congestion control
    #[arg(long, default_value = NAME)]
    name: String,
}

/// Runs the command.
pub(crate) fn run(args: &KernelTcpArgs) -> Result<(), Failure> {
    args.netns.as_deref().map_or(Ok(()), enter)?;
    let place = Place { name: &args.name, pinned: pinned(&args.name), changes: changes(&args.name) };
    let done = match args {
        KernelTcpArgs { remove: true, .. } => place.remove(),
        KernelTcpArgs { status: true, .. } => place.status(),
        _ => place.serve(args),
    };
    done.map_err(|error| match error {
        KernelError::Name { .. } | KernelError::Route { .. } => Failure::Usage(error.to_string()),
        error => Failure::Environment(error.to_string()),
    })
}

/// Moves this thread, the only one, into a network namespace.
fn enter(namespace: &str) -> Result<(), Failure> {
    let path = Path::new("/run/netns").join(namespace);
    let moved = File::open(&path)
        .and_then(|file| Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?));
    moved.map_err(|error| Failure::Environment(format!("cannot enter network namespace {namespace:?}: {error}")))
}

/// Name and paths of the loaded congestion control.
struct Place<'a> {
    name: &'a str,
    pinned: PathBuf,
    changes: PathBuf,
}

impl Place<'_> {
    fn serve(&self, args: &KernelTcpArgs) -> Result<(), KernelError> {
        // Catch signals before any change is made, so that all changes are undone.
        let interrupt = Interrupt::new().map_err(system("listen for signals"))?;
        let installed = Installed::load(&self.pinned, self.name)?;
        let wish = SocketSelection { default: args.default, routes: args.routes.clone() };
        let settings = match Settings::apply(&self.changes, self.name, &self.pinned, &wish) {
            Ok(settings) => settings,
            Err(error) => {
                // Report the first error, not one of the removal.
                let _ = installed.remove("reno");
                return Err(error);
            }
        };
        put(format_args!("{}\n", describe(&settings, &wish)));
        if args.stay {
            return Ok(());
        }
        if run_until_removed(&installed, &self.changes, &interrupt)? {
            settings.undo(&self.changes)?;
            installed.remove(&settings.default_before)?;
            put(format_args!("{} is taken away\n", self.name));
        } else {
            put(format_args!("{} was taken away by somebody else\n", self.name));
        }
        Ok(())
    }

    fn remove(&self) -> Result<(), KernelError> {
        let settings = Settings::read(&self.changes)?;
        if let Some(settings) = &settings {
            settings.undo(&self.changes)?;
        }
        let fallback = settings.as_ref().map_or("reno", |settings| &settings.default_before);
        match Installed::open(&self.pinned) {
            Ok(installed) => {
                installed.remove(fallback)?;
                say(format_args!("{} is taken away", self.name));
            }
            Err(KernelError::NotLoaded { .. }) => say(format_args!("{} is not loaded", self.name)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn status(&self) -> Result<(), KernelError> {
        let installed = Installed::open(&self.pinned)?;
        if let Some(settings) = Settings::read(&self.changes)? {
            say(format_args!("{} was loaded by process {}", self.name, settings.pid));
        }
        let (macroflows, flows) = (installed.macroflows()?, installed.flows()?);
        if macroflows.is_empty() {
            say("no macroflows yet");
        }
        for macroflow in &macroflows {
            say(macroflow_line(macroflow));
            flows.iter().filter(|flow| flow.path == macroflow.path).for_each(|flow| say(flow_line(flow)));
        }
        Ok(())
    }
}

/// Waits for the end: returns true after a signal, false if another process has unloaded it.
fn run_until_removed(installed: &Installed, changes: &Path, interrupt: &Interrupt) -> Result<bool, KernelError> {
    let mut tidied = now();
    loop {
        if interrupt.is_set() {
            return Ok(true);
        }
        if !changes.exists() {
            return Ok(false);
        }
        if now() >= tidied + TIDY {
            installed.forget_idle(FORGOTTEN_AFTER)?;
            tidied = now();
        }
        let look = rustix::thread::Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        // A signal ends the sleep early.
        let _ = rustix::thread::nanosleep(&look);
    }
}

fn now() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::ZERO + Duration::from_secs(now.tv_sec as u64) + Duration::from_nanos(now.tv_nsec as u64)
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> KernelError {
    move |source| KernelError::System { what, source }
}

fn describe(settings: &Settings, wish: &SocketSelection) -> String {
    let name = &settings.name;
    let mut users = vec![format!("sockets that ask for it (TCP_CONGESTION, {name:?})")];
    users.extend(wish.routes.iter().map(|route| format!("what goes to {route}")));
    if wish.default {
        users.push(format!("all new connections here (before: {})", settings.default_before));
    }
    format!("the kernel's TCP is a client of the Congestion Manager, as {name:?}: {}", users.join("; "))
}

fn time(duration: Option<Duration>) -> String {
    let shown = |duration: Duration| match duration.as_micros() {
        micros @ ..1_000 => format!("{micros} µs"),
        micros => format!("{:.1} ms", micros as f64 / 1e3),
    };
    duration.map_or("unknown".to_owned(), shown)
}

fn macroflow_line(macroflow: &Macroflow) -> String {
    let Macroflow { path, flows, hungry, companions, window, committed, lost, losses, timeouts, opened, .. } =
        macroflow;
    let rate = macroflow.srtt.map_or("unknown".to_owned(), |srtt| Rate::from_bytes_in(*window, srtt).to_string());
    let dscp = if path.dscp == 0 { String::new() } else { format!(" (DSCP {})", path.dscp) };
    format!(
        "{}{dscp}: window {window} bytes ({rate}), {committed} in use; round trip {}, least {}; {flows} connections and \
         {companions} flows of the daemon, {hungry} waiting for more; {opened} opened, {lost} packets lost, {losses} \
         reductions, {timeouts} timeouts",
        path.addr,
        time(macroflow.srtt),
        time(macroflow.min_rtt),
    )
}

fn flow_line(flow: &Flow) -> String {
    let Flow { local, remote, window, mss, flight, srtt, hungry, .. } = flow;
    let waiting = if *hungry { ", waiting for more" } else { "" };
    let srtt = time(Some(*srtt));
    format!(
        "  {local} -> {remote}: window {window} packets of {mss} bytes, {flight} under way; round trip {srtt}{waiting}"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Tool {
        #[command(flatten)]
        args: KernelTcpArgs,
    }

    fn parse(line: &str) -> Result<KernelTcpArgs, clap::Error> {
        Tool::try_parse_from(["kernel-tcp"].into_iter().chain(line.split_whitespace())).map(|tool| tool.args)
    }

    #[test]
    fn routes_repeat_and_what_excludes_itself_is_refused() {
        let args = parse("--default --route 192.0.2.1 --route default").unwrap();
        assert_eq!((args.default, args.routes.len(), args.name.as_str()), (true, 2, NAME));
        for line in ["--remove --default", "--status --remove", "--status --route 192.0.2.1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_was_never_loaded_is_an_error_that_says_what_is_missing() {
        let error = run(&parse("--status --name never_loaded").unwrap()).unwrap_err().to_string();
        let expected = if cfg!(feature = "bpf") { ["never_loaded", "not permitted"] } else { ["feature `bpf`"; 2] };
        assert!(expected.iter().any(|text| error.contains(text)), "{error}");
    }
}
