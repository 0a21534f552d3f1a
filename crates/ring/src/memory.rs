//! Memory of atomic words: on the heap for one process, a sealed memfd for two.
//!
//! Everything in it is reached as atomic words, because another process may write any of it at any time. The one
//! exception is [`Memory::bytes_mut`], for a packet buffer that the producer has not handed over.

#[cfg(not(loom))]
pub use mapped::Memory;
#[cfg(loom)]
pub use modelled::Memory;

#[cfg(not(loom))]
mod mapped {
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::ptr::{NonNull, null_mut};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use crate::page::PAGE;
    use crate::sync::AtomicU64;

    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

    /// A page-aligned piece of memory that is made of atomic words, which another process may write at any time.
    #[derive(Debug)]
    pub struct Memory {
        base: NonNull<u8>,
        words: usize,
        mapped: bool,
    }

    // SAFETY: the memory is owned by this value, and shared access to it is by atomics (`bytes_mut` has its own rule).
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    impl Memory {
        /// Zeroed memory of this process. Panics if it is to have no word.
        #[must_use]
        pub fn heap(words: usize) -> Self {
            assert!(words > 0, "memory has at least a word");
            let layout = heap_layout(words);
            // SAFETY: the size is not zero by the assertion.
            let base = unsafe { alloc_zeroed(layout) };
            let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
            Self { base, words, mapped: false }
        }

        /// A sealed memfd, by a name for people: its size cannot change any more, so that no access beyond its end can
        /// ever trap.
        ///
        /// # Errors
        /// No memory from the system.
        pub fn shared(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
            let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            ftruncate(&fd, words as u64 * 8)?;
            fcntl_add_seals(&fd, SEALS)?;
            Ok((Self::map(&fd, words)?, fd))
        }

        /// Maps a file that another process made, or `None` if it is not sealed or not of this size.
        ///
        /// # Errors
        /// The system did not map it.
        pub fn open(fd: impl AsFd, words: usize) -> io::Result<Option<Self>> {
            if Self::sealed_size(&fd)? != Some(words as u64 * 8) {
                return Ok(None);
            }
            Self::map(fd, words).map(Some)
        }

        /// The size in bytes of a file that another process made, or `None` if it is not sealed.
        pub(crate) fn sealed_size(fd: impl AsFd) -> io::Result<Option<u64>> {
            // Anything but a memfd has no seals, and the kernel says EINVAL.
            if !fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SEALS)) {
                return Ok(None);
            }
            let size = fstat(&fd)?.st_size;
            Ok(Some(u64::try_from(size).unwrap_or(0)))
        }

        /// Maps the first `words` words of a sealed file that has at least as many.
        pub(crate) fn map(fd: impl AsFd, words: usize) -> io::Result<Self> {
            // SAFETY: a new mapping at an address that the kernel chooses.
            let base =
                unsafe { mmap(null_mut(), words * 8, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd, 0)? };
            let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { base, words, mapped: true })
        }

        /// One word. Panics beyond the end, which a checked geometry does not reach.
        #[must_use]
        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words(at, 1)[0]
        }

        /// Consecutive words. Panics beyond the end, which a checked geometry does not reach.
        #[must_use]
        pub fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
            assert!(at <= self.words && count <= self.words - at, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion, aligned because the base is page-aligned, alive as long as
            // `self`. Atomics may be written by anyone at any time; any bits are a valid AtomicU64.
            unsafe { std::slice::from_raw_parts(self.base.cast::<AtomicU64>().as_ptr().add(at), count) }
        }

        /// Where `len` bytes from byte `at` on lie. Panics beyond the end, which a checked place does not reach.
        pub(crate) fn address(&self, at: usize, len: usize) -> *const u8 {
            let bytes = self.words * 8;
            assert!(at <= bytes && len <= bytes - at, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion, or just behind it.
            unsafe { self.base.as_ptr().add(at) }
        }

        /// Word `at`, and what shares its cache line, will be read soon.
        pub(crate) fn will_read(&self, at: usize) {
            #[cfg(target_arch = "x86_64")]
            if at < self.words {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                // SAFETY: a hint reads nothing, and the address is within the memory.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.base.cast::<u64>().as_ptr().add(at).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }

        /// Word `at`, and what shares its cache line, will be written soon.
        pub(crate) fn will_write(&self, at: usize) {
            #[cfg(target_arch = "x86_64")]
            if at < self.words {
                use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
                // SAFETY: a hint changes nothing, and the address is within the memory.
                unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.base.cast::<u64>().as_ptr().add(at).cast()) };
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }

        /// Bytes from word `at` on, to be filled in place.
        ///
        /// # Safety
        /// Until the slice is gone, nobody in this process reads or writes these bytes in another way, and the process
        /// at the other end only reads them, if at all.
        #[allow(clippy::mut_from_ref, reason = "exclusiveness is the caller's promise")]
        pub(crate) unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
            assert!(at <= self.words && len <= (self.words - at) * 8, "the layout stays within its memory");
            // SAFETY: within the memory by the assertion; exclusive by the caller's promise.
            unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at * 8), len) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            if self.mapped {
                // SAFETY: mapped by `map` with this size, and nothing borrows from it any more. A failure would leave
                // the mapping in place, which harms nobody.
                let _ = unsafe { munmap(self.base.as_ptr().cast(), self.words * 8) };
            } else {
                // SAFETY: allocated by `heap` with this layout.
                unsafe { dealloc(self.base.as_ptr(), heap_layout(self.words)) };
            }
        }
    }

    fn heap_layout(words: usize) -> Layout {
        Layout::from_size_align(words * 8, PAGE).expect("a checked geometry is far below the address space")
    }
}

#[cfg(loom)]
mod modelled {
    use crate::sync::AtomicU64;

    /// Words that the model checker watches.
    #[derive(Debug)]
    pub struct Memory {
        words: Vec<AtomicU64>,
    }

    impl Memory {
        /// Zeroed memory.
        #[must_use]
        pub fn heap(words: usize) -> Self {
            Self { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
        }

        /// One word.
        #[must_use]
        pub fn word(&self, at: usize) -> &AtomicU64 {
            &self.words[at]
        }

        /// Consecutive words.
        #[must_use]
        pub fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
            &self.words[at..at + count]
        }

        pub(crate) fn will_read(&self, _: usize) {}

        pub(crate) fn will_write(&self, _: usize) {}
    }
}
