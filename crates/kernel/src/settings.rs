//! System settings that assign the congestion control to sockets: the default and routes. They are recorded before they are changed, so
//! that they can be undone even if the process died.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::KernelError;

/// Default congestion control of a network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Sockets that get the congestion control, besides those that request it by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketSelection {
    /// All new connections of this network namespace.
    pub default: bool,
    /// Connections to these destinations: addresses, prefixes, or `default`, as in `ip route`.
    pub routes: Vec<String>,
}

/// Changed settings of a network namespace, with their previous values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Name of the congestion control.
    pub name: String,
    /// Directory where it is pinned.
    pub pinned: PathBuf,
    /// Process that changed the settings.
    pub pid: u32,
    /// Previous default, whether it was changed or not.
    pub default_before: String,
    namespace: u64,
    default: bool,
    routes: Vec<Changed>,
}

/// A route that was changed or added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Changed {
    ipv6: bool,
    /// The route, as `ip route` identifies it.
    route: String,
    /// Whether it existed before, in this form.
    was_there: bool,
}

impl Settings {
    /// Applies `wish` in this thread's network namespace, for the congestion control `name` pinned at `pinned`, and records the changes in
    /// `file`.
    ///
    /// # Errors
    /// [`KernelError`]; all changes made until then are undone.
    pub fn apply(file: &Path, name: &str, pinned: &Path, wish: &SocketSelection) -> Result<Self, KernelError> {
        let default_before = read(DEFAULT).map_err(KernelError::system("read the default congestion control"))?;
        let mut settings = Self {
            name: name.to_owned(),
            pinned: pinned.to_owned(),
            pid: std::process::id(),
            default_before,
            namespace: namespace()?,
            default: false,
            routes: Vec::new(),
        };
        let done = settings.change(file, wish);
        match done {
            Ok(()) => Ok(settings),
            Err(error) => {
                // The first error is the one to report.
                let _ = settings.undo(file);
                Err(error)
            }
        }
    }

    fn change(&mut self, file: &Path, wish: &SocketSelection) -> Result<(), KernelError> {
        self.write(file)?;
        for destination in &wish.routes {
            let changed = Changed::find(destination)?;
            self.routes.push(changed.clone());
            self.write(file)?;
            changed.set(&self.name)?;
        }
        if wish.default {
            self.default = true;
            self.write(file)?;
            fs::write(DEFAULT, &self.name).map_err(KernelError::system("set the default congestion control"))?;
        }
        Ok(())
    }

    /// Returns the settings recorded in `file`, if there are any.
    ///
    /// # Errors
    /// [`KernelError::System`] if it cannot be read.
    pub fn read(file: &Path) -> Result<Option<Self>, KernelError> {
        let failed = KernelError::system("read what was changed");
        match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn write(&self, file: &Path) -> Result<(), KernelError> {
        let write = || {
            if let Some(directory) = file.parent() {
                fs::create_dir_all(directory)?;
            }
            // Written atomically: a reader may have to undo it.
            let new = file.with_extension("new");
            fs::write(&new, serde_json::to_vec(self)?)?;
            fs::rename(new, file)
        };
        write().map_err(KernelError::system("write down what is changed"))
    }

    /// Undoes the changes: restores the default, unless it was changed since, and the routes. Then removes `file`.
    ///
    /// # Errors
    /// [`KernelError::OtherNamespace`] in another network namespace; else the first failure, after all other changes were undone.
    pub fn undo(&self, file: &Path) -> Result<(), KernelError> {
        let here = namespace()?;
        if here != self.namespace && (self.default || !self.routes.is_empty()) {
            return Err(KernelError::OtherNamespace { there: self.namespace });
        }
        let routes = self.routes.iter().rev().map(Changed::restore);
        let default = [self.restore_default()];
        let done = routes.chain(default).fold(Ok(()), Result::and);
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                done.and(Err(KernelError::system("forget what was changed")(error)))
            }
            _ => done,
        }
    }

    fn restore_default(&self) -> Result<(), KernelError> {
        let failed = || KernelError::system("restore the default congestion control");
        if !self.default || read(DEFAULT).map_err(failed())? != self.name {
            return Ok(());
        }
        fs::write(DEFAULT, &self.default_before).map_err(failed())
    }
}

fn read(file: &str) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

/// Returns the number of this thread's network namespace.
fn namespace() -> Result<u64, KernelError> {
    let found =
        fs::metadata("/proc/thread-self/ns/net").map_err(KernelError::system("look at the network namespace"))?;
    Ok(found.ino())
}

