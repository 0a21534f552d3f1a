//! The daemon's part in the kernel's macroflows: the daemon's flows share a macroflow's window with the kernel's
//! connections.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path as FilePath, PathBuf};

use libbpf_rs::{MapCore, MapHandle, MapInfo, Object, ProgramInput};
use timeous_cm::{Companions, Destination, Manager};
use timeous_core::Instant;

use crate::error::KernelError;
use crate::program::{self, MACROFLOWS, TELL};
use crate::view::Path;
use crate::words::{FLOW_REPORT_LEN, FlowReport};

/// Reports a manager's flows to the kernel, and the window that the kernel leaves to them to the manager.
///
/// Only macroflows without a user take part: reports of users about their own flows must not change the windows of
/// others.
#[derive(Debug)]
pub struct Companion {
    at: PathBuf,
    object: Object,
    shared: BTreeSet<Destination>,
}

impl Companion {
    /// Opens the kernel's macroflows, pinned at `at`, for flows of this network namespace.
    ///
    /// # Errors
    /// [`KernelError::NotLoaded`] if the program is not loaded; [`KernelError::NoRights`] without root's rights.
    pub fn open(at: &FilePath) -> Result<Self, KernelError> {
        // Tells a program that is not loaded apart from a kernel without support.
        program::Installed::open(at)?;
        let mut object = program::open_object()?;
        for mut program in object.progs_mut() {
            let wanted = program.name() == TELL;
            program.set_autoload(wanted);
        }
        for mut map in object.maps_mut() {
            if map.name() == MACROFLOWS {
                map.reuse_pinned_map(at.join(MACROFLOWS)).map_err(program::refused)?;
            } else {
                map.set_autocreate(false).map_err(program::refused)?;
            }
        }
        Ok(Self { at: at.to_owned(), object: object.load().map_err(program::refused)?, shared: BTreeSet::new() })
    }

    /// Returns whether the kernel has connections to a destination of the manager's flows, as of the last exchange:
    /// then it should be repeated every 10 ms, else a few times a second.
    pub fn is_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Reports the manager's flows to the kernel, and the window that is left for them to the manager.
    ///
    /// # Errors
    /// [`KernelError::System`] if the kernel's program fails; [`KernelError::NotLoaded`] if it was removed or replaced
    /// (open a new companion then). The manager continues by itself.
    pub fn exchange(&mut self, now: Instant, manager: &mut Manager) -> Result<(), KernelError> {
        if !self.is_shared() && !self.is_theirs() {
            return Err(KernelError::NotLoaded { at: self.at.clone() });
        }
        // The kernel's macroflows know neither users nor source addresses.
        let shared = |destination: &Destination| destination.user.is_none() && destination.source.is_none();
        let destinations: Vec<_> = manager.destinations().filter(shared).collect();
        let gone = self.shared.iter().filter(|destination| !destinations.contains(destination));
        let mut still = BTreeSet::new();
        for destination in gone.copied().collect::<Vec<_>>() {
            manager.companions(now, destination, None);
        }
        let mut done = Ok(());
        for destination in destinations {
            let Some(ensemble) = manager.ensemble(now, destination) else { continue };
            let told = FlowReport {
                flows: u64::from(ensemble.flows),
                hungry: u64::from(ensemble.waiting),
                outstanding: ensemble.outstanding,
                acked: ensemble.acked,
                congestions: ensemble.congestions,
            };
            let window = self.tell(&destination, &told).unwrap_or_else(|error| {
                done = Err(error);
                None
            });
            if window.is_some() || self.shared.contains(&destination) {
                manager.companions(now, destination, window.map(|window| Companions { window }));
            }
            if window.is_some() {
                still.insert(destination);
            }
        }
        self.shared = still;
        done
    }

    /// Returns whether the pinned map of macroflows is still the one that was opened.
    fn is_theirs(&self) -> bool {
        let id = |map: &dyn AsFd| MapInfo::new(map.as_fd()).map(|map| map.info.id).ok();
        let ours = self.object.maps().find(|map| map.name() == MACROFLOWS).and_then(|map| id(&map));
        let pinned = MapHandle::from_pinned_path(self.at.join(MACROFLOWS)).ok().and_then(|map| id(&map));
        ours.is_some() && ours == pinned
    }

    fn tell(&self, destination: &Destination, told: &FlowReport) -> Result<Option<u64>, KernelError> {
        // Namespace 0: the program uses its caller's.
        let path = Path { namespace: 0, addr: destination.addr, dscp: destination.dscp };
        let mut record: [u8; FLOW_REPORT_LEN] = told.record(&path);
        let program = self.object.progs_mut().find(|program| program.name() == TELL).expect("the object has it");
        let input = ProgramInput { context_in: Some(&mut record), ..ProgramInput::default() };
        program.test_run(input).map_err(|error| KernelError::System {
            what: "tell the kernel of our flows",
            source: io::Error::other(error.to_string()),
        })?;
        Ok(FlowReport::answer(&record))
    }
}
