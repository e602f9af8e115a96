//! Settings of the memory allocator for training.

/// Tells the allocator to keep freed memory for the next batch.
///
/// A batch allocates and frees gigabytes in pieces of megabytes. glibc gives such pieces back to the system at once
/// and asks for them again, cleared page by page, which took half the time of a step. Elsewhere this does nothing.
/// Call it once, before any thread is started.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    {
        const WHOLE: libc::c_int = 1 << 30;
        // M_ARENA_MAX, which libc does not name: arenas of other threads end at 64 MiB.
        const ARENAS: libc::c_int = -8;
        // SAFETY: mallopt changes settings under the allocator's own lock and takes no pointers; settings that it
        // does not know it refuses.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, WHOLE);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
            libc::mallopt(ARENAS, 1);
        }
    }
}
