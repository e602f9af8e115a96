//! The data that a server serves: an index and the model it was built by, read and checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dpr_core::{DeviceChoice, Precision, TextEncoder};
use dpr_encode::model::{ModelDir, ReaderDir};
use dpr_index::CompactionPolicy;
use dpr_index::search::Description;
use dpr_serve::{ServedBlur, ServedModel, ServedReader};

use crate::cli::CliError;
use crate::cli::model_of_index::{OtherTeacher, model_of_index};
use crate::cli::privacy::open_blur;
use crate::location::{Location, Opened};

/// The parts of a model and an index that a server needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The question encoder, for questions sent as text.
    pub(super) text: bool,
    /// The right to change the index, and the passage encoder.
    pub(super) updates: Option<CompactionPolicy>,
    pub(super) device: DeviceChoice,
    pub(super) precision: Precision,
}

/// Reads and checks the reader of a model directory.
pub(super) fn load_reader(path: &Path, device: DeviceChoice) -> Result<ServedReader, CliError> {
    let dir = ReaderDir::open(path)?;
    let fingerprint = dir.manifest().fingerprint.clone();
    Ok(ServedReader::new(dir.reader(device)?, fingerprint))
}

/// The data that a server serves.
pub(super) struct Loaded {
    pub(super) index: Opened,
    /// For pages.
    pub(super) model: Option<ServedModel>,
    /// For questions sent as text.
    pub(super) question: Option<TextEncoder>,
    /// For passages sent without vectors.
    pub(super) passage: Option<TextEncoder>,
    /// For blurred search.
    pub(super) blur: Option<Arc<ServedBlur>>,
}

/// The directories beside an index, where they are given.
#[derive(Clone, Debug, Default)]
pub(super) struct Directories {
    pub(super) model: Option<PathBuf>,
    /// A model whose question encoder pages may load in the place of the model's.
    pub(super) small: Option<PathBuf>,
    pub(super) blur: Option<PathBuf>,
}

/// Reads and checks the index and the directories beside it, and loads the encoders that are wanted. Blocks for as long
/// as their files take to read.
pub(super) fn load(directories: &Directories, location: &Location, needs: Needs) -> Result<Loaded, CliError> {
    let Directories { model, small, blur } = directories;
    let [model_path, small, blur] = [model, small, blur].map(Option::as_deref);
    let model = model_path.map(|path| ModelDir::open(path).map(|model| (path, model))).transpose()?;
    let index = location.serve(needs.updates)?;
    let Description { model: built_by, dim, .. } = index.backend.describe();
    let blur = blur.map(|path| served_blur(path, &built_by, dim)).transpose()?;
    let Some((path, model)) = model else {
        return Ok(Loaded { index, model: None, question: None, passage: None, blur });
    };
    let whole = model.manifest().dim;
    let model = model_of_index(location, (&built_by, dim), path, model)?.in_precision(needs.precision);
    let mut served = ServedModel::open(&model)?;
    if !served.has_weights() {
        let narrower = if dim == whole { String::new() } else { format!(" --dim {dim}") };
        tracing::warn!(
            "{model} has no weights for browsers, so pages cannot encode questions: \
             run `dpr export-web --model {model}{narrower}` and start again",
            model = path.display()
        );
    }
    if let Some(path) = small {
        served = served.with_small(small_model(path, location, (&built_by, dim))?);
    }
    let question = needs.text.then(|| model.question_encoder(needs.device)).transpose()?;
    let passage = needs.updates.map(|_| model.passage_encoder(needs.device));
    let passage = match passage.transpose() {
        Ok(passage) => passage,
        Err(error) => {
            tracing::warn!("passages are taken with their vectors only: {error}");
            None
        }
    };
    Ok(Loaded { index, model: Some(served), question, passage, blur })
}

