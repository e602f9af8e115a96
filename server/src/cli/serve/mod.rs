//! `dpr serve`: an index, its model and the search page over HTTP.

mod keep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dpr_core::{DeviceChoice, TextEncoder};
use serde::Serialize;

use self::keep::Kept;
use super::{CliError, output};
use crate::http::server::{self, Connections, Ended};
use crate::http::{AppState, Limits, Options, Origins, ServedModel, Serving, Updates, app, short};
use crate::index::{Compaction, VectorIndex as _};
use crate::model::ModelDir;
use crate::search::TextSearcher;
use crate::update::PassageUpdater;

/// Options of `dpr serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr serve --model model/ --index index/ --web web-demo/dist/
  dpr serve --model model/ --index index/ --listen 0.0.0.0:7878 --allow-origin https://example.org
  DPR_UPDATE_TOKEN=secret dpr serve --model model/ --index index/ --allow-updates

The server takes vectors only; there is no way to send it a question's text unless --allow-text is given. \
Sparse and hybrid ranking need the words, so they are for callers who may send them: the command line, and \
with --allow-text services at POST /v1/search/text. The search page never sends a question's text. \
On a network it belongs behind a proxy that speaks TLS: browsers give a page WebGPU, and the cache it keeps \
the model in, over https or on localhost only.")]
pub struct Args {
    /// Model directory, as `dpr import` wrote it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR", required_unless_present = "print_openapi")]
    model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it
    #[arg(long, env = "DPR_INDEX", value_name = "DIR", required_unless_present = "print_openapi")]
    index: Option<PathBuf>,
    /// Address and port; port 0 takes a free one
    #[arg(long, env = "DPR_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878")]
    listen: String,
    /// The search page's built files (index.html and assets)
    #[arg(long, env = "DPR_WEB", value_name = "DIR")]
    web: Option<PathBuf>,
    /// Origin whose pages may call this server, or `*`; repeat for more. Default: only this server's own page
    #[arg(long, env = "DPR_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    allow_origin: Vec<String>,
    /// Also take questions as text, at POST /v1/search/text: for BM25, TF-IDF and hybrid ranking, which need words.
    /// Whoever calls it gives up that the question stays where it is asked
    #[arg(long, env = "DPR_ALLOW_TEXT")]
    allow_text: bool,
    /// Also take passages to add, replace and delete, at /v1/passages; the index's directory is then written by this
    /// server alone. With DPR_UPDATE_TOKEN set, only from those who send it as their bearer token
    #[arg(long, env = "DPR_ALLOW_UPDATES")]
    allow_updates: bool,
    /// With --allow-updates: build a new version once so large a share of the passages has changed
    #[arg(long, env = "DPR_COMPACT_SHARE", value_name = "SHARE", default_value_t = Compaction::default().share, value_parser = share)]
    compact_share: f64,
    /// With --allow-updates: build a new version once so many passages have changed, whatever the share
    #[arg(long, env = "DPR_COMPACT_ROWS", value_name = "N", default_value_t = Compaction::default().rows, value_parser = at_least_one)]
    compact_rows: usize,
    /// Where to encode such questions and passages: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Largest `k` of a search
    #[arg(long, env = "DPR_MAX_K", value_name = "N", default_value = "1000", value_parser = at_least_one)]
    max_k: usize,
    /// Most vectors in one request
    #[arg(long, env = "DPR_MAX_BATCH", value_name = "N", default_value = "64", value_parser = at_least_one)]
    max_batch: usize,
    /// Most bytes in a request body
    #[arg(long, env = "DPR_MAX_BODY", value_name = "BYTES", default_value = "2097152", value_parser = at_least_one)]
    max_body: usize,
    /// Searches that run at once. Default: one for each processor
    #[arg(long, env = "DPR_CONCURRENCY", value_name = "N", value_parser = at_least_one)]
    concurrency: Option<usize>,
    /// Searches that wait when all threads are busy; the next one is answered 429. Default: 16 a thread
    #[arg(long, env = "DPR_QUEUE", value_name = "N")]
    queue: Option<usize>,
    /// Milliseconds after which a search is answered 503
    #[arg(long, env = "DPR_TIMEOUT_MS", value_name = "MS", default_value = "10000", value_parser = at_least_one)]
    timeout_ms: usize,
    /// Connections open at once; the next one waits
    #[arg(long, env = "DPR_MAX_CONNECTIONS", value_name = "N", default_value = "1024", value_parser = at_least_one)]
    max_connections: usize,
    /// Seconds that requests in flight get to finish after SIGINT or SIGTERM
    #[arg(long, env = "DPR_GRACE", value_name = "SECONDS", default_value = "10")]
    grace: u32,
    /// Print the listening line as JSON
    #[arg(long)]
    json: bool,
    /// Print the OpenAPI document and end
    #[arg(long)]
    print_openapi: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it must be a whole number".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share.is_finite() => Ok(share),
        _ => Err("it must be a number above 0".into()),
    }
}

