//! The table of mapped files, for a signal handler: which file is at an address that cannot be read.
//!
//! A handler may neither take locks nor allocate, so that the table has a fixed number of places in atomic numbers. A
//! file that finds no place in it is mapped all the same.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The number of files that are told of: an index has fewer than ten beside its inverted index, and two versions of
/// it are mapped while one takes the place of the other.
const PLACES: usize = 256;

/// A place in the table.
struct Place {
    /// The first address; 0 for a free place, 1 for one that is being filled.
    start: AtomicUsize,
    end: AtomicUsize,
    path: AtomicPtr<u8>,
    path_len: AtomicUsize,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

static TABLE: [Place; PLACES] = [const { Place::new() }; PLACES];

impl Place {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(FREE),
            end: AtomicUsize::new(0),
            path: AtomicPtr::new(std::ptr::null_mut()),
            path_len: AtomicUsize::new(0),
        }
    }
}

/// A mapped file in the table, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    place: usize,
    /// The path's bytes, which the table points to.
    _path: Arc<[u8]>,
}

impl Registered {
    /// Enters the file at `path`, mapped at `start`; `None` when the table is full.
    pub(crate) fn new(start: usize, len: usize, path: &Path) -> Option<Self> {
        let take = |place: &Place| {
            place.start.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = TABLE.iter().position(take)?;
        let path: Arc<[u8]> = path.as_os_str().as_encoded_bytes().into();
        let entry = &TABLE[place];
        entry.end.store(start + len, Ordering::Relaxed);
        entry.path.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
        entry.path_len.store(path.len(), Ordering::Relaxed);
        entry.start.store(start, Ordering::Release);
        Some(Self { place, _path: path })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        TABLE[self.place].start.store(FREE, Ordering::Release);
    }
}

/// Calls `look` with the bytes of the path of the file that is mapped at `address`, if one is known to be. It neither
/// locks nor allocates, so that a signal handler may call it.
///
/// # Safety
/// The file that is mapped at `address` must stay mapped meanwhile, as it does while a thread stands still in a read of
/// this address.
pub unsafe fn path_at<T>(address: usize, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let is_here = |place: &&Place| {
        let start = place.start.load(Ordering::Acquire);
        start > TAKEN && (start..place.end.load(Ordering::Relaxed)).contains(&address)
    };
    let place = TABLE.iter().find(is_here)?;
    // SAFETY: the place was filled before its start was stored, and is freed before its path is. The caller vouches
    // that the file at the address stays mapped, and with it in the table.
    let path = unsafe {
        std::slice::from_raw_parts(place.path.load(Ordering::Relaxed), place.path_len.load(Ordering::Relaxed))
    };
    Some(look(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_its_addresses_until_it_is_let_go() {
        // Addresses that no system maps.
        let (a, b) = (usize::MAX - 100_000, usize::MAX - 50_000);
        let name = |address: usize| {
            // SAFETY: what is entered at these addresses stays for as long as it is looked up.
            unsafe { path_at(address, |path| String::from_utf8(path.to_vec()).unwrap()) }
        };
        let first = Registered::new(a, 5000, Path::new("dir/a")).unwrap();
        let second = Registered::new(b, 1, Path::new("dir/b")).unwrap();
        for (address, expected) in [
            (a - 1, None),
            (a, Some("dir/a")),
            (a + 4999, Some("dir/a")),
            (a + 5000, None),
            (b, Some("dir/b")),
            (b + 1, None),
        ] {
            assert_eq!(name(address).as_deref(), expected, "{address:x}");
        }
        drop(first);
        assert_eq!((name(a), name(b).as_deref()), (None, Some("dir/b")));
        drop(second);
        assert_eq!(name(b), None);
    }
}
