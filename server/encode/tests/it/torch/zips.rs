//! Archives that contradict themselves.

use super::made::{Entry, Made, entries, entry, numbers, state, zip};
use super::{bytes, read, refused};

fn edited(edit: impl FnOnce(&mut Vec<Entry>)) -> Vec<u8> {
    let mut entries = entries();
    edit(&mut entries);
    zip(&entries)
}

#[test]
fn entries_that_lie_are_refused_by_name() {
    read(&zip(&entries())).unwrap();
    type Edit = fn(&mut Vec<Entry>);
    let cases: [(Edit, &[&str]); 17] = [
        (|e| e[2].method = 8, &["entry \"archive/data/0\"", "compressed"]),
        (|e| e[0].flags = 1, &["archive/data.pkl", "encrypted"]),
        (|e| e[2].crc ^= 1, &["archive/data/0", "CRC-32"]),
        (|e| e[2].bytes[5] ^= 1, &["archive/data/0", "CRC-32"]),
        (|e| e[2].sizes = [24, 20], &["storage \"0\" has another length"]),
        (|e| e[0].sizes[0] -= 1, &["archive/data.pkl", "two sizes"]),
        (|e| e[2].sizes = [1 << 30; 2], &["archive/data/0", "outside of the file"]),
        (|e| e[2].place = Some(1 << 30), &["archive/data/0", "outside of the file"]),
        (|e| e[2].sizes = [u32::MAX; 2], &["archive/data/0", "zip64"]),
        (|e| e[1].sizes = [60; 2], &["archive/byteorder", "over another entry"]),
        (|e| e[2].place = Some(0), &["over another entry"]),
        (|e| e[2].place = Some(3), &["over another entry"]),
        (|e| e.push(entry("archive/data/0", numbers())), &["archive/data/0", "two entries have one name"]),
        (|e| e[0].name = "archive/other.pkl", &["no data.pkl"]),
        (|e| e.push(entry("second/data.pkl", Vec::new())), &["two data.pkl"]),
        (|e| e[2].name = "../../data/0", &["storage \"0\" is not in the file"]),
        (|e| e.push(entry("archive/constants.pkl", Vec::new())), &["TorchScript"]),
    ];
    for (edit, says) in cases {
        refused(&edited(edit), says);
    }
    refused(&edited(|e| e[1] = entry("archive/byteorder", b"big".to_vec())), &["big-endian"]);
    refused(&edited(|e| e[1] = entry("archive/byteorder", b"middle".to_vec())), &["neither little nor big"]);
    refused(
        &edited(|e| e[0] = entry("archive/data.pkl", b"\x80\x02}.more".to_vec())),
        &["bytes follow its end"],
    );
    read(&edited(|e| drop(e.remove(1)))).map(|_| ()).unwrap();

    let half_precision = Made { name: "b", class: "HalfStorage", numbers: 12, ..Made::whole() };
    let file = edited(|e| e[0] = entry("archive/data.pkl", state(&[Made::whole(), half_precision])));
    refused(&file, &["storage \"0\" is described in two ways"]);
    let above = Made { key: "../data.pkl", ..Made::whole() };
    let file = edited(|e| e[0] = entry("archive/data.pkl", state(&[above])));
    refused(&file, &["storage \"../data.pkl\" is not in the file"]);
}

#[test]
fn directories_that_lie_are_refused() {
    let file = zip(&entries());
    let end = file.len() - 22;
    let with = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[end + at..][..bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&with(4, &[1, 0]), &["a part of several"]);
    refused(&with(8, &[2, 0, 2, 0]), &["more entries than it says"]);
    refused(&with(8, &[4, 0, 4, 0]), &["its directory is cut short"]);
    refused(&with(8, &[0xff; 4]), &["its directory is cut short"]);
    refused(&with(12, &[0xff; 4]), &["outside of the file"]);
    refused(&with(16, &[0xff; 4]), &["outside of the file"]);
    refused(&with(16, &[0, 0, 0, 0]), &["its directory is not one"]);
    refused(&with(20, &[1, 0]), &["no end"]);
    refused(&[&file[..end], &file[end + 1..]].concat(), &["no end"]);

    // As PyTorch writes it, with the larger end before the small one.
    let file = bytes("question.bin");
    let locator = file.len() - 22 - 20;
    let with = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..][..bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&with(locator + 8, &[0xff; 8]), &["zip64 end is damaged"]);
    refused(&with(locator + 8, &[0; 8]), &["zip64 end is damaged"]);
    for field in [32, 40, 48] {
        refused(&with(locator - 56 + field, &[0xff; 8]), &["two ends disagree"]);
    }
    // Sizes of 64 bits, which the small end leaves to the larger one.
    read(&with(locator + 20 + 8, &[0xff; 12])).map(|_| ()).unwrap();
}
