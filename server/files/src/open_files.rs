//! The number of files and sockets that a process may have open.
#![allow(unsafe_code)]

use std::io;

/// Raises the number of files and sockets that this process may have open to the most that it may ask for, and
/// returns that number; `None` on systems without such a limit. A server that meets it can open neither its index nor
/// a log.
///
/// # Errors
/// An I/O error when the system does not let it be asked for or raised; the limit is as it was then.
#[cfg(unix)]
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a value of the type that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        // Where the upper limit is "any number", systems refuse to set the lower one to it.
        let most = if limit.rlim_max == libc::RLIM_INFINITY { 10_240 } else { limit.rlim_max };
        limit.rlim_cur = limit.rlim_cur.max(most);
        // SAFETY: the pointer is to a value of the type that the call reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    #[allow(clippy::unnecessary_cast, reason = "the type differs between systems")]
    let now = limit.rlim_cur as u64;
    Ok(Some(now))
}

/// Does nothing on this system.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn raise_open_files() -> io::Result<Option<u64>> {
    Ok(None)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_limit_is_raised_again() {
        let before = raise_open_files().unwrap().unwrap();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointers are to values of the type that the calls fill and read.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            // Enough for the tests beside this one.
            limit.rlim_cur = 200;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
        assert_eq!(raise_open_files().unwrap(), Some(before));
        assert!(before > 200);
    }
}