/// What `--json` prints once the server answers searches.
#[derive(Debug, Serialize)]
struct Listening<'a> {
    listening: String,
    count: usize,
    dim: usize,
    model: &'a str,
    web_weights: bool,
}

/// Runs `dpr serve` until SIGINT or SIGTERM.
///
/// # Errors
/// When the port is taken, the model or the index is damaged, or the two do not belong together.
pub fn run(args: Args) -> Result<(), CliError> {
    if args.print_openapi {
        return output::print(&crate::http::openapi_document());
    }
    let (Some(model), Some(index)) = (args.model.clone(), args.index.clone()) else {
        return Err("--model and --index are required".into());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(args, model, index));
    // A search cut off by the end of the grace period is not waited for.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: Args, model: PathBuf, index: PathBuf) -> Result<(), CliError> {
    let options = options(&args)?;
    let token = token()?;
    let state = AppState::new(options);
    // Bound first: a taken port shows before the index is read, and health checks are answered meanwhile.
    let listener = server::bind(&args.listen).await?;
    let address = listener.local_addr()?;
    let connections = Connections {
        max: args.max_connections,
        grace: Duration::from_secs(args.grace.into()),
        ..Connections::default()
    };
    let mut running =
        tokio::spawn(server::run(listener, app(state.clone()), server::shutdown_signal(), connections));
    let wanted = Wanted { text: args.allow_text, updates: args.allow_updates, device: args.device };
    let loading = tokio::task::spawn_blocking(move || load(&model, &index, wanted));
    let Loaded { kept, model, question, passage } = tokio::select! {
        loaded = loading => loaded??,
        // Told to stop while reading.
        ended = &mut running => return Ok(ended.map(drop)?),
    };
    let live = Arc::clone(kept.live());
    let (count, dim, fingerprint) = {
        let snapshot = live.snapshot();
        (snapshot.len(), snapshot.dim(), snapshot.base().manifest.model_fingerprint.clone())
    };
    let web_weights = model.has_weights();
    let mut serving =
        Serving { search: Arc::<crate::index::LiveIndex>::clone(&live), model, text: None, updates: None };
    if let Some(encoder) = question {
        let text = TextSearcher::new(live, encoder);
        if !text.has_words() {
            tracing::warn!(
                "--allow-text, but the index holds no words, so text is ranked by vectors alone: build the index \
                 with `dpr index --sparse`"
            );
        }
        tracing::warn!("questions sent as text to /v1/search/text are taken (--allow-text)");
        serving.text = Some(Arc::new(text));
    }
    if let Some(updater) = kept.updater() {
        match &token {
            Some(_) => tracing::warn!("updates with the token are taken at /v1/passages (--allow-updates)"),
            None => tracing::warn!(
                "updates are taken from everybody who reaches {address} (--allow-updates): set DPR_UPDATE_TOKEN"
            ),
        }
        let service = Arc::new(PassageUpdater::new(updater, passage));
        serving.updates = Some(Updates::new(service, token.as_deref()));
    }
    state.publish_all(serving);
    let keeping = kept.keep(Compaction { share: args.compact_share, rows: args.compact_rows })?;
    let url = format!("http://{address}");
    if args.json {
        let line = Listening { listening: url, count, dim, model: &fingerprint, web_weights };
        output::line(format_args!("{}", serde_json::to_string(&line)?))?;
    } else {
        let model = fingerprint.get(..12).unwrap_or(&fingerprint);
        output::line(format_args!("listening on {url}  ({count} passages, {dim} dims, model {model})"))?;
    }
    let ended = running.await?;
    keeping.stop();
    if ended == Ended::CutOff {
        tracing::warn!("some requests did not finish within {} s and were cut off", args.grace);
    }
    Ok(())
}