/// Reads the model whose question encoder pages may load in the place of the served one's.
fn small_model(path: &Path, location: &Location, vectors: (&str, usize)) -> Result<ServedModel, CliError> {
    let (built_by, dim) = vectors;
    let given = ModelDir::open(path)?;
    let space = given.manifest().space().to_owned();
    let model = given.of_vectors(built_by, dim)?.ok_or_else(|| OtherTeacher {
        index: location.to_string(),
        built_by: built_by.to_owned(),
        model: path.to_owned(),
        given: space,
    })?;
    let served = ServedModel::open(&model)?;
    if !served.has_weights() {
        tracing::warn!(
            "{model} has no weights for browsers, so it is not offered: run `dpr export-web --model {model} --dtype q4` \
             and start again",
            model = path.display()
        );
    }
    Ok(served)
}

/// Reads a blur directory of an index that was built by the model `built_by`, with vectors of `dim` numbers.
fn served_blur(path: &Path, built_by: &str, dim: usize) -> Result<Arc<ServedBlur>, CliError> {
    let dir = open_blur(path, (built_by, dim))?;
    if dir.manifest().levels.is_empty() {
        tracing::warn!(
            "{} offers no level of blurred search: no number of candidates was enough",
            path.display()
        );
    }
    Ok(Arc::new(ServedBlur::new(dir)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dpr_core::model::{FileEntry, MODEL_FORMAT, sha256_hex};
    use dpr_core::{Embedding, Family, ModelManifest, Pooling, Prompts, Similarity, TitleJoin};

    use super::*;
    use dpr_data::Passage;
    use dpr_encode::model::MANIFEST;
    use dpr_files::progress::Silent;
    use dpr_index::vectors::VectorSet;
    use dpr_index::{IndexOptions, build_index};

    const PLAIN: Needs =
        Needs { text: false, updates: None, device: DeviceChoice::Cpu, precision: Precision::F32 };

    fn of(model: &Path) -> Directories {
        Directories { model: Some(model.to_owned()), ..Directories::default() }
    }

    /// A model directory of three files that are no encoder, but are what the manifest says.
    fn write_model(dir: &Path, weights: &str) -> String {
        write_student(dir, weights, None)
    }

    /// As [`write_model`], with the fingerprint of a teacher if it has one.
    fn write_student(dir: &Path, weights: &str, teacher: Option<&str>) -> String {
        let mut files = BTreeMap::new();
        fs_err::create_dir_all(dir.join("question_encoder")).unwrap();
        for (name, content) in
            [("config.json", "{}"), ("tokenizer.json", "{}"), ("model.safetensors", weights)]
        {
            let name = format!("question_encoder/{name}");
            fs_err::write(dir.join(&name), content).unwrap();
            let sha256 = sha256_hex(content.as_bytes());
            files.insert(name, FileEntry { bytes: content.len() as u64, sha256 });
        }
        let mut manifest = ModelManifest {
            format_version: MODEL_FORMAT,
            name: "test".into(),
            fingerprint: String::new(),
            family: Family::Bert,
            pooling: Pooling::Cls,
            normalize: false,
            similarity: Similarity::Dot,
            dim: 3,
            max_question_tokens: 64,
            max_passage_tokens: 256,
            shared: true,
            space: teacher.map(str::to_owned),
            prompts: Prompts::default(),
            title_join: TitleJoin::default(),
            matryoshka: false,
            files,
        };
        manifest.fingerprint = manifest.compute_fingerprint();
        fs_err::write(dir.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        manifest.fingerprint
    }

    fn write_index(dir: &Path, model_fingerprint: &str) {
        let passage = |id: &str| Passage::new(id, format!("title {id}"), "text");
        let passages = vec![passage("a"), passage("b")];
        let vectors = VectorSet::new(model_fingerprint, 3, passages, vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        build_index(&vectors, dir, &IndexOptions::default(), &Silent).unwrap();
    }

    #[test]
    fn an_index_and_its_model_load_and_answer() {
        let dir = tempfile::tempdir().unwrap();
        let (model, index) = (dir.path().join("model"), dir.path().join("index"));
        let fingerprint = write_model(&model, "weights");
        write_index(&index, &fingerprint);
        let Loaded { index: opened, model: served, question, passage, .. } =
            load(&of(&model), &Location::Dir(index.clone()), PLAIN).unwrap();
        assert!(question.is_none() && passage.is_none() && opened.writer.is_none());
        assert!(!served.unwrap().has_weights());
        let described = opened.backend.describe();
        assert_eq!((described.count, described.dim, described.model), (2, 3, fingerprint));
        assert!(!described.version.is_empty());
        let query = Embedding::new(vec![0.1, 0.5, 0.0], 3).unwrap();
        let hits = opened.backend.search(&[query], 5, None).unwrap();
        assert_eq!(hits[0].iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn an_index_loads_without_a_model() {
        let dir = tempfile::tempdir().unwrap();
        write_index(dir.path(), &sha256_hex(b"a model that is elsewhere"));
        let loaded = load(&Directories::default(), &Location::Dir(dir.path().to_owned()), PLAIN).unwrap();
        assert!(loaded.model.is_none() && loaded.question.is_none() && loaded.passage.is_none());
        assert_eq!(loaded.index.backend.describe().count, 2);
    }

    #[test]
    fn a_student_serves_its_teacher_s_index_under_its_teacher_s_fingerprint() {
        let dir = tempfile::tempdir().unwrap();
        let [teacher, student, index] = ["teacher", "student", "index"].map(|name| dir.path().join(name));
        let fingerprint = write_model(&teacher, "large");
        let own = write_student(&student, "small", Some(&fingerprint));
        assert_ne!(own, fingerprint);
        write_index(&index, &fingerprint);
        let Loaded { model, .. } = load(&of(&student), &Location::Dir(index.clone()), PLAIN).unwrap();
        assert_eq!(model.unwrap().fingerprint(), fingerprint, "what a page sends with its vector");
        let both = Directories { small: Some(student.clone()), ..of(&teacher) };
        let Loaded { model, .. } = load(&both, &Location::Dir(index.clone()), PLAIN).unwrap();
        assert_eq!(model.unwrap().fingerprint(), fingerprint);
        let stranger = dir.path().join("stranger");
        write_student(&stranger, "small", Some(&own));
        assert!(load(&of(&stranger), &Location::Dir(index.clone()), PLAIN).is_err());
        let both = Directories { small: Some(stranger), ..of(&teacher) };
        let error = load(&both, &Location::Dir(index.clone()), PLAIN).map(drop).unwrap_err().to_string();
        assert!(error.contains("stranger"), "{error}");
    }

    #[test]
    fn a_model_that_lists_files_outside_its_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        write_model(&model, "weights");
        fs_err::write(dir.path().join("secret"), "weights").unwrap();
        let mut manifest = ModelDir::open(&model).unwrap().manifest().clone();
        let entry = manifest.files["question_encoder/model.safetensors"].clone();
        manifest.files.insert("../secret".into(), entry.clone());
        manifest.fingerprint = manifest.compute_fingerprint();
        fs_err::write(model.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        let error = ModelDir::open(&model).unwrap_err().to_string();
        assert!(error.contains("model.json") && error.contains("../secret"), "{error}");

        let fingerprint = write_model(&model, "weights");
        let web = model.join("web");
        fs_err::create_dir_all(&web).unwrap();
        let export = |path: &str, bytes: u64| {
            let weights =
                serde_json::json!({ "q8": { "path": path, "bytes": bytes, "sha256": entry.sha256 } });
            let web_json =
                serde_json::json!({ "format_version": 1, "fingerprint": fingerprint, "weights": weights });
            fs_err::write(web.join("web.json"), web_json.to_string()).unwrap();
            ModelDir::open(&model).unwrap().web_exports().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(export("question_encoder/model.safetensors", 7), Ok(()));
        let error = export("../secret", 7).unwrap_err();
        assert!(error.contains("web.json") && error.contains("../secret"), "{error}");
        let error = export("question_encoder/model.safetensors", 8).unwrap_err();
        assert!(error.contains("size") && error.contains("model.safetensors"), "{error}");
    }

    #[test]
    fn an_index_of_another_model_is_refused_with_both_fingerprints_and_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let (model, index) = (dir.path().join("model"), dir.path().join("index"));
        let given = write_model(&model, "weights");
        let built_by = sha256_hex(b"another model");
        write_index(&index, &built_by);
        let error =
            load(&of(&model), &Location::Dir(index.clone()), PLAIN).map(drop).unwrap_err().to_string();
        for part in [&given[..12], &built_by[..12], "model", "index", "dpr encode"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
    }
}
