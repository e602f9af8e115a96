//! A search, step by step: what is sent, in which order, and what opens the answers.
//!
//! What is sent depends on the tables and on the number of passages alone: one message for ranking, then always as many
//! columns as passages are wanted, whatever the question and the answers are. A wrong answer to the ranking is told
//! after the texts were asked for. Each step consumes the one before it, so nothing can be sent or opened twice.
//!
//! Where the index has changed since the tables were made of it, the answer to the ranking says so, and the client asks
//! for the delta, unless it has it, before it goes on.

use super::delta::Delta;
use super::manifest::{
    COLUMNS, Columns, ManifestError, PROJECTION, Projected, Projection, RANK_HINT, TEXT_HINT, Tables,
};
use super::wire::{CHANGES, HEAD, Head, Kind, WireError};
use super::{FetchHint, FetchKey, FetchMask, RandomError, RankHint, RankKey, RankMask, Seed};

/// The most columns that one request fetches.
pub const MOST_FETCHES: usize = 10;

/// The files that everybody downloads, in the order of [`Public::read`].
pub const PUBLIC_FILES: [&str; 4] = [PROJECTION, COLUMNS, RANK_HINT, TEXT_HINT];

/// A search that cannot go on. Nothing of it may be sent again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A server's description of its tables, or a file of them, is refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An answer is not what it should be, or the question cannot be asked.
    #[error(transparent)]
    Answer(#[from] WireError),
    /// The platform gives no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// A number of passages outside its range.
    #[error("`k` is {0}, outside 1 to {MOST_FETCHES}")]
    Count(usize),
    /// A passage that no column holds.
    #[error("no column holds passage {0}")]
    Passage(usize),
}

/// The files of private tables that everybody downloads, checked.
#[derive(Debug)]
pub struct Public {
    tables: Tables,
    projection: Projection,
    columns: Columns,
    rank: RankHint,
    fetch: FetchHint,
    delta: Delta,
}

/// The masks of one search, made before its question is known, and used once.
pub struct Masks {
    rank: RankMask,
    fetch: Vec<FetchMask>,
}

/// A search whose ranking has been asked for.
pub struct PendingRanking {
    head: Head,
    key: RankKey,
    projected: Projected,
    fetch: Vec<FetchMask>,
}

/// A search whose ranking was answered.
pub struct Ranking {
    projected: Projected,
    fetch: Vec<FetchMask>,
    scores: Result<Vec<f32>, WireError>,
    changes: u64,
}

/// A search whose columns have been asked for.
pub struct Chosen {
    head: Head,
    keys: Vec<FetchKey>,
    columns: Vec<usize>,
    places: Vec<Place>,
    /// The added passages, compressed, where some of them were found.
    added: Option<Vec<u8>>,
    /// The error of the answer to the ranking, if it had one.
    wrong: Option<SearchError>,
}

/// The place of a passage that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The inner product of the question's and the passage's vector, about: computed from the decoded score, rounded to
    /// a whole number, and then rounded to the power of ten above the manifest's noise.
    pub score: f32,
    /// Which of [`Found::columns`] holds it.
    pub column: usize,
    /// Its line there.
    pub line: usize,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The compressed passages of columns (raw deflate of one JSON object a line), each checked by its hash. The last one
    /// may be that of the delta, whose texts are what the server sent.
    pub columns: Vec<Vec<u8>>,
    /// The passages, best first.
    pub places: Vec<Place>,
}

impl Public {
    /// Reads the four [`PUBLIC_FILES`], each checked against the manifest.
    ///
    /// # Errors
    /// [`SearchError::Manifest`].
    pub fn read(tables: Tables, files: [&[u8]; 4]) -> Result<Self, SearchError> {
        for (name, content) in PUBLIC_FILES.into_iter().zip(files) {
            tables.manifest.check_file(name, content)?;
        }
        let [projection, columns, rank, text] = files;
        Ok(Self {
            projection: Projection::read(&tables, projection)?,
            columns: Columns::read(&tables, columns)?,
            rank: RankHint::read(&tables.rank, &tables.hash, rank)?,
            fetch: FetchHint::read(&tables.fetch, &tables.hash, text)?,
            delta: Delta::default(),
            tables,
        })
    }

    /// Returns what the server says of its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns `true` if the index has changed since the delta that is known here.
    pub fn is_behind(&self, ranking: &Ranking) -> bool {
        ranking.changes > self.delta.changes
    }

