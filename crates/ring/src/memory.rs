//! Shared memory of atomic words: anonymous within a process, a sealed memfd between two.
//!
//! All accesses are atomic, because another process may write any word at any time. The exceptions are
//! [`Memory::bytes_mut`] and `Memory::bytes`, for packet buffers that the producer has not handed over or that do not
//! change.

#[cfg(not(loom))]
pub use mapped::Memory;
#[cfg(loom)]
pub use modelled::Memory;

#[cfg(not(loom))]
mod mapped {
    use std::alloc::{Layout, handle_alloc_error};
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::ptr::{NonNull, null_mut};
    use std::sync::Arc;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

    use crate::page::PAGE;
    use crate::sync::AtomicU64;

    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

    /// Page-aligned memory of atomic words, which another process may write at any time. A clone is the same memory.
    #[derive(Clone, Debug)]
    pub struct Memory {
        base: NonNull<u8>,
        words: usize,
        mapping: Arc<Mapping>,
    }

    /// Mapping that ends with its last user.
    #[derive(Debug)]
    struct Mapping {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: the address is only used to unmap the memory.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    // SAFETY: this value keeps the memory mapped, and shared access to it is atomic (`bytes_mut` has its own rule).
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Maps zeroed memory of this process: pages that are not written take no memory. Panics for a size of zero.
        #[must_use]
        pub fn anonymous(words: usize) -> Self {
            assert!(words > 0, "memory has at least a word");
            let bytes = words * 8;
            // SAFETY: a new mapping at an address that the kernel chooses.
            let base =
                unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
            let Some(base) = base.ok().and_then(NonNull::new) else {
                let layout = Layout::from_size_align(bytes, PAGE);
                handle_alloc_error(layout.expect("a checked geometry is far below the address space"))
            };
            // A huge page would take the memory of many small ones at the first write. A kernel without huge pages
            // refuses this.
            // SAFETY: the mapping was made above, and this advice changes no contents.
            let _ = unsafe { madvise(base.as_ptr(), bytes, Advice::LinuxNoHugepage) };
            Self::of(base.cast(), words)
        }

        /// Creates a sealed memfd, named for display: its size cannot change any more, so that no access can trap.
        ///
        /// # Errors
        /// The system has no memory.
        pub fn shared(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
            let fd = Self::sealed(name, words)?;
            Ok((Self::map(&fd, words)?, fd))
        }

        /// Creates a sealed memfd like [`shared`](Self::shared), but maps it for reading only: a write through this
        /// memory traps.
        pub(crate) fn shared_to_read(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
            let fd = Self::sealed(name, words)?;
            Ok((Self::map_as(&fd, words, ProtFlags::READ)?, fd))
        }

        fn sealed(name: &str, words: usize) -> io::Result<OwnedFd> {
            let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&fd, words as u64 * 8)?;
            fcntl_add_seals(&fd, SEALS)?;
            Ok(fd)
        }

        /// Maps a file made by another process; `None` if it is not sealed or has another size.
        ///
        /// # Errors
        /// The system refuses the mapping.
        pub fn open(fd: impl AsFd, words: usize) -> io::Result<Option<Self>> {
            if Self::sealed_size(&fd)? != Some(words as u64 * 8) {
                return Ok(None);
            }
            Self::map(fd, words).map(Some)
        }

