//! Pickles and tensors that are refused: each by an error that says what it is about.

use super::made::{Made, global, int, legacy, numbers, program, state, text};
use super::{bytes, read, refused};

/// Files that are changed at random.
const ROUNDS: usize = 1000;

#[test]
fn programs_are_refused_by_name() {
    let cases = [
        ("system", "it names \"posix.system\", which is not a part of weights"),
        ("system-legacy", "\"posix.system\""),
        ("eval", "\"builtins.eval\""),
        ("module", "\"__main__.Net\""),
        ("module-legacy", "\"__main__.Net\""),
        ("sparse", "\"torch._utils._rebuild_sparse_tensor\""),
        ("pickle", "\"torch.storage._load_from_bytes\""),
        ("script", "TorchScript"),
        ("nested", "\"state_dict\" is a dictionary"),
        ("list", "it is a list"),
        ("compressed", "it is compressed, which torch.save never does (entry \"made/data.pkl\")"),
    ];
    for (name, says) in cases {
        let file = bytes(&format!("refused/{name}.bin"));
        let error = read(&file).map(|_| ()).unwrap_err();
        assert!(error.contains(says), "{name}: {error}");
    }
}

#[test]
fn names_out_of_a_file_are_cut_and_quoted() {
    let long = "x".repeat(100_000);
    let error = read(&program(&[&global(&long, "\u{1b}[2Jy")[..], b"."].concat())).map(|_| ()).unwrap_err();
    assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
    let error = read(&program(&[&global("os", "\u{1b}[2Jy")[..], b"."].concat())).map(|_| ()).unwrap_err();
    assert!(error.contains("os.\\u{1b}[2Jy"), "{error}");
}

#[test]
fn instructions_that_call_or_make_objects_are_refused() {
    let dict = global("collections", "OrderedDict");
    let cases: [(Vec<u8>, &str); 14] = [
        (b"(ios\nsystem\n.".to_vec(), "\"os.system\""),
        (b"(icollections\nOrderedDict\n.".to_vec(), "(INST)"),
        ([&b"("[..], &dict, b"o."].concat(), "(OBJ)"),
        ([&dict[..], b")\x81."].concat(), "(NEWOBJ)"),
        ([&dict[..], b")}\x92."].concat(), "(NEWOBJ_EX)"),
        (b"\x82\x01.".to_vec(), "(EXT)"),
        (b"\x8c\x02os\x8c\x06system\x93.".to_vec(), "\"os.system\""),
        (b"NN\x93.".to_vec(), "not a string"),
        ([&dict[..], b"(]tR."].concat(), "arguments that torch.save does not write"),
        ([&global("torch", "FloatStorage")[..], b")R."].concat(), "arguments that"),
        (b"N)R.".to_vec(), "not a function"),
        (b"]}b.".to_vec(), "attributes"),
        (b"(X\x06\0\0\0moduletQ.".to_vec(), "not that of a storage"),
        (b"P123\n.".to_vec(), "instruction 0x50 at byte"),
    ];
    for (pickle, says) in cases {
        refused(&program(&pickle), &[says]);
    }
}