    /// Takes a delta in, unless a later one is known.
    ///
    /// # Errors
    /// [`WireError::Delta`].
    pub fn update(&mut self, delta: &[u8]) -> Result<(), SearchError> {
        let delta = Delta::read(&self.tables, delta)?;
        if delta.changes > self.delta.changes {
            self.delta = delta;
        }
        Ok(())
    }

    /// Makes the masks of a search for `k` passages.
    ///
    /// # Errors
    /// [`SearchError::Count`] and [`SearchError::Random`].
    pub fn masks(&self, k: usize) -> Result<Masks, SearchError> {
        if !(1..=MOST_FETCHES).contains(&k) {
            return Err(SearchError::Count(k));
        }
        let fetch = (0..k).map(|_| Ok(FetchMask::prepare(&self.fetch, Seed::random()?)));
        let fetch = fetch.collect::<Result<_, RandomError>>()?;
        Ok(Masks { rank: RankMask::prepare(&self.rank, Seed::random()?), fetch })
    }

    /// Returns the message that asks for the ranking by a question's vector `[dim]`, and what goes on with its answer.
    /// The masks are spent, also by an error.
    ///
    /// # Errors
    /// [`WireError::Question`] for a vector of another length, or one that has no direction.
    pub fn ask(&self, masks: Masks, question: &[f32]) -> Result<(Vec<u8>, PendingRanking), SearchError> {
        let projected = self.projection.project(question)?;
        let (set, dims) = (self.tables.rank.set().number, self.tables.rank.dims());
        let head = Head { kind: Kind::Rank, set, count: dims as u16, version: self.tables.version };
        let (numbers, key) = masks.rank.encrypt(&projected.z)?;
        let message = [head.write().as_slice(), &numbers].concat();
        Ok((message, PendingRanking { head, key, projected, fetch: masks.fetch }))
    }

    /// Takes the answer to the ranking. Where it is wrong, [`Public::open`] tells, after the texts were asked for.
    pub fn ranked(&self, pending: PendingRanking, answer: &[u8]) -> Ranking {
        let PendingRanking { head, key, projected, fetch } = pending;
        let read = head
            .strip("the answer to a ranking", answer, CHANGES + self.tables.rank.answer_bytes())
            .and_then(|rest| {
                let (changes, scores) =
                    rest.split_first_chunk().ok_or(WireError::Head("the answer to a ranking"))?;
                Ok((u64::from_le_bytes(*changes), key.open(scores)?))
            });
        let (changes, scores) = match read {
            Ok((changes, scores)) => (changes, Ok(scores)),
            Err(error) => (0, Err(error)),
        };
        Ranking { projected, fetch, scores, changes: changes.max(self.delta.changes) }
    }

    /// Returns the message that asks for the columns of the best passages, of those that the delta known here leaves and
    /// adds, where [`Ranking::changes`] is above 0. There is one of the same length for any answer.
    ///
    /// # Errors
    /// Never but for columns that the tables do not have.
    pub fn choose(&self, ranking: Ranking) -> Result<(Vec<u8>, Chosen), SearchError> {
        let Ranking { projected, fetch, scores, changes } = ranking;
        let best = scores
            .map_err(SearchError::from)
            .map(|scores| self.best(&scores, fetch.len(), &projected, changes > 0));
        let (columns, places, wrong) = match best.and_then(|best| self.places(&best, &projected)) {
            Ok((columns, places)) => (columns, places, None),
            Err(error) => (Vec::new(), Vec::new(), Some(error)),
        };
        let added = places.iter().any(|place| place.column == columns.len());
        let added = added.then(|| self.delta.texts.clone());
        let (set, count) = (self.tables.fetch.set().number, fetch.len() as u16);
        let head = Head { kind: Kind::Fetch, set, count, version: self.tables.version };
        let mut message = head.write().to_vec();
        let mut keys = Vec::with_capacity(fetch.len());
        for (at, mask) in fetch.into_iter().enumerate() {
            // Where fewer are wanted, the first column stands in.
            let (numbers, key) = mask.encrypt(columns.get(at).copied().unwrap_or_default())?;
            message.extend_from_slice(&numbers);
            keys.push(key);
        }
        Ok((message, Chosen { head, keys, columns, places, added, wrong }))
    }

