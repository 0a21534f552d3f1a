//! The BPF program in the kernel: loading, pinning (it outlives the loading process), inspection, removal.

use std::fs;
use std::io::{self, Read};
use std::path::{Path as FilePath, PathBuf};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use timeous_core::Duration;

use crate::NAME;
use crate::error::KernelError;
use crate::view::{Flow, Macroflow};
use crate::words;

/// The compiled program.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/timeous.bpf.o"));

/// Names of the pinned objects, and of the maps and programs in the object file.
pub(crate) const MACROFLOWS: &str = "macroflows";
const ORDERS: &str = ".data.orders";
const PINNED_ORDERS: &str = "orders";
const OPERATIONS: &str = "timeous";
const LINK: &str = "congestion_control";
const FLOWS: &str = "timeous_flows";
const PINNED_FLOWS: &str = "flows";
/// Program that only the daemon runs.
pub(crate) const TELL: &str = "timeous_tell";

/// Mount point of the BPF file system, which holds pinned objects.
const BPF_FS: &str = "/sys/fs/bpf";
/// Size of `struct orders`, in bytes.
const ORDERS_LEN: usize = 20;
/// Maximum length of a congestion control's name, in bytes (Linux's `TCP_CA_NAME_MAX` of 16, less the final zero).
const MAX_NAME: usize = 15;

/// The program in the kernel, pinned in a directory of the BPF file system.
///
/// It outlives this value and this process, since connections depend on it. [`remove`](Self::remove) unloads it.
///
/// ```no_run
/// use timeous_kernel::{Installed, NAME, pinned};
/// let installed = Installed::load(&pinned(NAME), NAME)?;
/// // … sockets ask for it by TCP_CONGESTION, or a `SocketSelection` makes it the default …
/// for macroflow in installed.macroflows()? {
///     println!("{}: {} bytes for {} connections", macroflow.path.addr, macroflow.window, macroflow.flows);
/// }
/// installed.remove("cubic")?;
/// # Ok::<(), timeous_kernel::KernelError>(())
/// ```
#[derive(Debug)]
pub struct Installed {
    at: PathBuf,
    macroflows: MapHandle,
    orders: MapHandle,
}

impl Installed {
    /// Loads the program and registers it as the congestion control `name`, for use by sockets, by routes and as the default. `at` is a
    /// directory of the BPF file system, which is mounted if it is not.
    ///
    /// # Errors
    /// [`KernelError`], by cause; nothing is left behind.
    pub fn load(at: &FilePath, name: &str) -> Result<Self, KernelError> {
        if fs::exists(at.join(LINK)).unwrap_or(false) {
            return Err(KernelError::AlreadyLoaded { name: name.to_owned() });
        }
        have_bpf_fs()?;
        let object = open_object()?;
        let object = named(object, name)?.load().map_err(refused)?;
        fs::create_dir_all(at).map_err(KernelError::system("make a directory in the BPF file system"))?;
        let loaded = register(object, at, name).and_then(|()| Self::open(at));
        if loaded.is_err() {
            unpin(at);
        }
        loaded
    }

    /// Opens the program loaded by this or an earlier process.
    ///
    /// # Errors
    /// [`KernelError::NotLoaded`] if there is none.
    pub fn open(at: &FilePath) -> Result<Self, KernelError> {
        let open = |name: &str| MapHandle::from_pinned_path(at.join(name)).map_err(|error| missing(at, &error));
        let (macroflows, orders) = (open(MACROFLOWS)?, open(PINNED_ORDERS)?);
        let sizes = [macroflows.key_size(), macroflows.value_size(), orders.value_size()];
        if sizes != [words::KEY as u32, words::VALUE as u32, ORDERS_LEN as u32] {
            return Err(KernelError::OtherVersion { at: at.to_owned() });
        }
        Ok(Self { at: at.to_owned(), macroflows, orders })
    }

    /// Returns the macroflows of all network namespaces, including unused ones.
    ///
    /// # Errors
    /// [`KernelError::System`] if they cannot be read.
    pub fn macroflows(&self) -> Result<Vec<Macroflow>, KernelError> {
        let now = monotonic_nanos();
        let mut found = Vec::new();
        for key in self.macroflows.keys() {
            let value = self.macroflows.lookup(&key, MapFlags::LOCK).map_err(environment("read the macroflows"))?;
            // Entries removed between the two calls are skipped.
            found.extend(value.and_then(|value| words::macroflow(&key, &value, now)));
        }
        found.sort_by_key(|macroflow| macroflow.path);
        Ok(found)
    }

    /// Returns the connections of this thread's network namespace whose windows come from macroflows.
    ///
    /// # Errors
    /// [`KernelError::System`] if they cannot be read.
    pub fn flows(&self) -> Result<Vec<Flow>, KernelError> {
        let mut records = Vec::new();
        let read = fs::File::open(self.at.join(PINNED_FLOWS)).and_then(|mut file| file.read_to_end(&mut records));
        read.map_err(KernelError::system("read the connections"))?;
        Ok(records.chunks(words::SHOWN).filter_map(words::flow).collect())
    }

    /// Removes macroflows without traffic for longer than this, and returns their number.
    ///
    /// # Errors
    /// [`KernelError::System`] if they cannot be read.
    pub fn forget_idle(&self, longer_than: Duration) -> Result<usize, KernelError> {
        let idle = |macroflow: &Macroflow| macroflow.flows == 0 && macroflow.idle > longer_than;
        let old: Vec<_> = self.macroflows()?.into_iter().filter(idle).collect();
        // A macroflow used again meanwhile is recreated by its next connection, which then starts afresh.
        Ok(old.iter().filter(|macroflow| self.macroflows.delete(&words::key(&macroflow.path)).is_ok()).count())
    }