#[test]
fn a_pickle_that_makes_no_sense_is_refused_by_place() {
    let cases: [(&[u8], &str); 14] = [
        (b".", "at byte 47: it takes a value that is not there"),
        (b"t.", "closes what is not open"),
        (b"(NN(.", "value that is not there"),
        (b"NN.", "values left over"),
        (b"h\x05.", "refers to a value"),
        (b"j\xff\xff\xff\xff.", "refers to a value"),
        (b"X\xff\xff\xff\xffabc", "cut short"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", "cut short"),
        (b"\x95\xff\xff\xff\xff\xff\xff\xff\x7fabc", "cut short"),
        (b"X\x01\0\0\0\xff.", "not UTF-8"),
        (b"\x8a\xff.", "cut short"),
        (b"}Ns.", "value"),
        (b"Na.", "value"),
        (b"}(Nu.", "half of one"),
    ];
    for (pickle, says) in cases {
        refused(&program(pickle), &[says]);
    }
    refused(b"\x80\x06N.", &["newer than 5"]);
    refused(b"\x80\x02N.", &["a pickle of something else"]);
    refused(b"", &["neither a zip archive nor a pickle"]);
    refused(b"version https://git-lfs.github.com/spec/v1\n", &["Git LFS"]);
}

/// What grows without end is stopped, and what refers to itself is not followed.
#[test]
fn bombs_are_stopped() {
    let memo: Vec<u8> = (0..600_000u32).flat_map(|key| [&b"r"[..], &key.to_le_bytes()].concat()).collect();
    refused(&program(&[&b"N"[..], &memo, b"."].concat()), &["more than 524288 remembered values"]);
    refused(&program(&b"(".repeat(100_000)), &["more than 256 levels"]);
    refused(&program(&b"]".repeat(100_000)), &["more than 65536 values on the stack"]);
    refused(&program(&b"N\x85".repeat(600_000)), &["more than"]);
    refused(&program(&[&b"N"[..], &b"\x85".repeat(2_000_000)].concat()), &["more than 1048576 instructions"]);
    // Each a tuple of three times the one before, thirty deep: 3^30 values if they were counted.
    let laughs: Vec<u8> = (0..30u8).flat_map(|n| [b'q', n, b'h', n, b'h', n, 0x87]).collect();
    refused(&program(&[&b"N"[..], &laughs, b"."].concat()), &["it is a tuple"]);
    refused(&program(&[&b"}q\0"[..], &text("a"), b"h\0s."].concat()), &["\"a\" is a dictionary"]);
    refused(&program(&[&b"N"[..], &b"\x85".repeat(900_000), b"."].concat()), &["it is a tuple"]);
}

#[test]
fn tensors_lie_in_their_storage() {
    let most = u64::MAX >> 1;
    let cases: [(Vec<u64>, Vec<u64>, u64); 9] = [
        (vec![7], vec![1], 0),
        (vec![2, 3], vec![3, 1], 1),
        (vec![2, 3], vec![4, 1], 0),
        (vec![2], vec![most], 0),
        (vec![most, most], vec![0, 0], 0),
        (vec![most, most], vec![most, most], most),
        (vec![u64::MAX, 2], vec![1, 1], 0),
        (vec![1], vec![1], u64::MAX),
        (vec![0], vec![1], 7),
    ];
    for (shape, strides, offset) in cases {
        let says =
            format!("tensor \"a\": shape {shape:?} with strides {strides:?} from {offset} on does not lie");
        let tensor = Made { shape, strides, offset, ..Made::whole() };
        refused(&legacy(&state(&[tensor]), &[("0", 6, numbers())]), &[&says, "of 6 numbers"]);
    }
    let expanded = Made { shape: vec![1 << 40], strides: vec![0], ..Made::whole() };
    refused(&legacy(&state(&[expanded]), &[("0", 6, numbers())]), &["is more than a file of"]);
    let names = ["a", "b", "c", "d", "e"];
    let shared = names.map(|name| Made { name, shape: vec![6, 6], strides: vec![0, 1], ..Made::whole() });
    read(&legacy(&state(&shared), &[("0", 6, numbers())])).unwrap();
    let many = Made { shape: vec![600, 6], ..shared[0].clone() };
    refused(&legacy(&state(&[many]), &[("0", 6, numbers())]), &["[600, 6] is more than"]);
    let nine = Made { shape: vec![1; 9], strides: vec![1; 9], ..Made::whole() };
    refused(&legacy(&state(&[nine]), &[("0", 6, numbers())]), &["not made of a storage"]);
    let uneven = Made { shape: vec![6], ..Made::whole() };
    refused(&legacy(&state(&[uneven]), &[("0", 6, numbers())]), &["not made of a storage"]);
}

#[test]
fn storages_are_those_that_the_object_names() {
    let one = |numbers: u64| state(&[Made { numbers, ..Made::whole() }]);
    let stored = |count| vec![("0", count, numbers())];
    refused(&legacy(&one(7), &stored(7)), &["storage \"0\" lies past the end"]);
    refused(&legacy(&one(u64::MAX >> 1), &stored(u64::MAX >> 1)), &["lies past the end"]);
    refused(&legacy(&one(6), &stored(5)), &["another length"]);
    refused(&legacy(&one(6), &[]), &["is not in the file"]);
    refused(&legacy(&one(6), &[("1", 6, numbers())]), &["\"1\" is not part of the object"]);
    refused(&legacy(&one(6), &[("0", 6, numbers()), ("0", 6, numbers())]), &["is there twice"]);
    refused(&[legacy(&one(6), &stored(6)), vec![0]].concat(), &["bytes follow its last storage"]);
    let half_precision = Made { name: "b", class: "HalfStorage", ..Made::whole() };
    refused(&legacy(&state(&[Made::whole(), half_precision]), &stored(6)), &["storage"]);
    let negative =
        [&b"("[..], &text("storage"), &global("torch", "FloatStorage"), &text("0"), &text("cpu")].concat();
    refused(&program(&[&negative[..], b"J\xff\xff\xff\xfftQ."].concat()), &["is not a size"]);
    let view = [&negative[..], &int(6), b"(tt", b"Q."].concat();
    refused(&program(&view), &["not that of a storage"]);

    let big = legacy(&one(6), &stored(6));
    let at = big.windows(2).position(|pair| pair == [0x88, b's']).unwrap();
    refused(&[&big[..at], &[0x89], &big[at + 1..]].concat(), &["big-endian"]);
}

/// A file cut anywhere is an error; a file with any byte changed is read or is an error.
#[test]
fn cut_and_changed_files_end_in_errors() {
    let small = legacy(&state(&[Made::whole()]), &[("0", 6, numbers())]);
    let zip = super::made::zip(&super::made::entries());
    for file in [&small, &zip] {
        for at in 0..file.len() {
            assert!(read(&file[..at]).is_err(), "cut at {at}");
            for bit in [1, 0x80] {
                let mut changed = file.clone();
                changed[at] ^= bit;
                let _ = read(&changed);
            }
        }
    }
    for name in ["question.bin", "question-legacy.bin", "question-protocol-4.bin"] {
        let file = bytes(name);
        for at in (0..file.len()).step_by(37) {
            assert!(read(&file[..at]).is_err(), "{name} cut at {at}");
        }
    }
}

/// Files with several bytes changed, left out or repeated, by a fixed seed: no panic, and no more memory than they
/// have.
#[test]
fn files_changed_at_random_end_in_tensors_or_errors() {
    let small = legacy(&state(&[Made::whole()]), &[("0", 6, numbers())]);
    let files = [
        small,
        super::made::zip(&super::made::entries()),
        bytes("question-protocol-4.bin"),
        bytes("ctx-legacy.bin"),
    ];
    let mut seed = 0x20200410u64;
    // SplitMix64.
    let mut random = move |below: usize| {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % below.max(1) as u64) as usize
    };
    for round in 0..ROUNDS {
        let mut file = files[round % files.len()].clone();
        for _ in 0..=random(4) {
            let at = random(file.len());
            let end = (at + random(24)).min(file.len());
            match random(4) {
                0 => file[at] ^= 1 << random(8),
                1 => file[at] = [0, 1, 0x7f, 0x80, 0xff, b'(', b'R', b't'][random(8)],
                2 => drop(file.drain(at..end)),
                _ => file.extend_from_within(at..end),
            }
            if file.is_empty() {
                break;
            }
        }
        let Ok(mut map) = read(&file) else { continue };
        let tensors: Vec<_> = map.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
        for (name, shape) in tensors {
            if let Ok(numbers) = map.take_f32(&name, &shape) {
                assert!(numbers.len() <= 2 * file.len(), "{name} has {shape:?}");
            }
        }
    }
}
