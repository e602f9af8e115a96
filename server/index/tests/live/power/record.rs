//! The record that `record.c` writes: what a process did to the files of a directory, in order.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use fs_err as fs;

/// A file or a directory. Numbers that the file system uses again are told apart.
pub(crate) type Inode = u64;

/// A name that came or went.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Is { dir: Inode, name: String, inode: Inode, is_dir: bool },
    Gone { dir: Inode, name: String },
}

/// One thing that the process did.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Names changed in one step.
    Names(Vec<Name>),
    Write {
        inode: Inode,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: Inode,
        length: usize,
    },
    Sync(Inode),
    /// A whole line on the standard output.
    Said(String),
}

/// The directory that is recorded, and the events.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) root: Inode,
    pub(crate) events: Vec<Event>,
}

/// The numbers of files and directories in the place of those of the file system.
#[derive(Default)]
struct Numbers {
    own: HashMap<u64, Inode>,
    /// The names that are there: directory and name, and the file system's number.
    names: HashMap<(Inode, String), u64>,
    next: Inode,
}

impl Numbers {
    fn begin(&mut self, number: u64) -> Inode {
        self.next += 1;
        self.own.insert(number, self.next);
        self.next
    }

    fn of(&self, number: u64) -> Inode {
        self.own[&number]
    }

    /// Takes one step: a number without a name is that of a new file or directory.
    fn step(&mut self, lines: &[&str]) -> Vec<Name> {
        let mut known: HashSet<u64> = self.names.values().copied().collect();
        let mut step = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let dir = self.of(number(1));
            match words.as_slice() {
                ["-", _, name] => {
                    self.names.remove(&(dir, (*name).to_owned()));
                    step.push(Name::Gone { dir, name: (*name).to_owned() });
                }
                ["+", _, _, kind, name] => {
                    let inode = match known.insert(number(2)) {
                        true => self.begin(number(2)),
                        false => self.of(number(2)),
                    };
                    self.names.insert((dir, (*name).to_owned()), number(2));
                    let (name, is_dir) = ((*name).to_owned(), *kind == "d");
                    step.push(Name::Is { dir, name, inode, is_dir });
                }
                _ => panic!("{line}"),
            }
        }
        step
    }
}

/// Takes parts off the beginning of a record.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn line(&mut self) -> &'a str {
        let end = self.0.iter().position(|byte| *byte == b'\n').expect("a whole line");
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        std::str::from_utf8(line).unwrap()
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest.strip_prefix(b"\n").expect("a line feed after the bytes");
        bytes
    }
}

impl Record {
    /// Reads a record, and refuses one with calls of which nothing is known.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let (mut parts, mut numbers, mut said) = (Parts(&bytes), Numbers::default(), String::new());
        let mut record = Self { root: 0, events: Vec::new() };
        while !parts.0.is_empty() {
            let line = parts.line();
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let event = match words[0] {
                "root" => {
                    record.root = numbers.begin(number(1));
                    continue;
                }
                "names" => {
                    let lines: Vec<&str> = (0..number(1)).map(|_| parts.line()).collect();
                    Event::Names(numbers.step(&lines))
                }
                "write" => {
                    let bytes = parts.bytes(number(3) as usize).to_vec();
                    Event::Write { inode: numbers.of(number(1)), offset: number(2) as usize, bytes }
                }
                "truncate" => Event::Truncate { inode: numbers.of(number(1)), length: number(2) as usize },
                "sync" => Event::Sync(numbers.of(number(1))),
                "say" => {
                    said.push_str(std::str::from_utf8(parts.bytes(number(1) as usize)).unwrap());
                    while let Some((line, rest)) = said.split_once('\n') {
                        record.events.push(Event::Said(line.to_owned()));
                        said = rest.to_owned();
                    }
                    continue;
                }
                _ => panic!("{line}: the shim has to record this call"),
            };
            record.events.push(event);
        }
        record
    }
}
