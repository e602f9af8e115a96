//! The zip archive that `torch.save` writes since PyTorch 1.6: all entries stored as they are, sizes in 32 or 64 bits.
//!
//! Layout: APPNOTE.TXT of PKWARE, 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end), 4.5.3
//! (zip64). Names are compared and never used as paths.

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use super::error::TorchError;
use super::source::{Source, number};

const LOCAL: u64 = 0x0403_4b50;
const CENTRAL: u64 = 0x0201_4b50;
const END: u64 = 0x0605_4b50;
const END_64: u64 = 0x0606_4b50;
const LOCATOR_64: u64 = 0x0706_4b50;
const LOCAL_BYTES: u64 = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;
const LOCATOR_BYTES: usize = 20;
const END_64_BYTES: u64 = 56;
/// The longest comment of an archive, which the search for its end passes.
const COMMENT: u64 = 0xffff;
/// Most bytes of a central directory: some 100,000 entries.
const MOST_DIRECTORY: u64 = 16 << 20;
const ENCRYPTED: u64 = 1;
/// Sizes and checksum stand behind the bytes, and are zero in the local header.
const SIZES_BEHIND: u64 = 1 << 3;

/// One entry by the central directory.
struct Entry {
    header: u64,
    /// Its bytes in the file.
    bytes: u64,
    crc: u32,
    flags: u64,
    /// The compression method; zero is none.
    method: u64,
}

/// The entries of an archive by name.
pub(super) struct Archive {
    entries: BTreeMap<String, Entry>,
    /// The offset at which the central directory begins, which is behind the last entry.
    end: u64,
}

impl Archive {
    /// Reads the central directory.
    pub(super) fn open<R: Read + Seek>(source: &mut Source<R>) -> Result<Self, TorchError> {
        let (end, bytes, count) = find_directory(source)?;
        if bytes > MOST_DIRECTORY {
            return Err(TorchError::Limit { what: "bytes of directory", limit: MOST_DIRECTORY });
        }
        let outside = || TorchError::archive("its directory lies outside of the file");
        let directory = source.read(end, bytes)?.ok_or_else(outside)?;
        let mut entries = BTreeMap::new();
        let mut rest = directory.as_slice();
        for _ in 0..count {
            let (name, entry, length) =
                central(rest).ok_or_else(|| TorchError::archive("its directory is cut short"))??;
            rest = &rest[length..];
            if entries.contains_key(&name) {
                return Err(TorchError::entry(&name, "two entries have one name"));
            }
            entries.insert(name, entry);
        }
        if !rest.is_empty() {
            return Err(TorchError::archive("its directory has more entries than it says"));
        }
        let archive = Self { entries, end };
        archive.check_places()?;
        Ok(archive)
    }

    /// Entries lie in the file, before the directory, and none of them in another.
    fn check_places(&self) -> Result<(), TorchError> {
        let mut places: Vec<_> = self.entries.iter().collect();
        places.sort_by_key(|(_, entry)| entry.header);
        let next = places.iter().skip(1).map(|(_, entry)| entry.header).chain([self.end]);
        for ((name, entry), next) in places.iter().zip(next) {
            let end = entry.header.checked_add(LOCAL_BYTES).and_then(|end| end.checked_add(entry.bytes));
            if end.is_none_or(|end| end > self.end) {
                return Err(TorchError::entry(name, "it lies outside of the file"));
            }
            if end.is_none_or(|end| end > next) {
                return Err(TorchError::entry(name, "it lies over another entry"));
            }
        }
        Ok(())
    }

    /// Returns the names of all entries.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the size of an entry.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.entries.get(name).map(|entry| entry.bytes)
    }

    /// Returns the bytes of an entry after checking its CRC-32; `None` if the archive has no entry of this name.
    pub(super) fn read<R: Read + Seek>(
        &self,
        source: &mut Source<R>,
        name: &str,
    ) -> Result<Option<Vec<u8>>, TorchError> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let wrong = |reason| TorchError::entry(name, reason);
        let outside = || wrong("it lies outside of the file");
        if entry.flags & ENCRYPTED != 0 {
            return Err(wrong("it is encrypted"));
        }
        if entry.method != 0 {
            return Err(wrong("it is compressed, which torch.save never does"));
        }
        let header = source.read(entry.header, LOCAL_BYTES)?.ok_or_else(outside)?;
        if number::<4>(&header, 0) != Some(LOCAL) {
            return Err(wrong("it has no header"));
        }
        let field = |at| number::<4>(&header, at).unwrap_or_default();
        let sizes = if entry.flags & SIZES_BEHIND != 0 { 0 } else { entry.bytes };
        // The larger ones stand in the header's zip64 field, and are those of the directory in any archive that is
        // whole.
        let agrees = |size: u64| size == sizes || size == entry.bytes || size == u64::from(u32::MAX);
        if !agrees(field(18)) || !agrees(field(22)) {
            return Err(wrong("its header and the directory name two sizes"));
        }
        let lengths = [26, 28].map(|at| number::<2>(&header, at).unwrap_or_default());
        let own = source.read(entry.header + LOCAL_BYTES, lengths[0])?.ok_or_else(outside)?;
        if own != name.as_bytes() {
            return Err(wrong("its header has another name"));
        }
        let start = entry.header + LOCAL_BYTES + lengths[0] + lengths[1];
        if start.checked_add(entry.bytes).is_none_or(|end| end > self.end) {
            return Err(outside());
        }
        let bytes = source.read(start, entry.bytes)?.ok_or_else(outside)?;
        // Zero is what PyTorch writes where it was told to compute none.
        if entry.crc != 0 && crc32fast::hash(&bytes) != entry.crc {
            return Err(wrong("its bytes are not those that were written (CRC-32)"));
        }
        Ok(Some(bytes))
    }
}

