//! The end of a process whose mapped file is cut off or whose disk fails: a message and an exit code of its own.
//!
//! An index is searched in mapped files. Where a page of one is not there any more, the system sends SIGBUS to the
//! thread that reads it, which has no value to go on with. A signal handler may do very little: it looks the file up
//! in a table that needs neither a lock nor memory, writes a line, and ends the process.
#![allow(unsafe_code)]

use dpr_files::faults::path_at;

/// `EX_IOERR` of `sysexits.h`: an error while a file was read.
const EXIT: libc::c_int = 74;

/// Handles SIGBUS from now on. Where the system does not let that be done, the process ends by the signal.
pub(crate) fn install() {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    // SAFETY: the structure is plain numbers, for which zeros are valid, and its handler has the type that
    // `SA_SIGINFO` asks for. The handler calls nothing that a signal handler may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    write(b"error: ");
    // SAFETY: the system hands a handler with `SA_SIGINFO` a valid structure. The file at the address stays mapped,
    // since this thread stands in a read of it.
    let is_known = unsafe { path_at((*info).si_addr() as usize, write).is_some() };
    if !is_known {
        write(b"a mapped file");
    }
    write(
        b" was cut off or changed in place while it was in use, or its disk cannot be read: the process ends. Check the \
          index with `dpr index verify` and start again\n",
    );
    // SAFETY: it ends the process at once, and runs nothing of it.
    unsafe { libc::_exit(EXIT) }
}

/// Writes to standard error without a lock or a buffer.
fn write(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are of a slice that is borrowed meanwhile.
        let written = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written @ 1..) => bytes = &bytes[written.min(bytes.len())..],
            _ => return,
        }
    }
}
