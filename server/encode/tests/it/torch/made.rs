//! Files put together byte by byte.

/// One tensor of a state_dict, over a storage of f32.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    pub(crate) class: &'static str,
    pub(crate) numbers: u64,
    pub(crate) offset: u64,
    pub(crate) shape: Vec<u64>,
    pub(crate) strides: Vec<u64>,
}

impl Made {
    /// `[2, 3]`, contiguous, over six numbers.
    pub(crate) fn whole() -> Self {
        let (shape, strides) = (vec![2, 3], vec![3, 1]);
        Self { name: "a", key: "0", class: "FloatStorage", numbers: 6, offset: 0, shape, strides }
    }

    fn pickle(&self) -> Vec<u8> {
        let tuple = |sizes: &[u64]| {
            [&b"("[..], &sizes.iter().flat_map(|n| int(*n)).collect::<Vec<_>>(), b"t"].concat()
        };
        [
            text(self.name),
            global("torch._utils", "_rebuild_tensor_v2"),
            b"((".to_vec(),
            text("storage"),
            global("torch", self.class),
            text(self.key),
            text("cpu"),
            int(self.numbers),
            b"tQ".to_vec(),
            int(self.offset),
            tuple(&self.shape),
            tuple(&self.strides),
            b"\x89}tR".to_vec(),
        ]
        .concat()
    }
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

pub(crate) fn int(number: u64) -> Vec<u8> {
    [&b"\x8a\x09"[..], &number.to_le_bytes(), &[0]].concat()
}

pub(crate) fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// The pickle of a state_dict.
pub(crate) fn state(tensors: &[Made]) -> Vec<u8> {
    let items: Vec<u8> = tensors.iter().flat_map(Made::pickle).collect();
    [&b"\x80\x02}("[..], &items, b"u."].concat()
}

/// Six numbers, 0 to 5.
pub(crate) fn numbers() -> Vec<u8> {
    (0..6u8).flat_map(|n| f32::from(n).to_le_bytes()).collect()
}

/// A file of the older format: the object's pickle, and storages by key, length and bytes.
pub(crate) fn legacy(object: &[u8], storages: &[(&str, u64, Vec<u8>)]) -> Vec<u8> {
    let keys: Vec<u8> = storages.iter().flat_map(|(key, ..)| text(key)).collect();
    let body: Vec<u8> =
        storages.iter().flat_map(|(_, count, bytes)| [&count.to_le_bytes()[..], bytes].concat()).collect();
    [
        &b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}"[..],
        &text("little_endian"),
        b"\x88s.",
        object,
        b"\x80\x02](",
        &keys,
        b"e.",
        &body,
    ]
    .concat()
}

/// A file of the older format whose object is this pickle, which has no storage.
pub(crate) fn program(object: &[u8]) -> Vec<u8> {
    legacy(&[&b"\x80\x02"[..], object].concat(), &[])
}

/// One entry of an archive; what is said of it may be a lie.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) crc: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    /// By its header and by the directory.
    pub(crate) sizes: [u32; 2],
    /// By the directory; where it is, if none.
    pub(crate) place: Option<u32>,
}

pub(crate) fn entry(name: &'static str, bytes: Vec<u8>) -> Entry {
    let (crc, size) = (crc32fast::hash(&bytes), bytes.len() as u32);
    Entry { name, bytes, crc, method: 0, flags: 0, sizes: [size; 2], place: None }
}

/// The entries of an archive that is right.
pub(crate) fn entries() -> Vec<Entry> {
    vec![
        entry("archive/data.pkl", state(&[Made::whole()])),
        entry("archive/byteorder", b"little".to_vec()),
        entry("archive/data/0", numbers()),
    ]
}

pub(crate) fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let place = entry.place.unwrap_or(out.len() as u32);
        let [local, central] = entry.sizes;
        let head = |size: u32| {
            let size = size.to_le_bytes();
            let head = [entry.flags.to_le_bytes(), entry.method.to_le_bytes(), [0; 2], [0; 2]].concat();
            let lengths = [(entry.name.len() as u16).to_le_bytes(), [0; 2]].concat();
            [&[0; 2][..], &head, &entry.crc.to_le_bytes(), &size, &size, &lengths].concat()
        };
        out.extend([&b"PK\x03\x04"[..], &head(local), entry.name.as_bytes(), &entry.bytes].concat());
        let rest = [&[0; 10][..], &place.to_le_bytes(), entry.name.as_bytes()].concat();
        directory.extend([&b"PK\x01\x02\0\0"[..], &head(central), &rest].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let place = (out.len() as u32).to_le_bytes();
    let length = (directory.len() as u32).to_le_bytes();
    out.extend([&directory[..], b"PK\x05\x06\0\0\0\0", &count, &count, &length, &place, &[0; 2]].concat());
    out
}