/// Returns where the central directory begins, its bytes and its entries.
fn find_directory<R: Read + Seek>(source: &mut Source<R>) -> Result<(u64, u64, u64), TorchError> {
    let cut = || TorchError::archive("it has no end, so it is cut short");
    let len = source.len();
    let start = len.saturating_sub(COMMENT + (END_BYTES + LOCATOR_BYTES) as u64);
    let tail = source.read(start, len - start)?.ok_or_else(cut)?;
    let at = (0..=tail.len().checked_sub(END_BYTES).ok_or_else(cut)?)
        .rev()
        .find(|&at| {
            let comment = number::<2>(&tail, at + 20);
            number::<4>(&tail, at) == Some(END) && comment == Some((tail.len() - at - END_BYTES) as u64)
        })
        .ok_or_else(cut)?;
    let half = |field| number::<2>(&tail, at + field).unwrap_or_default();
    let word = |field| number::<4>(&tail, at + field).unwrap_or_default();
    let mut found = (word(16), word(12), half(10));
    let (mut disks, mut own_count) = (half(4) | half(6), half(8));
    let mut limit = start + at as u64;
    let locator = at.checked_sub(LOCATOR_BYTES).filter(|&at| number::<4>(&tail, at) == Some(LOCATOR_64));
    if let Some(locator) = locator {
        let damaged = || TorchError::archive("its zip64 end is damaged");
        let place = number::<8>(&tail, locator + 8).unwrap_or_default();
        if place > start + locator as u64 {
            return Err(damaged());
        }
        let end = source.read(place, END_64_BYTES)?.ok_or_else(damaged)?;
        if number::<4>(&end, 0) != Some(END_64) {
            return Err(damaged());
        }
        let long = |field| number::<8>(&end, field).unwrap_or_default();
        let long_found = (long(48), long(40), long(32));
        let agree = |small: u64, most: u64, large: u64| small == most || small == large;
        if !agree(found.0, u32::MAX.into(), long_found.0)
            || !agree(found.1, u32::MAX.into(), long_found.1)
            || !agree(found.2, u16::MAX.into(), long_found.2)
        {
            return Err(TorchError::archive("its two ends disagree"));
        }
        (found, own_count, limit) = (long_found, long(24), place);
        disks = number::<4>(&end, 16).unwrap_or_default() | number::<4>(&end, 20).unwrap_or_default();
    }
    if disks != 0 || own_count != found.2 {
        return Err(TorchError::archive("it is a part of several"));
    }
    if found.0.checked_add(found.1).is_none_or(|end| end > limit) {
        return Err(TorchError::archive("its directory lies outside of the file"));
    }
    Ok(found)
}

/// Returns the first entry of a central directory, with its name and the length of its record; `None` where the
/// record is cut short.
fn central(bytes: &[u8]) -> Option<Result<(String, Entry, usize), TorchError>> {
    let record = bytes.get(..CENTRAL_BYTES)?;
    if number::<4>(record, 0)? != CENTRAL {
        return Some(Err(TorchError::archive("its directory is not one")));
    }
    let lengths = [28, 30, 32].map(|at| number::<2>(record, at).unwrap_or_default() as usize);
    let name = bytes.get(CENTRAL_BYTES..)?.get(..lengths[0])?;
    let extra = bytes.get(CENTRAL_BYTES + lengths[0]..)?.get(..lengths[1])?;
    let length = CENTRAL_BYTES + lengths.iter().sum::<usize>();
    bytes.get(..length)?;
    let Ok(name) = std::str::from_utf8(name) else {
        return Some(Err(TorchError::archive("the name of an entry is not UTF-8")));
    };
    let wrong = |reason| Some(Err(TorchError::entry(name, reason)));
    let flags = number::<2>(record, 8)?;
    let mut sizes = [number::<4>(record, 24)?, number::<4>(record, 20)?, number::<4>(record, 42)?];
    if !widen(&mut sizes, extra) {
        return wrong("it has no zip64 field for its size");
    }
    let [bytes, packed, header] = sizes;
    let method = number::<2>(record, 10)?;
    if method == 0 && packed != bytes {
        return wrong("it is stored, and has two sizes");
    }
    let crc = number::<4>(record, 16)? as u32;
    Some(Ok((name.to_owned(), Entry { header, bytes: packed, crc, flags, method }, length)))
}

/// Replaces sizes that do not fit into 32 bits by those of the zip64 field, which holds them in this order.
fn widen(sizes: &mut [u64; 3], mut extra: &[u8]) -> bool {
    let mut large = None;
    while let (Some(kind), Some(length)) = (number::<2>(extra, 0), number::<2>(extra, 2)) {
        let Some(body) = extra[4..].get(..length as usize) else { break };
        if kind == 1 {
            large = Some(body);
        }
        extra = &extra[4 + body.len()..];
    }
    let mut at = 0;
    for size in sizes.iter_mut().filter(|size| **size == u64::from(u32::MAX)) {
        let Some(wide) = large.and_then(|body| number::<8>(body, at)) else { return false };
        *size = wide;
        at += 8;
    }
    true
}
