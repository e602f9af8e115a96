//! Settings that sentence-transformers adds to a Hugging Face directory: the modules that make the vector, the
//! pooling of the tokens and the number of tokens that are read.
//!
//! Three forms are read: that of sentence-transformers before 5.4 (`pooling_mode_mean_tokens: true`,
//! `max_seq_length`), that of later versions (`pooling_mode: "mean"`, the tokenizer's `model_max_length`), and a
//! directory whose `modules.json` was not copied but whose folders were (`1_Pooling`, `2_Normalize`).

use std::path::{Component, Path, PathBuf};

use dpr_core::head::HeadStep;
use dpr_core::{Pooling, Similarity};
use serde_json::Value;

use super::ModelError;
use super::dense::DenseModule;
use super::json::optional_json;
use super::settings::SentenceSettings;

const MODULES: &str = "modules.json";

/// The folder of a Normalize module that follows Pooling, under the name that sentence-transformers gives it.
const NORMALIZE: &str = "2_Normalize";

/// The settings that the modules of a directory give.
#[derive(Debug, Default)]
pub struct SentenceModules {
    /// The folder of config.json, the tokenizer and the weights, relative to the directory.
    pub transformer: PathBuf,
    /// The pooling of tokens into one vector; `None` when no file names it.
    pub pooling: Option<PoolingModes>,
    /// The steps between pooling and the vector, but for a scaling at the end.
    pub head: Vec<HeadStep>,
    /// The Dense modules among them, in order.
    pub(super) dense: Vec<DenseModule>,
    /// `true` if the last module scales the vector to length 1.
    pub normalize: bool,
    /// Prompts, similarity and size.
    pub settings: SentenceSettings,
    /// Tokens a text is truncated to; more than the model has positions means all of them.
    pub max_tokens: Option<usize>,
    /// `true` if texts are lowercased before the tokenizer has them.
    pub lowercase: bool,
}

/// The modes of pooling that a file names.
#[derive(Debug)]
pub struct PoolingModes {
    path: PathBuf,
    modes: Vec<String>,
    /// `false` if the tokens of the prompt are left out.
    include_prompt: bool,
}

impl SentenceModules {
    /// Reads the files that sentence-transformers wrote at `root`; without such files all settings are defaults.
    /// `similarity` is what the user says of it.
    ///
    /// # Errors
    /// [`ModelError`] names the file, and the module that is not implemented.
    pub fn read(root: &Path, similarity: Option<Similarity>) -> Result<Self, ModelError> {
        let settings = SentenceSettings::read(&root.join("config_sentence_transformers.json"), similarity)?;
        let path = root.join(MODULES);
        let mut modules = match optional_json(&path)? {
            Some(listed) => from_list(root, &path, &listed)?,
            None => from_folders(root)?,
        };
        modules.settings = settings;
        let transformer = root.join(&modules.transformer);
        let config = optional_json(&transformer.join("sentence_bert_config.json"))?.unwrap_or_default();
        modules.lowercase = config["do_lower_case"] == true;
        modules.max_tokens = match config["max_seq_length"].as_u64() {
            None if modules.pooling.is_some() => Some(tokenizer_limit(&transformer)?),
            limit => limit.map(clamped),
        };
        Ok(modules)
    }

    /// Reads the files that sentence-transformers wrote of a cross-encoder at `root`; without such files all settings
    /// are defaults, and the tokenizer says the limit of tokens.
    ///
    /// # Errors
    /// [`ModelError`] names the file, and the module that follows the Transformer.
    pub(super) fn read_cross_encoder(root: &Path) -> Result<Self, ModelError> {
        let settings = SentenceSettings::read_cross_encoder(&root.join("config_sentence_transformers.json"))?;
        let path = root.join(MODULES);
        let transformer = match optional_json(&path)? {
            None => PathBuf::new(),
            Some(listed) => match listed.as_array().map(Vec::len) {
                Some(2..) => {
                    let class = listed[1]["type"].as_str().unwrap_or("a module without a type");
                    let what = format!("{class} follows the Transformer, and a cross-encoder is one alone");
                    return Err(ModelError::NotACrossEncoder { path, what });
                }
                _ => from_list(root, &path, &listed)?.transformer,
            },
        };
        let dir = if transformer.as_os_str().is_empty() { root.to_owned() } else { root.join(&transformer) };
        let config = optional_json(&dir.join("sentence_bert_config.json"))?.unwrap_or_default();
        let max_tokens = match config["max_seq_length"].as_u64() {
            None => tokenizer_limit(&dir)?,
            Some(limit) => clamped(limit),
        };
        let lowercase = config["do_lower_case"] == true;
        Ok(Self { transformer, settings, max_tokens: Some(max_tokens), lowercase, ..Self::default() })
    }
}

impl PoolingModes {
    /// Returns the mode, if there is exactly one and it is implemented.
    ///
    /// # Errors
    /// [`ModelError::Pooling`] names the file and its modes.
    pub fn supported(&self) -> Result<Pooling, ModelError> {
        let pooling = match self.modes.as_slice() {
            [mode] => Pooling::from_sentence_transformers(mode),
            _ => None,
        };
        pooling
            .ok_or_else(|| ModelError::Pooling { path: self.path.clone(), modes: self.modes.join(" and ") })
    }

    /// Refuses pooling without the tokens of the prompt, where there is a prompt.
    ///
    /// # Errors
    /// [`ModelError::PromptLeftOut`] names the file.
    pub fn check_prompt(&self, prompted: bool) -> Result<(), ModelError> {
        match prompted && !self.include_prompt {
            true => Err(ModelError::PromptLeftOut(self.path.clone())),
            false => Ok(()),
        }
    }

