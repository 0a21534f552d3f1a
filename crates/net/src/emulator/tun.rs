//! A TUN device: reads and writes raw IP packets. The only module with unsafe code: two `ioctl` calls.

use std::ffi::{CStr, c_char, c_int, c_short};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

use super::error::EmulatorError;
use super::interface::Ipv4Interface;
use super::namespace::{Namespace, ip};

const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<c_int>(b'T', 202);
const IFF_TUN: c_short = 0x0001;
const IFF_NO_PI: c_short = 0x1000;
/// The kernel replaces `%d` by a number.
const NAME_TEMPLATE: &[u8] = b"timeous%d";

/// `struct ifreq`, as far as `TUNSETIFF` uses it.
#[repr(C)]
struct InterfaceRequest {
    name: [c_char; 16],
    flags: c_short,
    unused: [u8; 22],
}

/// An open TUN device, removed when dropped. Packets that the kernel routes to the device are read here; packets
/// written here are received by the kernel.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
    name: String,
}

impl Tun {
    /// Creates the device `name` in a namespace, brings it up, and gives it an address. Needs root, or CAP_NET_ADMIN
    /// and CAP_SYS_ADMIN, and the `ip` tool.
    pub fn open_in(namespace: &Namespace, name: &str, address: Ipv4Interface, mtu: u16) -> Result<Self, EmulatorError> {
        let tun = Self::open()?;
        ip(&["link", "set", "dev", &tun.name, "netns", namespace.name(), "name", name])?;
        let (address, mtu) = (address.to_string(), mtu.to_string());
        namespace.ip(&["address", "add", &address, "dev", name])?;
        // No IPv6 address: neighbour discovery would add noise to the link.
        namespace.ip(&["link", "set", "dev", name, "addrgenmode", "none"])?;
        namespace.ip(&["link", "set", "dev", name, "mtu", &mtu, "up"])?;
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        Ok(Self { name: name.to_owned(), ..tun })
    }

    /// Creates a device in the current network namespace. It stays open when moved to another one.
    fn open() -> Result<Self, EmulatorError> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open("/dev/net/tun", flags, Mode::empty()).map_err(EmulatorError::system("open /dev/net/tun"))?;
        let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, unused: [0; 22] };
        for (to, from) in request.name.iter_mut().zip(NAME_TEMPLATE) {
            *to = *from as c_char;
        }
        // SAFETY: TUNSETIFF takes a pointer to a `struct ifreq` of 40 bytes, reads its name and flags, and writes its
        // name back; `InterfaceRequest` has that layout and size.
        let update = unsafe { Updater::<TUNSETIFF, InterfaceRequest>::new(&mut request) };
        // SAFETY: `fd` is a descriptor of /dev/net/tun, for which this opcode means TUNSETIFF.
        unsafe { ioctl(&fd, update) }.map_err(EmulatorError::system("make a TUN device"))?;
        let name: Vec<u8> = request.name.iter().map(|byte| *byte as u8).chain([0]).collect();
        let name = CStr::from_bytes_until_nul(&name).expect("a zero was appended");
        Ok(Self { fd, name: name.to_string_lossy().into_owned() })
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one IP packet; `None` if there is none.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, EmulatorError> {
        match rustix::io::read(&self.fd, &mut *buffer) {
            Ok(len) => Ok(Some(&buffer[..len])),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(EmulatorError::system("read from a TUN device")(errno)),
        }
    }

    /// Writes one IP packet; returns whether the kernel accepted it.
    pub fn write(&self, packet: &[u8]) -> bool {
        rustix::io::write(&self.fd, packet).is_ok()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40, "the size of struct ifreq on 64-bit Linux");
