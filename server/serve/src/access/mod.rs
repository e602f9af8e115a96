//! Access control: which requests need an API key, and which keys there are.

mod caller;
mod file;
mod key;
mod rate;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use dpr_files::{lock, read_lock, write_lock};

pub(crate) use self::caller::{API_KEY, Caller};
pub use self::file::{KeysError, is_name};
pub(crate) use self::key::Key;
pub use self::key::{NewKey, RandomError};
pub use self::rate::Rate;
use crate::scope::Scope;
use crate::watched::Watched;

/// The rights of clients. Without any key everybody may search and read counters, and changes are for programs of this
/// machine.
#[derive(Debug, Clone, Default)]
pub struct Access(Option<Arc<Keys>>);

/// The sources of keys.
#[derive(Default)]
pub struct KeySources {
    /// A file that lists them, which is read again when it changes.
    pub file: Option<PathBuf>,
    /// Such a list.
    pub list: Option<String>,
    /// A text of the operator's own choice that opens changes alone. By itself it closes nothing else.
    pub update_token: Option<String>,
    /// `true` if searches need no key, whatever keys there are.
    pub open_search: bool,
}

/// The keys of one server.
#[derive(Debug)]
struct Keys {
    /// Those that stay as they are.
    fixed: Vec<Arc<Key>>,
    file: Option<KeyFile>,
    /// `true` if there are others than the update token.
    is_listed: bool,
    open_search: bool,
}

/// The name under which log lines speak of the update token.
const UPDATE_TOKEN: &str = "DPR_UPDATE_TOKEN";

/// The keys of a file, as it was when it could be read last.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    keys: RwLock<Vec<Arc<Key>>>,
    watched: Mutex<Watched>,
}

/// Keys that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A file that cannot be opened.
    #[error("cannot read the keys: {0}")]
    Read(#[from] std::io::Error),
    /// A file that holds something else.
    #[error("cannot use the keys in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the list.
        source: KeysError,
    },
    /// A list that was given as text.
    #[error("cannot use the list of keys: {0}")]
    List(#[from] KeysError),
}

impl Access {
    /// Reads the keys of all sources. Without any of them this is [`Access::default`].
    ///
    /// # Errors
    /// [`AccessError`], which names the file and quotes nothing of it.
    pub fn new(sources: KeySources) -> Result<Self, AccessError> {
        let KeySources { file, list, update_token, open_search } = sources;
        let mut fixed = list.as_deref().map(file::parse).transpose()?.unwrap_or_default();
        let file = file.map(KeyFile::open).transpose()?;
        let is_listed = file.is_some() || list.is_some();
        fixed.extend(update_token.map(|token| Arc::new(Key::of_token(UPDATE_TOKEN, &token))));
        let keys = Keys { fixed, file, is_listed, open_search };
        Ok(Self((keys.is_listed || !keys.fixed.is_empty()).then(|| Arc::new(keys))))
    }

    /// Returns whether there are any keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether requests of this scope need a key.
    pub fn needs_key(&self, scope: Scope) -> bool {
        let Some(keys) = &self.0 else { return false };
        match scope {
            Scope::Search => keys.is_listed && !keys.open_search,
            Scope::Write => true,
            Scope::Admin => keys.is_listed,
        }
    }

    /// Returns whether some key has this scope now.
    pub fn has_key_for(&self, scope: Scope) -> bool {
        self.0.as_ref().is_some_and(|keys| keys.current().iter().any(|key| key.has(scope)))
    }

    /// Returns the file whose change [`reload`](Self::reload) takes in.
    pub fn file(&self) -> Option<&Path> {
        self.0.as_ref()?.file.as_ref().map(|file| file.path.as_path())
    }

    /// Reads the file of keys again if it has changed and is no longer being written; keeps the keys it had when that
    /// fails. Returns the number of keys in the file, or `None` when there was nothing to do.
    ///
    /// # Errors
    /// [`AccessError`], once for each state of the file.
    pub fn reload(&self) -> Result<Option<usize>, AccessError> {
        match self.0.as_ref().and_then(|keys| keys.file.as_ref()) {
            Some(file) => file.reload(),
            None => Ok(None),
        }
    }

    pub(crate) fn find(&self, sent: &str) -> Option<Arc<Key>> {
        key::find(self.0.as_ref()?.current().iter(), sent)
    }
}

