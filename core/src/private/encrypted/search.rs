//! A search, step by step: what is sent, in which order, and what opens the answers.
//!
//! What is sent depends on the tables and on the number of passages alone: one message for ranking, then always as many
//! columns as passages are wanted, whatever the question and the answers are. A wrong answer to the ranking is told
//! after the texts were asked for. Each step consumes the one before it, so nothing can be sent or opened twice.

use super::manifest::{
    COLUMNS, Columns, ManifestError, PROJECTION, Projected, Projection, RANK_HINT, TEXT_HINT, Tables,
};
use super::wire::{HEAD, Head, Kind, WireError};
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

/// A search whose columns have been asked for.
pub struct Chosen {
    head: Head,
    keys: Vec<FetchKey>,
    columns: Vec<usize>,
    places: Vec<Place>,
    /// The error of the answer to the ranking, if it had one.
    wrong: Option<SearchError>,
}

/// The place of a passage that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// About the inner product of the question's and the passage's vector, rounded to the power of ten above its noise.
    pub score: f32,
    /// Which of [`Found::columns`] holds it.
    pub column: usize,
    /// Its line there.
    pub line: usize,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The compressed passages of columns (raw deflate of one JSON object a line), each checked by its hash.
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
            tables,
        })
    }

    /// Returns what the server says of its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
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

    /// Takes the answer to the ranking, and returns the message that asks for the columns of the best passages. There
    /// is one of the same length for any answer: [`Public::open`] tells what was wrong with it.
    ///
    /// # Errors
    /// Never but for columns that the tables do not have.
    pub fn choose(&self, pending: PendingRanking, answer: &[u8]) -> Result<(Vec<u8>, Chosen), SearchError> {
        let PendingRanking { head, key, projected, fetch } = pending;
        let ranked = head
            .strip("the answer to a ranking", answer, self.tables.rank.answer_bytes())
            .and_then(|scores| key.open(scores))
            .map_err(SearchError::from)
            .and_then(|scores| self.places(&best(&scores, fetch.len()), &projected));
        let (columns, places, wrong) = match ranked {
            Ok((columns, places)) => (columns, places, None),
            Err(error) => (Vec::new(), Vec::new(), Some(error)),
        };
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
        Ok((message, Chosen { head, keys, columns, places, wrong }))
    }

    /// Takes the answer to the fetch, and returns the passages, each checked.
    ///
    /// # Errors
    /// [`SearchError::Answer`] for a wrong answer to this or to the ranking; [`WireError::Spoiled`] for passages that
    /// are not those of the tables.
    pub fn open(&self, chosen: Chosen, answer: &[u8]) -> Result<Found, SearchError> {
        let Chosen { head, keys, columns, places, wrong } = chosen;
        let each = self.tables.fetch.answer_bytes();
        let answer = head.strip("the answer to a fetch", answer, keys.len() * each)?;
        if let Some(error) = wrong {
            return Err(error);
        }
        let read = |((key, answer), column): ((FetchKey, &[u8]), &usize)| {
            let bytes = key.open(answer)?;
            self.columns.verify(*column, &bytes).map(<[u8]>::to_vec)
        };
        let columns = keys
            .into_iter()
            .zip(answer.chunks_exact(each))
            .zip(&columns)
            .map(read)
            .collect::<Result<_, _>>()?;
        Ok(Found { columns, places })
    }

    /// Returns the bytes of the answer to a ranking.
    pub fn rank_answer_bytes(&self) -> usize {
        HEAD + self.tables.rank.answer_bytes()
    }

    /// Returns the bytes of the answer to a fetch of `k` columns.
    pub fn fetch_answer_bytes(&self, k: usize) -> usize {
        HEAD + k * self.tables.fetch.answer_bytes()
    }

    /// Returns the columns of the best passages, each once, and where the passages are.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn places(
        &self,
        best: &[(usize, f32)],
        projected: &Projected,
    ) -> Result<(Vec<usize>, Vec<Place>), SearchError> {
        let (mut columns, mut places) = (Vec::new(), Vec::new());
        for (passage, score) in best {
            let found = self.columns.locate(*passage);
            let (column, line) = found.ok_or(SearchError::Passage(*passage))?;
            let at = columns.iter().position(|known| *known == column).unwrap_or(columns.len());
            if at == columns.len() {
                columns.push(column);
            }
            let score = self.rounded(projected.inner_product(*score));
            places.push(Place { score, column: at, line });
        }
        Ok((columns, places))
    }

    /// Returns a score without the digits that are noise.
    fn rounded(&self, score: f32) -> f32 {
        let noise = self.tables.manifest.rank.noise.abs().max(1e-9);
        let step = 10f64.powf(noise.log10().ceil());
        ((f64::from(score) / step).round() * step) as f32
    }
}

impl Masks {
    /// Returns the number of passages that the masks are for.
    pub fn count(&self) -> usize {
        self.fetch.len()
    }
}

/// Returns the `k` best passages with their scores, best first; equal scores by their place.
fn best(scores: &[f32], k: usize) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
    let before = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if k < order.len() {
        order.select_nth_unstable_by(k, before);
        order.truncate(k);
    }
    order.sort_by(before);
    order
}
