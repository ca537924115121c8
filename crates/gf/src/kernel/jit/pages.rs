//! Memory for machine code: written first, then made executable, never both.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, sync::OnceLock};

/// Bytes of code that this process keeps at most.
pub(in super::super) const LIMIT: usize = 64 << 20;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of code in use.
#[cfg(all(test, target_arch = "x86_64"))]
pub(in super::super) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// Whole pages that hold code, readable and executable, until dropped.
pub(in super::super) struct Pages {
    mapping: *mut libc::c_void,
    len: usize,
}

// SAFETY: after `new` nothing writes to the pages, and unmapping them is possible anywhere.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Pages with this code; `None` where the system gives none or the limit is reached.
    pub(in super::super) fn new(code: &[u8]) -> Option<Pages> {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let len = code.len().max(1).checked_next_multiple_of(page.max(1))?;
        if IN_USE.fetch_add(len, Ordering::Relaxed) + len > LIMIT {
            IN_USE.fetch_sub(len, Ordering::Relaxed);
            return None;
        }
        let (writable, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new mapping, placed by the system.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), len, writable, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            IN_USE.fetch_sub(len, Ordering::Relaxed);
            return None;
        }
        // From here on dropping gives the mapping back.
        let pages = Pages { mapping, len };
        // SAFETY: the mapping is our own, writable and at least as long as the code.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), mapping.cast(), code.len()) };
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the mapping is our own.
        unsafe {
            make_visible(mapping.cast(), code.len());
        };
        // SAFETY: our own mapping, to which no reference exists.
        let status = unsafe { libc::mprotect(mapping, len, libc::PROT_READ | libc::PROT_EXEC) };
        (status == 0).then_some(pages)
    }

    /// The address of the code's byte `offset`.
    pub(in super::super) fn address(&self, offset: usize) -> *const u8 {
        assert!(offset < self.len);
        self.mapping.cast::<u8>().cast_const().wrapping_add(offset)
    }
}

/// Makes what was just written visible to the fetching of instructions: caches of instructions are
/// not kept like those of data there.
///
/// # Safety
/// The bytes are readable.
#[cfg(target_arch = "aarch64")]
unsafe fn make_visible(start: *const u8, len: usize) {
    use std::arch::asm;
    let lengths: usize;
    // SAFETY: reads how long lines of caches are, which the system lets every program do.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) lengths, options(nomem, nostack)) };
    let lines = |length: usize| {
        let line = 4 << (length & 15);
        let first = start.addr() / line * line;
        (first..start.addr() + len).step_by(line).map(move |at| start.with_addr(at))
    };
    // SAFETY: what is written back or forgotten of a cache is what memory has, or will have.
    unsafe {
        lines(lengths >> 16).for_each(|at| asm!("dc cvau, {}", in(reg) at, options(nostack)));
        asm!("dsb ish", options(nostack));
        lines(lengths).for_each(|at| asm!("ic ivau, {}", in(reg) at, options(nostack)));
        asm!("dsb ish", "isb", options(nostack));
    }
}

/// Returns whether the system lets memory be executed; asked once.
pub(in super::super) fn are_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| Pages::new(&[0xc3; 4]).is_some())
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: our own mapping; each run of its code borrows `self`.
        unsafe { libc::munmap(self.mapping, self.len) };
        IN_USE.fetch_sub(self.len, Ordering::Relaxed);
    }
}