impl Keys {
    /// Returns all keys as they are now.
    fn current(&self) -> Vec<Arc<Key>> {
        let mut all = self.fixed.clone();
        if let Some(file) = &self.file {
            all.extend(read_lock(&file.keys).iter().cloned());
        }
        all
    }
}

impl KeyFile {
    fn open(path: PathBuf) -> Result<Self, AccessError> {
        // Before the file is read, so that a change in between is seen.
        let watched = Mutex::new(Watched::new([path.clone()]));
        let keys = RwLock::new(read(&path)?);
        Ok(Self { path, keys, watched })
    }

    fn reload(&self) -> Result<Option<usize>, AccessError> {
        if !lock(&self.watched).has_changed() {
            return Ok(None);
        }
        let keys = read(&self.path)?;
        let count = keys.len();
        *write_lock(&self.keys) = keys;
        Ok(Some(count))
    }
}

fn read(path: &Path) -> Result<Vec<Arc<Key>>, AccessError> {
    let text = fs_err::read_to_string(path)?;
    file::parse(&text).map_err(|source| AccessError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str) -> (Access, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        fs_err::write(&path, text).unwrap();
        (Access::new(KeySources { file: Some(path), ..KeySources::default() }).unwrap(), dir)
    }

    #[test]
    fn a_changed_file_is_taken_in_and_a_broken_one_is_not() {
        let [old, new] = [(); 2].map(|()| NewKey::generate().unwrap());
        let (access, dir) = with_file(&old.entry("old", &[Scope::Search]));
        assert!(access.find(old.secret()).is_some() && access.reload().unwrap().is_none());
        let path = dir.path().join("keys.toml");
        // Both at once, as a rotation has them for a while; in the place of the file, as editors write.
        let both = old.entry("old", &[Scope::Search]) + &new.entry("new", &[Scope::Admin]);
        fs_err::write(dir.path().join("next"), both).unwrap();
        fs_err::rename(dir.path().join("next"), &path).unwrap();
        assert!(access.reload().unwrap().is_none(), "it may still be written");
        assert_eq!(access.reload().unwrap(), Some(2));
        assert!(access.find(old.secret()).is_some() && access.find(new.secret()).is_some());
        for broken in ["[[key]\nname = 7", ""] {
            fs_err::write(&path, broken).unwrap();
            assert!(access.reload().unwrap().is_none());
            let error = access.reload().unwrap_err().to_string();
            assert!(error.contains("keys.toml"), "{error}");
            assert!(access.reload().unwrap().is_none(), "each state is told once");
            assert!(access.find(new.secret()).is_some(), "the old keys hold");
        }
        fs_err::remove_file(&path).unwrap();
        assert!(access.reload().unwrap().is_none() && access.reload().is_err());
        assert!(access.find(new.secret()).is_some());
        fs_err::write(&path, new.entry("new", &[Scope::Admin])).unwrap();
        assert!(access.reload().unwrap().is_none());
        assert_eq!(access.reload().unwrap(), Some(1));
        assert!(access.find(old.secret()).is_none(), "its time is over");
    }

    #[test]
    fn what_needs_a_key_depends_on_the_keys_there_are() {
        let needs = |access: &Access| {
            [Scope::Search, Scope::Write, Scope::Admin].map(|scope| access.needs_key(scope))
        };
        let of = |sources| Access::new(sources).unwrap();
        let list = || Some(NewKey::generate().unwrap().entry("a", &[Scope::Search]));
        assert_eq!(needs(&of(KeySources::default())), [false; 3]);
        let token = KeySources { update_token: Some("chosen".into()), ..KeySources::default() };
        assert_eq!(needs(&of(token)), [false, true, false]);
        assert_eq!(needs(&of(KeySources { list: list(), ..KeySources::default() })), [true; 3]);
        let open = of(KeySources { list: list(), open_search: true, ..KeySources::default() });
        assert_eq!(needs(&open), [false, true, true]);
        assert!(open.has_key_for(Scope::Search) && !open.has_key_for(Scope::Write));
    }

    #[test]
    fn an_update_token_may_have_any_form_and_opens_changes_alone() {
        let access =
            Access::new(KeySources { update_token: Some("chosen".into()), ..KeySources::default() }).unwrap();
        let key = access.find("chosen").unwrap();
        assert!(key.has(Scope::Write) && !key.has(Scope::Search) && !key.has(Scope::Admin));
        assert!(access.find("chosen ").is_none() && access.find("").is_none());
    }
}