/// The token that updates must carry. It has no flag: a command line is seen by every process of the machine.
fn token() -> Result<Option<String>, CliError> {
    match std::env::var("DPR_UPDATE_TOKEN") {
        Ok(token) if token.trim().is_empty() => {
            Err("DPR_UPDATE_TOKEN is blank: give it a value, or unset it to take updates without a token"
                .into())
        }
        Ok(token) => Ok(Some(token.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("DPR_UPDATE_TOKEN: {error}").into()),
    }
}

fn options(args: &Args) -> Result<Options, CliError> {
    let defaults = Limits::default();
    let concurrency = args.concurrency.unwrap_or(defaults.concurrency);
    if let Some(web) = &args.web
        && !web.join("index.html").is_file()
    {
        let web = web.display();
        return Err(
            format!("--web {web} holds no index.html: give the page's built files, or leave it out").into()
        );
    }
    Ok(Options {
        limits: Limits {
            max_k: args.max_k,
            max_batch: args.max_batch,
            max_body: args.max_body,
            concurrency,
            queue: args.queue.unwrap_or_else(|| concurrency.saturating_mul(16)),
            timeout: Duration::from_millis(u64::try_from(args.timeout_ms)?),
            ..defaults
        },
        web: args.web.clone(),
        origins: Origins::parse(&args.allow_origin)?,
    })
}

/// What of a model and an index a server needs.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// The question encoder, for questions sent as text.
    text: bool,
    /// The right to change the index, and the passage encoder.
    updates: bool,
    device: DeviceChoice,
}

/// What a server serves.
struct Loaded {
    kept: Kept,
    model: ServedModel,
    /// For questions sent as text.
    question: Option<TextEncoder>,
    /// For passages sent without vectors.
    passage: Option<TextEncoder>,
}

/// Reads and checks both directories, and loads the encoders that are wanted. Blocks for as long as their files take
/// to read.
fn load(model_path: &Path, index_path: &Path, wanted: Wanted) -> Result<Loaded, CliError> {
    let model = ModelDir::open(model_path)?;
    let kept = Kept::open(index_path, wanted.updates)?;
    let index = kept.live().snapshot();
    let index = &index.base().manifest;
    let (manifest, built_by) = (model.manifest(), &index.model_fingerprint);
    if built_by != manifest.space() || index.dim != manifest.dim {
        return Err(OtherModel {
            index: index_path.to_owned(),
            built_by: built_by.clone(),
            index_dim: index.dim,
            model: model_path.to_owned(),
            given: manifest.space().to_owned(),
            model_dim: manifest.dim,
        }
        .into());
    }
    let served = ServedModel::open(&model)?;
    if !served.has_weights() {
        tracing::warn!(
            "{model} has no weights for browsers, so pages cannot encode questions: \
             run `dpr export-web --model {model}` and start again",
            model = model_path.display()
        );
    }
    let question = wanted.text.then(|| model.question_encoder(wanted.device)).transpose()?;
    let passage = wanted.updates.then(|| model.passage_encoder(wanted.device));
    let passage = match passage.transpose() {
        Ok(passage) => passage,
        Err(error) => {
            tracing::warn!("passages are taken with their vectors only: {error}");
            None
        }
    };
    Ok(Loaded { kept, model: served, question, passage })
}