    /// Unloads the program. New connections do not use it; existing ones change to the congestion control `fallback` at their next
    /// acknowledgement (Reno if it is missing), and with the last of them the kernel frees the program.
    ///
    /// # Errors
    /// [`KernelError::System`] if the kernel refuses.
    pub fn remove(self, fallback: &str) -> Result<(), KernelError> {
        let mut orders = [0; ORDERS_LEN];
        orders[..4].copy_from_slice(&1_u32.to_ne_bytes());
        let fallback = if fallback.len() > MAX_NAME || fallback == NAME { "reno" } else { fallback };
        orders[4..4 + fallback.len()].copy_from_slice(fallback.as_bytes());
        let told = self.orders.update(&0_u32.to_ne_bytes(), &orders, MapFlags::ANY);
        let link = Link::open(self.at.join(LINK)).map_err(|error| missing(&self.at, &error))?;
        // Another process may hold the link, too: this detaches it for all. Kernels without detach free it when it is unpinned.
        let _ = link.detach();
        unpin(&self.at);
        told.map_err(environment("tell the connections"))
    }
}

/// Opens the compiled object, with the programs that the kernel runs by itself.
pub(crate) fn open_object() -> Result<OpenObject, KernelError> {
    // libbpf prints its errors on standard error, too.
    set_print(Some((PrintLevel::Debug, |_, _| {})));
    let mut object = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
    for mut program in object.progs_mut() {
        let only_daemon = program.name() == TELL;
        program.set_autoload(!only_daemon);
    }
    Ok(object)
}

/// Sets the name of the congestion control.
fn named(mut object: OpenObject, name: &str) -> Result<OpenObject, KernelError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(allowed) {
        return Err(KernelError::Name { name: name.to_owned() });
    }
    let mut operations = object.maps_mut().find(|map| map.name() == OPERATIONS).expect("the object has its operations");
    let value = operations.initial_value_mut().expect("operations have a value");
    let written = [NAME.as_bytes(), &[0]].concat();
    let place = value.windows(written.len()).position(|bytes| bytes == written).expect("the name is in it");
    let place = &mut value[place..=place + MAX_NAME];
    place.fill(0);
    place[..name.len()].copy_from_slice(name.as_bytes());
    Ok(object)
}

/// Registers and pins the loaded objects.
fn register(mut object: Object, at: &FilePath, name: &str) -> Result<(), KernelError> {
    for mut map in object.maps_mut() {
        let pinned = match map.name().to_str() {
            Some(MACROFLOWS) => MACROFLOWS,
            Some(ORDERS) => PINNED_ORDERS,
            _ => continue,
        };
        map.pin(at.join(pinned)).map_err(environment("pin a map"))?;
    }
    for program in object.progs_mut().filter(|program| program.name() == FLOWS) {
        let mut link = program.attach().map_err(refused)?;
        link.pin(at.join(PINNED_FLOWS)).map_err(environment("pin the list of connections"))?;
    }
    for mut operations in object.maps_mut().filter(|map| map.name() == OPERATIONS) {
        let mut link = operations.attach_struct_ops().map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => KernelError::AlreadyLoaded { name: name.to_owned() },
            _ => refused(error),
        })?;
        link.pin(at.join(LINK)).map_err(environment("pin the congestion control"))?;
    }
    Ok(())
}

/// Removes the pinned names, as far as they exist.
fn unpin(at: &FilePath) {
    for name in [LINK, PINNED_FLOWS, MACROFLOWS, PINNED_ORDERS] {
        let _ = fs::remove_file(at.join(name));
    }
    let _ = fs::remove_dir(at);
}

/// Mounts the BPF file system if it is not mounted.
fn have_bpf_fs() -> Result<(), KernelError> {
    let magic = |found: rustix::fs::StatFs| found.f_type as u64 == 0xcafe_4a11;
    if rustix::fs::statfs(BPF_FS).is_ok_and(magic) {
        return Ok(());
    }
    rustix::mount::mount("bpf", BPF_FS, "bpf", rustix::mount::MountFlags::empty(), None)
        .map_err(|error| KernelError::system("mount the BPF file system")(io::Error::from(error)))
}

/// Returns the current time on the clock that the program uses.
fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Converts a libbpf error of loading or attaching: missing rights, or an unsupported kernel.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn refused(error: libbpf_rs::Error) -> KernelError {
    // The verifier returns EACCES, too; a process that may load programs gets no EPERM.
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
            KernelError::NoRights { what: "load a program into the kernel" }
        }
        _ => KernelError::Unsupported { why: error.to_string() },
    }
}

/// Returns a function that converts an error of an operation on the running program.
fn environment(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> KernelError {
    move |error| KernelError::system(what)(io::Error::other(error.to_string()))
}

/// Converts an error of opening a pinned object.
fn missing(at: &FilePath, error: &libbpf_rs::Error) -> KernelError {
    match error.kind() {
        libbpf_rs::ErrorKind::NotFound => KernelError::NotLoaded { at: at.to_owned() },
        libbpf_rs::ErrorKind::PermissionDenied => KernelError::NoRights { what: "open what is pinned" },
        _ => KernelError::system("open what is pinned")(io::Error::other(error.to_string())),
    }
}