        /// Size in bytes of a file made by another process; `None` if it is not sealed.
        pub(crate) fn sealed_size(fd: impl AsFd) -> io::Result<Option<u64>> {
            // Files other than a memfd have no seals, and the kernel returns EINVAL.
            if !fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SEALS)) {
                return Ok(None);
            }
            let size = fstat(&fd)?.st_size;
            Ok(Some(u64::try_from(size).unwrap_or(0)))
        }

        /// Maps the first `words` words of a sealed file that has at least as many.
        pub(crate) fn map(fd: impl AsFd, words: usize) -> io::Result<Self> {
            Self::map_as(fd, words, ProtFlags::READ | ProtFlags::WRITE)
        }

        fn map_as(fd: impl AsFd, words: usize, access: ProtFlags) -> io::Result<Self> {
            // SAFETY: a new mapping at an address that the kernel chooses.
            let base = unsafe { mmap(null_mut(), words * 8, access, MapFlags::SHARED, fd, 0)? };
            let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self::of(base, words))
        }

        /// Whether another value refers to the same mapping.
        pub(crate) fn is_shared(&self) -> bool {
            Arc::strong_count(&self.mapping) > 1
        }

        /// Takes over a mapping.
        fn of(base: NonNull<u8>, words: usize) -> Self {
            Self { base, words, mapping: Arc::new(Mapping { base, bytes: words * 8 }) }
        }

        /// Returns one word. Panics beyond the end, which a validated geometry does not reach.
        #[must_use]
        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words(at, 1)[0]
        }

        /// Returns consecutive words. Panics beyond the end, which a validated geometry does not reach.
        #[must_use]
        pub fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
            assert!(at <= self.words && count <= self.words - at, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion, aligned because the base is page-aligned, alive as long as
            // `self`. Atomics may be written by anyone at any time; any bits are a valid AtomicU64.
            unsafe { std::slice::from_raw_parts(self.base.cast::<AtomicU64>().as_ptr().add(at), count) }
        }

        /// Address of `len` bytes starting at byte `at`. Panics beyond the end, which a validated location does not reach.
        pub(crate) fn address(&self, at: usize, len: usize) -> *const u8 {
            let bytes = self.words * 8;
            assert!(at <= bytes && len <= bytes - at, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion, or just behind it.
            unsafe { self.base.as_ptr().add(at) }
        }

        /// Prefetches the cache line of word `at` for reading.
        pub(crate) fn will_read(&self, at: usize) {
            #[cfg(target_arch = "x86_64")]
            if at < self.words {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: a prefetch reads nothing, and the address is within the memory.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.cast::<u64>().as_ptr().add(at).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }

        /// Prefetches the cache line of word `at` for writing.
        pub(crate) fn will_write(&self, at: usize) {
            #[cfg(target_arch = "x86_64")]
            if at < self.words {
                use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
                // SAFETY: a prefetch changes nothing, and the address is within the memory.
                unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.base.cast::<u64>().as_ptr().add(at).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }

        /// Mutable bytes starting at word `at`, to be filled in place.
        ///
        /// # Safety
        /// While the slice exists, no other code of this process may access these bytes, and the other process may at
        /// most read them.
        #[allow(clippy::mut_from_ref, reason = "exclusiveness is the caller's promise")]
        pub(crate) unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
            assert!(at <= self.words && len <= (self.words - at) * 8, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion; exclusive by the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at * 8), len) }
        }

        /// Bytes starting at word `at`, to be read in place.
        ///
        /// # Safety
        /// While the slice exists, nothing may write these bytes.
        pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
            assert!(at <= self.words && len <= (self.words - at) * 8, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion; unchanged by the caller's promise.
            unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at * 8), len) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped above with this size, and no borrows are left. A failure would leave the mapping in place,
            // which is harmless.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(loom)]
mod modelled {
    use std::sync::Arc;

    use crate::sync::AtomicU64;

    /// Words observed by the model checker. A clone is the same memory.
    #[derive(Clone, Debug)]
    pub struct Memory {
        words: Arc<[AtomicU64]>,
    }

    impl Memory {
        /// Allocates zeroed memory.
        #[must_use]
        pub fn anonymous(words: usize) -> Self {
            Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
        }

        /// Returns one word.
        #[must_use]
        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words[at]
        }

        /// Returns consecutive words.
        #[must_use]
        pub fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
            &self.words[at..at + count]
        }

        pub(crate) fn will_read(&self, _: usize) {}

        pub(crate) fn will_write(&self, _: usize) {}
    }
}