    /// Takes the answer to the fetch, and returns the passages, each checked.
    ///
    /// # Errors
    /// [`SearchError::Answer`] for a wrong answer to this or to the ranking; [`WireError::Spoiled`] for passages that
    /// are not those of the tables.
    pub fn open(&self, chosen: Chosen, answer: &[u8]) -> Result<Found, SearchError> {
        let Chosen { head, keys, columns, places, added, wrong } = chosen;
        let each = self.tables.fetch.answer_bytes();
        let answer = head.strip("the answer to a fetch", answer, keys.len() * each)?;
        if let Some(error) = wrong {
            return Err(error);
        }
        let read = |((key, answer), column): ((FetchKey, &[u8]), &usize)| {
            self.columns.verify(*column, key.open(answer)?)
        };
        let columns = keys
            .into_iter()
            .zip(answer.chunks_exact(each))
            .zip(&columns)
            .map(read)
            .chain(added.map(Ok))
            .collect::<Result<_, _>>()?;
        Ok(Found { columns, places })
    }

    /// Returns the bytes of the answer to a ranking.
    pub fn rank_answer_bytes(&self) -> usize {
        HEAD + CHANGES + self.tables.rank.answer_bytes()
    }

    /// Returns the bytes of the answer to a fetch of `k` columns.
    pub fn fetch_answer_bytes(&self, k: usize) -> usize {
        HEAD + k * self.tables.fetch.answer_bytes()
    }

    /// Returns the `k` best of the passages that are still there and those that were added, best first. Where nothing
    /// `has_changed`, the delta, which another search may have taken in since the ranking, is left out: a pinned search
    /// takes no changes.
    fn best(&self, scores: &[f32], k: usize, projected: &Projected, has_changed: bool) -> Vec<(At, f32)> {
        let (removed, codes) = match has_changed {
            true => (self.delta.removed.as_slice(), self.delta.codes.as_slice()),
            false => Default::default(),
        };
        let mut removed = removed.iter().copied().peekable();
        let is_there = |position: &usize| removed.next_if(|next| *next as usize == *position).is_none();
        let in_tables =
            (0..scores.len()).filter(is_there).map(|position| (At::Tables(position), scores[position]));
        let codes = codes.chunks_exact(self.tables.rank.dims()).enumerate();
        let added = codes.map(|(line, code)| (At::Delta(line), projected.score(code)));
        best(in_tables.chain(added).collect(), k)
    }

    /// Returns the columns of the best passages, each once, and where the passages are: those of the delta in a column
    /// after the others.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn places(
        &self,
        best: &[(At, f32)],
        projected: &Projected,
    ) -> Result<(Vec<usize>, Vec<Place>), SearchError> {
        let locate = |at: &At| match at {
            At::Tables(passage) => {
                self.columns.locate(*passage).map(Some).ok_or(SearchError::Passage(*passage))
            }
            At::Delta(_) => Ok(None),
        };
        let located = best.iter().map(|(at, _)| locate(at)).collect::<Result<Vec<_>, _>>()?;
        let mut columns = Vec::new();
        for (column, _) in located.iter().flatten() {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        let places = best.iter().zip(located).map(|((at, score), located)| {
            let (column, line) = match (located, at) {
                (Some((column, line)), _) => (columns.iter().position(|known| *known == column), line),
                (None, At::Delta(line) | At::Tables(line)) => (None, *line),
            };
            let score = self.rounded(projected, *score);
            Place { score, column: column.unwrap_or(columns.len()), line }
        });
        let places = places.collect();
        Ok((columns, places))
    }

    /// Returns the inner product for a decoded score, rounded to the power of ten above the manifest's noise. The
    /// decoded score is rounded to a whole number first, the power of ten above
    /// [`RankShape::noise`](super::RankShape::noise) for every set and row norm, so that what is below a whole number
    /// of the decoded error is not in the score, whatever noise the manifest names.
    fn rounded(&self, projected: &Projected, decoded: f32) -> f32 {
        let score = projected.inner_product(decoded.round_ties_even());
        let noise = self.tables.manifest.rank.noise.abs().max(1e-9);
        let step = 10f64.powf(noise.log10().ceil());
        ((f64::from(score) / step).round() * step) as f32
    }
}

impl Ranking {
    /// Returns the number of changes of the index since the tables were made of it: those that the answer tells, none
    /// where it is wrong, or those of the delta that was known, whichever are more.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

impl Masks {
    /// Returns the number of passages that the masks are for.
    pub fn count(&self) -> usize {
        self.fetch.len()
    }
}

/// The place of a passage: its position in the tables, or its line in the delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Tables(usize),
    Delta(usize),
}

/// Returns the `k` best passages with their scores, best first; equal scores by their place, those of the tables first.
fn best(mut passages: Vec<(At, f32)>, k: usize) -> Vec<(At, f32)> {
    let before = |a: &(At, f32), b: &(At, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if k < passages.len() {
        passages.select_nth_unstable_by(k, before);
        passages.truncate(k);
    }
    passages.sort_by(before);
    passages
}
