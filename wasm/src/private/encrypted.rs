//! Encrypted search: the steps of one search, with masks that are made before its question and used once.
//!
//! Experimental until it has been reviewed by somebody who did not write it.

use dpr_core::model::hex;
use dpr_core::private::encrypted::manifest::Tables;
use dpr_core::private::encrypted::search::{
    Chosen, Found, Masks, PUBLIC_FILES, PendingRanking, Public, Ranking, SearchError,
};
use dpr_core::private::encrypted::wire::{CHANGES, HEAD};
use dpr_core::private::encrypted::{ManifestError, WireError};
use js_sys::{Array, Float64Array, Uint8Array};
use wasm_bindgen::prelude::*;

use super::coded;

/// A server's description of its private tables, checked: known parameter sets, sizes that they give, and room for the
/// noise.
#[wasm_bindgen]
pub struct PrivateTables {
    tables: Tables,
}

/// The files that everybody downloads, checked, and the masks of the next search.
#[wasm_bindgen]
pub struct EncryptedTables {
    public: Public,
    masks: Option<Masks>,
}

/// One search: asked, then ranked, then chosen, then opened.
#[wasm_bindgen]
pub struct EncryptedSearch {
    step: Step,
    found: Option<Found>,
}

/// The progress of a search. A step is taken out before the next one is made: none happens twice.
enum Step {
    Asked(PendingRanking),
    Ranked(Ranking),
    Chosen(Chosen),
    Over,
}

fn refused(error: SearchError) -> JsValue {
    let code = match &error {
        SearchError::Manifest(
            ManifestError::Newer { .. } | ManifestError::Older { .. } | ManifestError::Parameter(_),
        ) => "unknown_parameters",
        SearchError::Answer(WireError::Question(_)) | SearchError::Random(_) => "encoder_failed",
        SearchError::Answer(_) => "spoiled_answer",
        SearchError::Count(_) => "invalid_option",
        _ => "invalid_manifest",
    };
    coded(code, error)
}

#[wasm_bindgen]
impl PrivateTables {
    /// Reads the manifest as the server sent it.
    ///
    /// # Errors
    /// An `Error` with the code `unknown_parameters` for sets or sizes that this release refuses, and
    /// `invalid_manifest` for another document.
    pub fn read(manifest: &[u8]) -> Result<PrivateTables, JsValue> {
        let tables = Tables::read(manifest).map_err(|error| refused(error.into()))?;
        Ok(Self { tables })
    }

    /// Returns the version: the SHA-256 of the manifest, 64 hexadecimal digits.
    #[wasm_bindgen(getter)]
    pub fn version(&self) -> String {
        hex(&self.tables.version)
    }

    /// Returns the fingerprint of the model that made the passages' vectors.
    #[wasm_bindgen(getter)]
    pub fn model(&self) -> String {
        self.tables.manifest.model_fingerprint.clone()
    }

    /// Returns the number of encrypted coordinates of a question.
    #[wasm_bindgen(getter)]
    pub fn dims(&self) -> usize {
        self.tables.rank.dims()
    }

    /// Returns name, bytes and SHA-256 of each file that everybody downloads, one after the other, in the order in
    /// which [`EncryptedTables::read`] takes them.
    #[wasm_bindgen(getter)]
    pub fn files(&self) -> Vec<JsValue> {
        let listed =
            PUBLIC_FILES.iter().filter_map(|name| Some((name, self.tables.manifest.files.get(*name)?)));
        let parts = |(name, file): (&&str, &dpr_core::model::FileEntry)| {
            [JsValue::from(*name), JsValue::from(file.bytes as f64), JsValue::from(file.sha256.as_str())]
        };
        listed.flat_map(parts).collect()
    }

    /// Returns the bytes of a search for `k` passages: the message for ranking and its answer, the message that fetches
    /// and its answer.
    pub fn traffic(&self, k: usize) -> Vec<usize> {
        let Tables { rank, fetch, .. } = &self.tables;
        let bytes = [
            rank.question_bytes(),
            CHANGES + rank.answer_bytes(),
            k * fetch.question_bytes(),
            k * fetch.answer_bytes(),
        ];
        bytes.map(|bytes| HEAD + bytes).to_vec()
    }
}

#[wasm_bindgen]
impl EncryptedTables {
    /// Reads the files in the order of [`PrivateTables::files`], each checked by its SHA-256.
    ///
    /// # Errors
    /// An `Error` with the code `invalid_manifest` for a file that is not the manifest's.
    pub fn read(
        tables: PrivateTables,
        projection: &[u8],
        columns: &[u8],
        rank: &[u8],
        text: &[u8],
    ) -> Result<EncryptedTables, JsValue> {
        let public = Public::read(tables.tables, [projection, columns, rank, text]).map_err(refused)?;
        Ok(Self { public, masks: None })
    }

