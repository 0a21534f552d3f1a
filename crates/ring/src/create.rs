//! Creation of rings, and opening of rings that another process made.

#[cfg(not(loom))]
use std::os::fd::{AsFd, OwnedFd};
#[cfg(not(loom))]
use std::sync::Arc;

use crate::attached::Attachments;
use crate::consumer::Consumer;
use crate::error::ConfigError;
use crate::layout::{Config, Geometry, Shared};
use crate::memory::Memory;
use crate::producer::Producer;

/// Creates a ring within this process. Its two sides may be used by different threads.
///
/// # Errors
/// The configuration is invalid.
pub fn create(config: &Config) -> Result<(Producer, Consumer), ConfigError> {
    create_at(config, 0)
}

/// Like [`create`], starting at another position.
pub(crate) fn create_at(config: &Config, origin: u64) -> Result<(Producer, Consumer), ConfigError> {
    let geometry = Geometry::new(config)?;
    let shared = Shared::format(Memory::anonymous(geometry.words()), geometry, origin, Some(Attachments::new()));
    shared.take_producer();
    shared.take_consumer();
    Ok((Producer::new(shared.clone(), origin), Consumer::new(shared, origin)))
}

#[cfg(not(loom))]
pub use between_processes::{create_shared, create_shared_for_producer};

#[cfg(not(loom))]
mod between_processes {
    use super::*;
    use crate::error::{CreateError, OpenError};
    use crate::layout::{HEADER, Limits, MAGIC};
    use crate::sync::Ordering;

    /// Maximum start position, in packets. Chosen by us: it keeps all positions far below overflow.
    const LAST_ORIGIN: u64 = 1 << 62;

    /// Creates a ring in a sealed memfd, to be passed to the process of the transport.
    ///
    /// # Errors
    /// The configuration is invalid, or the system has no memory.
    pub fn create_shared(config: &Config) -> Result<(Producer, OwnedFd), CreateError> {
        let (shared, fd) = make(config, None)?;
        shared.take_producer();
        Ok((Producer::new(shared, 0), fd))
    }

    /// Creates a ring in a sealed memfd, to be passed to the process of the application.
    ///
    /// # Errors
    /// The configuration is invalid, or the system has no memory.
    pub fn create_shared_for_producer(config: &Config) -> Result<(Consumer, OwnedFd), CreateError> {
        let (shared, fd) = make(config, Some(Attachments::new()))?;
        shared.take_consumer();
        Ok((Consumer::new(shared, 0), fd))
    }

    fn make(config: &Config, attachments: Option<Attachments>) -> Result<(Arc<Shared>, OwnedFd), CreateError> {
        let geometry = Geometry::between_processes(config)?;
        let (memory, fd) = Memory::shared("timeous-ring", geometry.words())?;
        Ok((Shared::format(memory, geometry, 0, attachments), fd))
    }

    impl Consumer {
        /// Opens a ring that an application made with [`create_shared`]. The file is validated first; whatever the
        /// application does to it afterwards is safe.
        ///
        /// # Errors
        /// See [`OpenError`].
        pub fn open(fd: impl AsFd, limits: &Limits) -> Result<Self, OpenError> {
            let shared = open(fd, limits, Some(Attachments::new()))?;
            let origin = shared.dev_i().load(Ordering::Acquire);
            let kern = shared.packed().load(Ordering::Acquire) as u32;
            if origin > LAST_ORIGIN || kern != origin as u32 {
                return Err(OpenError::NotFresh);
            }
            if !shared.take_consumer() {
                return Err(OpenError::Taken);
            }
            Ok(Self::new(shared, origin))
        }
    }

    impl Producer {
        /// Opens a ring that a transport made with [`create_shared_for_producer`].
        ///
        /// # Errors
        /// See [`OpenError`].
        pub fn open(fd: impl AsFd, limits: &Limits) -> Result<Self, OpenError> {
            let shared = open(fd, limits, None)?;
            let origin = shared.user_i().load(Ordering::Acquire);
            let packed = shared.packed().load(Ordering::Acquire);
            let fresh = crate::index::Packed::new(origin, origin).bits();
            if origin > LAST_ORIGIN || packed != fresh || shared.dev_i().load(Ordering::Acquire) != origin {
                return Err(OpenError::NotFresh);
            }
            if !shared.take_producer() {
                return Err(OpenError::Taken);
            }
            Ok(Self::new(shared, origin))
        }
    }

    fn open(fd: impl AsFd, limits: &Limits, attachments: Option<Attachments>) -> Result<Arc<Shared>, OpenError> {
        let found = Memory::sealed_size(&fd)?.ok_or(OpenError::NotSealed)?;
        if found < HEADER as u64 * 8 {
            return Err(OpenError::Size { expected: HEADER as u64 * 8, found });
        }
        // Read once, through a separate mapping that ends before the ring is mapped.
        let header = Memory::map(&fd, HEADER)?;
        let word = |at: usize| header.word(at).load(Ordering::Acquire);
        let magic = word(0);
        if magic != MAGIC {
            return Err(OpenError::Header(magic));
        }
        let small = |word: u64| u32::try_from(word).unwrap_or(u32::MAX);
        let config = Config {
            slots: small(word(1)),
            buffer_size: small(word(2)),
            buffers: small(word(3)),
            completions: small(word(4)),
        };
        let geometry = Geometry::between_processes(&config)?;
        let expected = geometry.words() as u64 * 8;
        if found != expected {
            return Err(OpenError::Size { expected, found });
        }
        if found > limits.bytes || config.slots > limits.slots {
            return Err(OpenError::OverLimit { bytes: found, slots: config.slots });
        }
        Ok(Arc::new(Shared::new(Memory::map(&fd, geometry.words())?, geometry, attachments)))
    }
}