/// An index and a model that do not belong together.
#[derive(Debug, thiserror::Error)]
#[error(
    "the index {} was built by model {} ({index_dim} dims), but {} is model {} ({model_dim} dims): give the model \
     the index was built by, or encode and index the passages again with this one (dpr encode, dpr index)",
    .index.display(), short(.built_by), .model.display(), short(.given)
)]
struct OtherModel {
    index: PathBuf,
    built_by: String,
    index_dim: usize,
    model: PathBuf,
    given: String,
    model_dim: usize,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dpr_core::model::{FileEntry, MODEL_FORMAT, sha256_hex};
    use dpr_core::{Embedding, Family, ModelManifest, Pooling, Similarity};

    use super::*;
    use crate::data::Passage;
    use crate::http::PassageSearch;
    use crate::index::{IndexOptions, build_index};
    use crate::model::MANIFEST;
    use crate::progress::Silent;
    use crate::vectors::VectorSet;

    const PLAIN: Wanted = Wanted { text: false, updates: false, device: DeviceChoice::Cpu };

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
            files,
        };
        manifest.fingerprint = manifest.compute_fingerprint();
        fs_err::write(dir.join(MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
        manifest.fingerprint
    }

    fn write_index(dir: &Path, model_fingerprint: &str) {
        let passage = |id: &str| Passage { id: id.into(), title: format!("title {id}"), text: "text".into() };
        let vectors = VectorSet {
            model_fingerprint: model_fingerprint.to_owned(),
            dim: 3,
            passages: vec![passage("a"), passage("b")],
            rows: vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        };
        build_index(&vectors, dir, &IndexOptions::default(), &Silent).unwrap();
    }

    #[test]
    fn an_index_and_its_model_load_and_answer() {
        let dir = tempfile::tempdir().unwrap();
        let (model, index) = (dir.path().join("model"), dir.path().join("index"));
        let fingerprint = write_model(&model, "weights");
        write_index(&index, &fingerprint);
        let Loaded { kept, model: served, question, passage } = load(&model, &index, PLAIN).unwrap();
        assert!(question.is_none() && passage.is_none() && kept.updater().is_none());
        assert!(!served.has_weights());
        let described = kept.live().describe();
        assert_eq!((described.count, described.dim, described.model), (2, 3, fingerprint));
        assert!(!described.version.is_empty());
        let query = Embedding::new(vec![0.1, 0.5, 0.0], 3).unwrap();
        let hits = PassageSearch::search(kept.live().as_ref(), &[query], 5, None).unwrap();
        assert_eq!(hits[0].iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_student_serves_its_teacher_s_index_under_its_teacher_s_fingerprint() {
        let dir = tempfile::tempdir().unwrap();
        let [teacher, student, index] = ["teacher", "student", "index"].map(|name| dir.path().join(name));
        let fingerprint = write_model(&teacher, "large");
        let own = write_student(&student, "small", Some(&fingerprint));
        assert_ne!(own, fingerprint);
        write_index(&index, &fingerprint);
        let Loaded { model, .. } = load(&student, &index, PLAIN).unwrap();
        assert_eq!(model.fingerprint(), fingerprint, "what a page sends with its vector");
        let stranger = dir.path().join("stranger");
        write_student(&stranger, "small", Some(&own));
        assert!(load(&stranger, &index, PLAIN).is_err());
    }

    #[test]
    fn an_index_of_another_model_is_refused_with_both_fingerprints_and_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let (model, index) = (dir.path().join("model"), dir.path().join("index"));
        let given = write_model(&model, "weights");
        let built_by = sha256_hex(b"another model");
        write_index(&index, &built_by);
        let error = load(&model, &index, PLAIN).map(drop).unwrap_err().to_string();
        for part in [&given[..12], &built_by[..12], "model", "index", "dpr encode"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
    }

    #[test]
    fn a_web_directory_without_a_page_is_refused() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let dir = tempfile::tempdir().unwrap();
        let web = dir.path().to_str().unwrap();
        let line = Line::parse_from(["serve", "--model", "m", "--index", "i", "--web", web]);
        let error = options(&line.args).map(drop).unwrap_err().to_string();
        assert!(error.contains("index.html"), "{error}");
    }
}
