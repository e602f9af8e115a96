//! `dpr serve`: an index, its model and the search page over HTTP.

mod keep;
mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dpr_core::DeviceChoice;
use serde::Serialize;

use self::load::{Loaded, Wanted, load};
use super::place::IndexPlace;
use super::{CliError, output};
use crate::http::server::{self, Connections, Ended};
use crate::http::{AppState, IndexBody, Limits, Options, Origins, Serving, Updates, app};
use crate::index::Compaction;
use crate::search::TextSearcher;
use crate::update::PassageUpdater;

/// Options of `dpr serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr serve --model model/ --index index/ --web web-demo/dist/
  dpr serve --model model/ --index index/ --listen 0.0.0.0:7878 --allow-origin https://example.org
  DPR_UPDATE_TOKEN=secret dpr serve --model model/ --index index/ --allow-updates
  dpr serve --model model/ --index milvus://db.example.org:19530/wikipedia

The server takes vectors only; there is no way to send it a question's text unless --allow-text is given. \
Sparse and hybrid ranking need the words, so they are for callers who may send them: the command line, and \
with --allow-text services at POST /v1/search/text. The search page never sends a question's text. \
Pages may search, but never change the index: --allow-origin is not for /v1/passages. \
On a network it belongs behind a proxy that speaks TLS: browsers give a page WebGPU, and the cache it keeps \
the model in, over https or on localhost only.")]
pub struct Args {
    /// Model directory, as `dpr import` wrote it
    #[arg(long, env = "DPR_MODEL", value_name = "DIR", required_unless_present = "print_openapi")]
    model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it, or milvus://HOST:PORT/COLLECTION
    #[arg(long, env = "DPR_INDEX", value_name = "DIR", required_unless_present = "print_openapi")]
    index: Option<IndexPlace>,
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
    /// server alone. With DPR_UPDATE_TOKEN set, only from those who send it as their bearer token; without, only on a
    /// loopback address, from programs of this machine
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
    /// Seconds from one search that is repeated exactly, to measure what a graph finds (dpr_recall_sample_* at /metrics), to
    /// the next; at least 1, or 0 for none. Answers do not wait for it
    #[arg(long, env = "DPR_RECALL_SAMPLE", value_name = "SECONDS", default_value = "10")]
    recall_sample: u32,
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

async fn serve(args: Args, model: PathBuf, index: IndexPlace) -> Result<(), CliError> {
    let options = options(&args)?;
    let token = token()?;
    if let (IndexPlace::Milvus(address), true) = (&index, args.allow_text) {
        return Err(format!(
            "--allow-text is for ranking by words, and {address} holds none: leave it out, or serve an index directory"
        )
        .into());
    }
    if args.allow_updates && token.is_none() {
        refuse_to_be_reached(&args.listen).await?;
    }
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
    let search = kept.search();
    let IndexBody { count, dim, model: fingerprint, .. } = search.describe();
    let web_weights = model.has_weights();
    let mut serving = Serving { search, model, text: None, updates: None };
    if let Some(live) = kept.live().filter(|_| args.recall_sample > 0) {
        let every = Duration::from_secs(args.recall_sample.into());
        serving.search = state.sample_recall(Arc::clone(live), every)?;
    }
    if let (Some(encoder), Some(live)) = (question, kept.live()) {
        let text = TextSearcher::new(Arc::clone(live), encoder);
        if !text.has_words() {
            tracing::warn!(
                "--allow-text, but the index holds no words, so text is ranked by vectors alone: build the index \
                 with `dpr index --sparse`"
            );
        }
        tracing::warn!("questions sent as text to /v1/search/text are taken (--allow-text)");
        serving.text = Some(Arc::new(text));
    }
    if let Some(store) = kept.store() {
        match &token {
            Some(_) => tracing::warn!("updates with the token are taken at /v1/passages (--allow-updates)"),
            None => tracing::warn!(
                "updates are taken from every program of this machine (--allow-updates): set DPR_UPDATE_TOKEN"
            ),
        }
        let service = Arc::new(PassageUpdater::new(store, passage));
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

/// Refuses an address that other machines reach, before anything listens on it: without a token all of them could change the
/// index. What cannot be resolved is left to the binding to name.
async fn refuse_to_be_reached(listen: &str) -> Result<(), CliError> {
    let Ok(mut addresses) = tokio::net::lookup_host(listen).await else { return Ok(()) };
    match addresses.find(|address| !address.ip().to_canonical().is_loopback()) {
        None => Ok(()),
        Some(address) => Err(format!(
            "--allow-updates without a token would let everybody who reaches {address} change the index: set \
             DPR_UPDATE_TOKEN, or listen on this machine alone with --listen 127.0.0.1:{}",
            address.port()
        )
        .into()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