impl Changed {
    /// Returns the route to a destination: its own, or else one like the route that its packets take.
    fn find(destination: &str) -> Result<Self, KernelError> {
        let ipv6 = destination.contains(':');
        let refused = |said: &str| KernelError::Route { destination: destination.to_owned(), said: said.to_owned() };
        let own = ip(ipv6, &["route", "show", "exact", destination]).map_err(|said| refused(&said))?;
        let own: Vec<&str> = own.lines().filter(|line| !line.trim().is_empty()).collect();
        match own[..] {
            [route] => return Ok(Self { ipv6, route: without_state(route), was_there: true }),
            [] if destination != "default" => {}
            [] => return Err(refused("there is no default route")),
            _ => return Err(refused("it has several; change them by `ip route change … congctl`")),
        }
        let addr = destination.split('/').next().unwrap_or(destination);
        let taken = ip(ipv6, &["route", "get", addr]).map_err(|said| refused(&said))?;
        let words: Vec<&str> = taken.lines().next().unwrap_or_default().split_whitespace().collect();
        if words.first().is_none_or(|first| first.parse::<std::net::IpAddr>().is_err()) {
            return Err(refused("its packets do not leave this host"));
        }
        let mut route = destination.to_owned();
        for key in ["via", "dev", "src"] {
            if let Some([_, value]) = words.windows(2).find(|pair| pair[0] == key) {
                route.extend([" ", key, " ", value]);
            }
        }
        Ok(Self { ipv6, route, was_there: false })
    }

    fn set(&self, name: &str) -> Result<(), KernelError> {
        let verb = if self.was_there { "replace" } else { "add" };
        let route = without(&self.route, "congctl");
        let words = ["route", verb].into_iter().chain(route.split_whitespace()).chain(["congctl", name]);
        self.ip(&words.collect::<Vec<_>>())
    }

    fn restore(&self) -> Result<(), KernelError> {
        let verb = if self.was_there { "replace" } else { "del" };
        let words = ["route", verb].into_iter().chain(self.route.split_whitespace());
        self.ip(&words.collect::<Vec<_>>())
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), KernelError> {
        let refused = |said| KernelError::Route { destination: self.route.clone(), said };
        ip(self.ipv6, arguments).map(drop).map_err(refused)
    }
}

/// Returns a route as shown by `ip`, without the parts that it does not accept.
fn without_state(route: &str) -> String {
    let words = route.split_whitespace().filter(|word| !["linkdown", "dead", "offload", "trap"].contains(word));
    without(&words.collect::<Vec<_>>().join(" "), "expires")
}

/// Returns a route without a key and its value.
fn without(route: &str, key: &str) -> String {
    let mut words = route.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == key {
            if words.next() == Some("lock") {
                words.next();
            }
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Runs `ip`, and returns its output; its error message if it failed.
fn ip(ipv6: bool, arguments: &[&str]) -> Result<String, String> {
    let family = if ipv6 { "-6" } else { "-4" };
    let output = Command::new("ip").arg(family).args(arguments).output();
    let output = output.map_err(|error| format!("the ip tool cannot be run ({error}): install iproute2"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_read_without_what_it_only_shows() {
        let shown = "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1 linkdown ";
        assert_eq!(without_state(shown), "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1");
        assert_eq!(without_state("fd00::/64 dev a expires 77sec pref medium"), "fd00::/64 dev a pref medium");
        assert_eq!(without("10.0.0.0/24 dev a congctl lock bbr mtu 1400", "congctl"), "10.0.0.0/24 dev a mtu 1400");
        assert_eq!(without("10.0.0.0/24 dev a congctl bbr mtu 1400", "congctl"), "10.0.0.0/24 dev a mtu 1400");
    }

    #[test]
    fn what_is_written_down_is_read_again_and_what_is_not_there_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("deeper/changes.json");
        assert_eq!(Settings::read(&file).unwrap(), None);
        let settings = Settings {
            name: "timeous".to_owned(),
            pinned: "/sys/fs/bpf/timeous".into(),
            pid: 7,
            default_before: "cubic".to_owned(),
            namespace: 1,
            default: true,
            routes: vec![Changed { ipv6: false, route: "10.0.0.0/24 dev a".to_owned(), was_there: true }],
        };
        settings.write(&file).unwrap();
        assert_eq!(Settings::read(&file).unwrap(), Some(settings.clone()));
        let error = settings.undo(&file).unwrap_err();
        assert!(matches!(error, KernelError::OtherNamespace { there: 1 }), "{error}");
        assert!(file.exists(), "it can still be undone where it was done");
    }
}
