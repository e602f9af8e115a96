//! A disk that loses power: what was synced is on it for certain, and of the rest any part may be.
//!
//! A file has the contents of its last sync, and writes since then each of which may be on the disk, whole or in some
//! of its sectors. A directory has the names of its last sync, and changes since then each of which may be on the disk.
//! Syncing a file says nothing of its name, and syncing a name nothing of what the file holds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use fs_err as fs;

use super::record::{Event, Inode, Name};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A change to the bytes of a file.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone, Debug, Default)]
struct File {
    synced: Vec<u8>,
    /// Changes since, with their numbers.
    pending: Vec<(usize, Change)>,
}

/// What a power failure leaves of what was not synced. Changes are numbered in their order.
pub(crate) trait Survives {
    fn names(&mut self, number: usize) -> bool;
    /// Returns `true` if this sector of a change to a file is on the disk.
    fn sector(&mut self, number: usize, sector: usize) -> bool;
}

/// The files and folders of a state of the disk: `None` for a folder.
pub(crate) type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// A disk in the middle of a record.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    root: Inode,
    files: HashMap<Inode, File>,
    /// Names that are synced: for each directory, files and folders.
    synced: HashMap<Inode, BTreeMap<String, (Inode, bool)>>,
    /// Names as the process sees them.
    seen: HashMap<Inode, BTreeMap<String, (Inode, bool)>>,
    /// Changes of names since, with their numbers; a step that concerns two directories is in both.
    pending: Vec<(usize, Vec<Name>)>,
    next: usize,
}

impl Disk {
    pub(crate) fn new(root: Inode) -> Self {
        let (files, synced, seen) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { root, files, synced, seen, pending: Vec::new(), next: 0 }
    }

    /// Does what the process did.
    pub(crate) fn apply(&mut self, event: &Event) {
        let number = self.next;
        self.next += 1;
        match event {
            Event::Names(names) => {
                apply_names(&mut self.seen, names);
                self.pending.push((number, names.clone()));
            }
            Event::Write { inode, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.files.entry(*inode).or_default().pending.push((number, change));
            }
            Event::Truncate { inode, length } => {
                self.files.entry(*inode).or_default().pending.push((number, Change::Truncate(*length)));
            }
            Event::Sync(inode) => self.sync(*inode),
            Event::Said(_) => {}
        }
    }

    fn sync(&mut self, inode: Inode) {
        if let Some(file) = self.files.get_mut(&inode) {
            for (_, change) in std::mem::take(&mut file.pending) {
                change.apply(&mut file.synced, &mut |_| true);
            }
        }
        // A step is durable with the first of its directories that is synced: file systems do not tear a rename.
        let (durable, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(_, names): &(usize, Vec<Name>)| names.iter().any(|name| dir_of(name) == inode));
        self.pending = pending;
        for (_, names) in durable {
            apply_names(&mut self.synced, &names);
        }
    }

    /// Returns the numbers of the changes that are not certain to be on the disk: of names, and of files.
    pub(crate) fn pending(&self) -> (Vec<usize>, Vec<usize>) {
        let names = self.pending.iter().map(|(number, _)| *number).collect();
        let mut changes: Vec<usize> =
            self.files.values().flat_map(|file| &file.pending).map(|(number, _)| *number).collect();
        changes.sort_unstable();
        (names, changes)
    }

    /// Returns `true` if a write at or after `offset` of a file is not certain to be on the disk.
    pub(crate) fn is_pending(&self, inode: Inode, offset: usize) -> bool {
        self.files.get(&inode).is_some_and(|file| {
            file.pending
                .iter()
                .any(|(_, change)| matches!(change, Change::Write { offset: at, .. } if *at >= offset))
        })
    }

    pub(crate) fn is_folder(&self, inode: Inode) -> bool {
        self.seen.values().any(|dir| dir.values().any(|(found, is_dir)| *found == inode && *is_dir))
    }

    /// Returns the path of a file or a folder as the process sees it; empty for the root.
    pub(crate) fn path(&self, inode: Inode) -> Option<String> {
        if inode == self.root {
            return Some(String::new());
        }
        self.seen.iter().find_map(|(dir, names)| {
            let (name, _) = names.iter().find(|(_, (found, _))| *found == inode)?;
            Some(format!("{}/{name}", self.path(*dir)?))
        })
    }

    /// Returns what is on the disk if what was not synced is there as far as `survives` says.
    pub(crate) fn after_power_loss(&self, survives: &mut dyn Survives) -> Tree {
        let mut names = self.synced.clone();
        for (number, step) in &self.pending {
            if survives.names(*number) {
                apply_names(&mut names, step);
            }
        }
        let mut contents: HashMap<Inode, Vec<u8>> = HashMap::new();
        for (inode, file) in &self.files {
            let mut bytes = file.synced.clone();
            for (number, change) in &file.pending {
                change.apply(&mut bytes, &mut |sector| survives.sector(*number, sector));
            }
            contents.insert(*inode, bytes);
        }
        let mut tree = Tree::new();
        fill(&mut tree, &names, &contents, self.root, "");
        tree
    }
}

fn fill(
    tree: &mut Tree,
    names: &HashMap<Inode, BTreeMap<String, (Inode, bool)>>,
    contents: &HashMap<Inode, Vec<u8>>,
    dir: Inode,
    path: &str,
) {
    for (name, (inode, is_dir)) in names.get(&dir).into_iter().flatten() {
        let path = format!("{path}{name}");
        if *is_dir {
            fill(tree, names, contents, *inode, &format!("{path}/"));
            tree.insert(path, None);
        } else {
            tree.insert(path, Some(contents.get(inode).cloned().unwrap_or_default()));
        }
    }
}

fn dir_of(name: &Name) -> Inode {
    match name {
        Name::Is { dir, .. } | Name::Gone { dir, .. } => *dir,
    }
}

fn apply_names(dirs: &mut HashMap<Inode, BTreeMap<String, (Inode, bool)>>, names: &[Name]) {
    for name in names {
        match name {
            Name::Is { dir, name, inode, is_dir } => {
                dirs.entry(*dir).or_default().insert(name.clone(), (*inode, *is_dir));
            }
            Name::Gone { dir, name } => drop(dirs.entry(*dir).or_default().remove(name)),
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, survives: &mut dyn FnMut(usize) -> bool) {
        match self {
            Self::Truncate(length) => {
                if survives(0) {
                    bytes.resize(*length, 0);
                }
            }
            Self::Write { offset, bytes: written } => {
                let (mut at, end) = (*offset, offset + written.len());
                while at < end {
                    // Sectors of the disk, not of the write.
                    let next = ((at / SECTOR + 1) * SECTOR).min(end);
                    if survives(at / SECTOR) {
                        bytes.resize(bytes.len().max(next), 0);
                        bytes[at..next].copy_from_slice(&written[at - offset..next - offset]);
                    }
                    at = next;
                }
            }
        }
    }
}

/// Returns a digest of what matters in a state: what a writer left unfinished is removed whatever is in it, and what a
/// lock's file says is a note for people.
pub(crate) fn digest(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, contents) in tree {
        let is_note = path.ends_with(".lock");
        if !path.contains(".unfinished-") {
            (path, contents.as_ref().filter(|_| !is_note)).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Writes a state into the empty directory `dir`.
pub(crate) fn write(tree: &Tree, dir: &Path) {
    // A folder comes after what is in it.
    for (path, contents) in tree {
        let path = dir.join(path);
        match contents {
            None => fs::create_dir_all(&path).unwrap(),
            Some(bytes) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, bytes).unwrap();
            }
        }
    }
}