    /// Returns the modes in `1_Pooling/config.json`, in either form. Without a mode it is the mean, as in
    /// sentence-transformers.
    fn from_config(path: PathBuf, config: &Value) -> Self {
        let mut modes: Vec<String> = match config.get("pooling_mode") {
            Some(Value::Array(modes)) => modes.iter().map(mode_name).collect(),
            Some(mode) if !mode.is_null() => vec![mode_name(mode)],
            _ => old_modes(config),
        };
        if modes.is_empty() {
            modes.push("mean".into());
        }
        Self { path, modes, include_prompt: config["include_prompt"] != false }
    }
}

fn mode_name(mode: &Value) -> String {
    mode.as_str().map_or_else(|| mode.to_string(), str::to_lowercase)
}

/// Returns the modes of the old form, one boolean each: `pooling_mode_cls_token`, `pooling_mode_mean_tokens`, ….
fn old_modes(config: &Value) -> Vec<String> {
    let fields = config.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| value.as_bool() == Some(true))
        .filter_map(|(name, _)| name.strip_prefix("pooling_mode_"))
        .map(|name| match name {
            "mean_sqrt_len_tokens" => name.to_owned(),
            _ => name.trim_end_matches("_tokens").trim_end_matches("_token").to_owned(),
        })
        .collect()
}

/// Reads `modules.json`: a Transformer, then Pooling, then Dense and Normalize in any order, under old or new names.
fn from_list(root: &Path, path: &Path, listed: &Value) -> Result<SentenceModules, ModelError> {
    let bad = |reason: &str| ModelError::Json { path: path.into(), reason: reason.into() };
    let mut modules = SentenceModules::default();
    for (place, module) in listed.as_array().ok_or_else(|| bad("it is not a list"))?.iter().enumerate() {
        let class = module["type"].as_str().ok_or_else(|| bad("a module has no type"))?;
        let folder = module["path"].as_str().unwrap_or_default();
        // A module lies below the directory; anything else could read outside it.
        if !Path::new(folder).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(bad("a module's path leaves the directory"));
        }
        let config = root.join(folder).join("config.json");
        match (place, kind(class)) {
            (0, "Transformer") => modules.transformer = folder.into(),
            (1, "Pooling") => {
                let values = optional_json(&config)?.ok_or_else(|| ModelError::MissingFile {
                    dir: root.join(folder),
                    file: "config.json",
                    fix: "fetch the model again, with its folders",
                })?;
                modules.pooling = Some(PoolingModes::from_config(config, &values));
            }
            (2.., "Normalize") if of_the_vector(&config)? => modules.head.push(HeadStep::Normalize),
            (2.., "Dense") => {
                let dense = DenseModule::read(root.join(folder))?;
                modules.head.push(HeadStep::Dense(dense.layer));
                modules.dense.push(dense);
            }
            // It leaves out numbers while a model is trained, and none afterwards.
            (2.., "Dropout") => {}
            _ => return Err(unsupported(path, class, folder)),
        }
    }
    while modules.head.last() == Some(&HeadStep::Normalize) {
        modules.head.pop();
        modules.normalize = true;
    }
    // Without pooling there is a vector a token; `--pooling` may still say how to make one of them.
    modules.pooling.get_or_insert_with(|| PoolingModes {
        path: path.into(),
        modes: Vec::new(),
        include_prompt: true,
    });
    Ok(modules)
}

/// Returns the name of a module of sentence-transformers, whose package has moved more than once; empty for others'
/// modules.
fn kind(class: &str) -> &str {
    let ours = class.strip_prefix("sentence_transformers.");
    ours.and_then(|path| path.rsplit('.').next()).unwrap_or_default()
}

/// Returns whether a Normalize module scales the text's vector; newer ones may scale each token's.
fn of_the_vector(config: &Path) -> Result<bool, ModelError> {
    let config = optional_json(config)?.unwrap_or_default();
    let names = [&config["module_input_name"], &config["module_output_name"]];
    Ok(names.iter().all(|name| name.is_null() || **name == "sentence_embedding"))
}

fn unsupported(path: &Path, class: &str, folder: &str) -> ModelError {
    let name = class.rsplit('.').next().unwrap_or(class);
    ModelError::Module { path: path.into(), name: name.into(), class: class.into(), folder: folder.into() }
}

/// Returns the modules that the folders' names give where `modules.json` was not copied.
fn from_folders(root: &Path) -> Result<SentenceModules, ModelError> {
    if ["2_Dense", "3_Dense"].iter().any(|folder| root.join(folder).exists()) {
        return Err(ModelError::MissingFile {
            dir: root.into(),
            file: MODULES,
            fix: "it says where the module Dense of 2_Dense or 3_Dense stands: fetch the model again, with all of its \
                  files",
        });
    }
    let config = root.join("1_Pooling/config.json");
    let pooling = optional_json(&config)?.map(|values| PoolingModes::from_config(config, &values));
    let folder = root.join(NORMALIZE);
    let normalize = folder.exists();
    if normalize && !of_the_vector(&folder.join("config.json"))? {
        return Err(unsupported(&folder, "Normalize", NORMALIZE));
    }
    Ok(SentenceModules { pooling, normalize, ..SentenceModules::default() })
}

/// Returns `model_max_length` of `tokenizer_config.json`. Where no limit was set, the field is absent or a number
/// like 1e30, and sentence-transformers reads as many tokens as there are positions.
pub(super) fn tokenizer_limit(dir: &Path) -> Result<usize, ModelError> {
    let config = optional_json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    Ok(config["model_max_length"].as_u64().map_or(usize::MAX, clamped))
}

fn clamped(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