    /// Makes the masks of the next search, for `k` passages, unless they are there.
    ///
    /// # Errors
    /// An `Error` with the code `invalid_option` for a number of passages that cannot be fetched.
    pub fn prepare(&mut self, k: usize) -> Result<(), JsValue> {
        if self.masks.as_ref().is_none_or(|masks| masks.count() != k) {
            self.masks = Some(self.public.masks(k).map_err(refused)?);
        }
        Ok(())
    }

    /// Begins a search for the `k` passages nearest to a question's vector; its masks are spent.
    ///
    /// # Errors
    /// As [`EncryptedTables::prepare`], and for a vector that cannot be asked for.
    pub fn ask(&mut self, vector: &[f32], k: usize) -> Result<EncryptedQuestion, JsValue> {
        self.prepare(k)?;
        let masks = self.masks.take().ok_or_else(|| refused(SearchError::Count(k)))?;
        let (message, pending) = self.public.ask(masks, vector).map_err(refused)?;
        Ok(EncryptedQuestion { message, search: EncryptedSearch { step: Step::Asked(pending), found: None } })
    }

    /// Takes the answer to the ranking, whatever it is, and returns the number of changes of the index since the tables
    /// were made, at least that of the known delta; negative where the known delta has all of them.
    ///
    /// # Errors
    /// An `Error` when the search is not at this step.
    pub fn ranked(&self, search: &mut EncryptedSearch, answer: &[u8]) -> Result<f64, JsValue> {
        let Step::Asked(pending) = std::mem::replace(&mut search.step, Step::Over) else {
            return Err(over());
        };
        let ranking = self.public.ranked(pending, answer);
        let changes = ranking.changes() as f64;
        let changes = if self.public.is_behind(&ranking) { changes } else { -changes };
        search.step = Step::Ranked(ranking);
        Ok(changes)
    }

    /// Takes in what has changed in the index since the tables were made of it.
    ///
    /// # Errors
    /// An `Error` with the code `spoiled_answer` for bytes that are not a delta of these tables.
    pub fn update(&mut self, delta: &[u8]) -> Result<(), JsValue> {
        self.public.update(delta).map_err(refused)
    }

    /// Returns the message that fetches texts.
    ///
    /// # Errors
    /// An `Error` when the search is not at this step.
    pub fn choose(&self, search: &mut EncryptedSearch) -> Result<Uint8Array, JsValue> {
        let Step::Ranked(ranking) = std::mem::replace(&mut search.step, Step::Over) else {
            return Err(over());
        };
        let (message, chosen) = self.public.choose(ranking).map_err(refused)?;
        search.step = Step::Chosen(chosen);
        Ok(Uint8Array::from(message.as_slice()))
    }

    /// Takes the answer to the fetch; [`EncryptedSearch`] tells then what was found.
    ///
    /// # Errors
    /// An `Error` with the code `spoiled_answer` when one of the two answers is not what it should be, or a text is not
    /// the one of the tables.
    pub fn open(&self, search: &mut EncryptedSearch, answer: &[u8]) -> Result<(), JsValue> {
        let Step::Chosen(chosen) = std::mem::replace(&mut search.step, Step::Over) else {
            return Err(over());
        };
        search.found = Some(self.public.open(chosen, answer).map_err(refused)?);
        Ok(())
    }
}

fn over() -> JsValue {
    JsError::new("a step of an encrypted search came twice, or before the one that it needs").into()
}

/// The message that asks for a ranking, and the search that goes on with its answer.
#[wasm_bindgen]
pub struct EncryptedQuestion {
    message: Vec<u8>,
    search: EncryptedSearch,
}

#[wasm_bindgen]
impl EncryptedQuestion {
    /// Returns the message.
    #[wasm_bindgen(getter)]
    pub fn message(&self) -> Uint8Array {
        Uint8Array::from(self.message.as_slice())
    }

    /// Returns the search, in the place of this question.
    pub fn search(self) -> EncryptedSearch {
        self.search
    }
}

#[wasm_bindgen]
impl EncryptedSearch {
    /// Returns the compressed passages of each column that was fetched: raw deflate of one JSON object a line.
    #[wasm_bindgen(getter)]
    pub fn columns(&self) -> Array {
        self.found
            .iter()
            .flat_map(|found| &found.columns)
            .map(|column| Uint8Array::from(column.as_slice()))
            .collect()
    }

    /// Returns the passages, best first: which of the columns, which line there, and the score, `[k, 3]`.
    #[wasm_bindgen(getter)]
    pub fn places(&self) -> Float64Array {
        let places = self.found.iter().flat_map(|found| &found.places);
        let numbers: Vec<f64> = places
            .flat_map(|place| [place.column as f64, place.line as f64, f64::from(place.score)])
            .collect();
        Float64Array::from(numbers.as_slice())
    }
}
