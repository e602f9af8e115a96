//! `dpr serve`: an index, its model and the search page over HTTP.

mod args;
mod load;
mod protection;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::net::TcpListener;

pub use self::args::Args;
use self::args::Compact;
use self::load::{Directories, Loaded, Needs, load, load_reader};
use super::traces::SET_PARENT;
use super::{CliError, output};
use crate::location::{Location, Opened};
use dpr_encode::PassageUpdater;
use dpr_files::{Background, BackgroundState};
use dpr_index::search::{Description, TextSearcher};
use dpr_index::{CompactionPolicy, DeltaLimit};
use dpr_private::{MOST_CHANGED, MOST_DELTA, Tables};
use dpr_serve::server::{self, Connections, Ended};
use dpr_serve::{
    Access, AppState, Limits, Options, Origins, Scope, ServedModel, ServedReader, ServedTables, Serving,
    Updates, app, health_app, metrics_app,
};

/// The output of `--json` once the server answers searches.
#[derive(Debug, Serialize)]
struct Listening<'a> {
    listening: String,
    /// The address of metrics and health checks, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
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
        return output::print(&dpr_serve::openapi_document());
    }
    let index = args.index.clone().ok_or("--index is required")?;
    // Connections and files count alike, and an index that runs out of them cannot be switched.
    if let Err(error) = dpr_files::raise_open_files() {
        tracing::warn!("the limit of open files and connections stays as it was: {error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(args, index));
    // A search cut off by the end of the grace period is not waited for.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: Args, index: Location) -> Result<(), CliError> {
    let access = protection::access(&args.access)?;
    if args.allow_text && !matches!(index, Location::Dir(_)) {
        return Err(format!(
            "--allow-text is for ranking by words, and {index} holds none: leave it out, or serve an index directory"
        )
        .into());
    }
    if args.private_only && args.blur.is_none() && !args.encrypted {
        return Err("--private-only leaves nothing to ask: give --blur, --encrypted or both".into());
    }
    if args.allow_text && args.model.is_none() {
        return Err("--allow-text needs --model, to encode the questions".into());
    }
    protection::check_proxies(&args, &access)?;
    protection::check_reach(&args.listen, &access, args.access.public, args.allow_updates).await?;
    let tls = protection::tls(&args.access)?;
    // Bound first: a taken port shows before the index is read, and health checks are answered meanwhile.
    let listener = server::bind(&args.listen).await?;
    let address = listener.local_addr()?;
    let metrics = match &args.access.metrics_listen {
        Some(listen) => {
            if listen.parse::<SocketAddr>().is_ok_and(|metrics| metrics == address) {
                return Err(format!(
                    "--metrics-listen {listen} is the address of --listen: give another port"
                )
                .into());
            }
            protection::check_reach(listen, &access, args.access.public, false).await?;
            Some(server::bind(listen).await?)
        }
        None => None,
    };
    let metrics_address = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    let state = AppState::new(options(&args, access, (address, metrics_address))?);
    protection::warn_of_what_is_open(&args.access, state.access());
    let reloading = state.reload_files(tls.clone(), RELOAD_EVERY)?;
    let grace = Duration::from_secs(args.grace.into());
    let connections = Connections {
        max: args.limits.max_connections,
        max_of_client: protection::connections_of_client(&args),
        closed: state.closed_connections(),
        grace,
        ..Connections::default()
    };
    if let Some(listener) = metrics {
        let connections = Connections { max: METRICS_CONNECTIONS, ..connections.clone() };
        tokio::spawn(server::run(
            listener,
            metrics_app(state.clone()),
            server::shutdown_signal(),
            connections,
        ));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let health = metrics_address.is_none().then(|| health_app(state.clone()));
    let connections = Connections { tls, health, ..connections };
    let mut running =
        tokio::spawn(server::run(listener, app(state.clone()), server::shutdown_signal(), connections));
    let rows = if args.encrypted { args.compact_rows.min(COMPACT_ENCRYPTED) } else { args.compact_rows };
    let policy = CompactionPolicy {
        share: args.compact_share,
        rows,
        texts: if args.encrypted { COMPACT_ENCRYPTED_TEXTS } else { u64::MAX },
        automatic: args.compact == Compact::Auto,
        max_delta: DeltaLimit { rows: args.max_delta_rows, ..DeltaLimit::default() },
    };
    let updates = args.allow_updates.then_some(policy);
    let needs = Needs {
        text: args.allow_text,
        updates,
        device: args.compute.device,
        precision: args.numbers.precision,
    };
    let (model, small, blur) = (args.model.clone(), args.small.clone(), args.blur.clone());
    let directories = Directories { model, small, blur };
    let (encrypted, private, reader) = (args.encrypted, index.clone(), args.reader.clone());
    let dir = index.directory().map(Path::to_path_buf);
    let loading = tokio::task::spawn_blocking(move || {
        let loaded = load(&directories, &index, needs)?;
        let tables = encrypted.then(|| load_tables(&private, &loaded)).transpose()?;
        let reader = reader.map(|path| load_reader(&path, needs.device)).transpose()?;
        Ok::<_, CliError>((loaded, tables, reader))
    });
    let (loaded, tables, reader) = tokio::select! {
        loaded = loading => loaded??,
        // Told to stop while reading.
        ended = &mut running => return Ok(ended.map(drop)?),
    };
    let Description { count, dim, model: fingerprint, .. } = loaded.index.backend.describe();
    let web_weights = loaded.model.as_ref().is_some_and(ServedModel::has_weights);
    let tables = tables.map(|tables| served_tables(&args, tables).map(Arc::new)).transpose()?;
    let following = match (&tables, dir) {
        (Some(tables), Some(dir)) => Some(follow_tables(dir, tables, &loaded.index)?),
        _ => None,
    };
    let mut kept = Some(publish(&state, &args, loaded, (tables, reader))?);
    let compaction = kept.as_ref().and_then(compaction);
    let url = format!("{scheme}://{address}");
    if args.json {
        let metrics = metrics_address.map(|address| format!("http://{address}"));
        let line = Listening { listening: url, metrics, count, dim, model: &fingerprint, web_weights };
        output::line(format_args!("{}", serde_json::to_string(&line)?))?;
    } else {
        let model = fingerprint.get(..12).unwrap_or(&fingerprint);
        output::line(format_args!("listening on {url}  ({count} passages, {dim} dims, model {model})"))?;
        if let Some(address) = metrics_address {
            output::line(format_args!("metrics and health checks on http://{address}"))?;
        }
    }
    let mut told = None;
    let ended = tokio::select! {
        ended = &mut running => ended?,
        () = server::shutdown_signal() => {
            // A compaction ends while requests in flight are answered.
            kept = None;
            told = Some(Instant::now());
            running.await?
        }
    };
    drop((kept, following, reloading));
    if let Some(compaction) = compaction {
        // At least `MOMENT`: a thread that sleeps between two compactions has to wake before it ends.
        let left = grace.saturating_sub(told.map_or(Duration::ZERO, |told| told.elapsed())).max(MOMENT);
        if !tokio::task::spawn_blocking(move || compaction.wait_for_end(left)).await? {
            tracing::warn!(
                "a compaction did not end within {} s and is cut off: the next one waits for a while",
                args.grace
            );
        }
    }
    if ended == Ended::CutOff {
        tracing::warn!("some requests did not finish within {} s and were cut off", args.grace);
    }
    Ok(())
}

/// Returns the thread that compacts the index, where this process writes it. It runs until `opened` is dropped, and its
/// end is waited for: a compaction that the end of the process cuts off counts as one that was killed.
fn compaction(opened: &Opened) -> Option<Arc<BackgroundState>> {
    opened.writer.as_ref().and(opened.live.as_ref())?.background()
}

/// Time that a background thread without work gets to end, whatever `--grace` says.
const MOMENT: Duration = Duration::from_millis(200);

/// Changed passages at which an index with private tables is compacted at the latest: half of what a delta takes, so that
/// the other half is left while a version and its tables are built.
const COMPACT_ENCRYPTED: usize = MOST_CHANGED / 2;

/// Bytes of added texts at which such an index is compacted at the latest: half of what a delta takes compressed, so
/// that texts that cannot be compressed fit too.
const COMPACT_ENCRYPTED_TEXTS: u64 = MOST_DELTA as u64 / 2;

/// Opens the private tables of the version of the index that was loaded.
fn load_tables(index: &Location, loaded: &Loaded) -> Result<Tables, CliError> {
    let dir = index.dir("--encrypted")?;
    let Description { number, version, added, removed, .. } = loaded.index.backend.describe();
    if !Tables::takes(added, removed) {
        let changed = added.saturating_add(removed);
        tracing::warn!(
            "encrypted questions are refused: {changed} passages were added or removed since the version in use was \
             built, more than {MOST_CHANGED}: run `dpr index compact --index {index}`, unless this server compacts"
        );
    }
    Ok(Tables::open(dir, number, &version)?)
}

/// Prepares private tables for serving.
fn served_tables(args: &Args, tables: Tables) -> Result<ServedTables, CliError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let concurrency = args.encrypted_concurrency.unwrap_or(threads.div_ceil(2));
    let queue = args.encrypted_queue.unwrap_or(concurrency.saturating_mul(16));
    let timeout = Duration::from_millis(u64::try_from(args.limits.timeout_ms)?);
    let (version, passages) = (tables.version(), tables.checked().manifest.passages);
    tracing::warn!(
        "encrypted questions are answered (--encrypted, experimental): {passages} passages, tables {version}"
    );
    Ok(ServedTables::new(tables, concurrency, queue, timeout)?)
}

/// Time between two looks for the private tables of a newer version.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);

/// Takes private tables of a newer version of the index into use: with the version, or once `dpr index private` has built
/// them.
fn follow_tables(dir: PathBuf, tables: &Arc<ServedTables>, opened: &Opened) -> Result<Background, CliError> {
    if let Some(live) = &opened.live {
        let (tables, dir) = (Arc::clone(tables), dir.clone());
        live.on_version(move |version| {
            if let Err(error) = tables.expect(&dir, version.number(), version.version()) {
                tracing::error!("the private tables of version {} cannot be used: {error}", version.number());
            }
        });
    }
    let (tables, index) = (Arc::clone(tables), Arc::clone(&opened.backend));
    let mut said = None;
    Ok(Background::every("private tables", FOLLOW_EVERY, move |_| {
        let newest = index.describe();
        match tables.follow(&dir, &newest) {
            Ok(None) => said = None,
            Ok(Some(version)) => tracing::info!("private tables {version} are in use"),
            // Once a version.
            Err(_) if said.as_ref() == Some(&newest.version) => {}
            Err(error) => {
                tracing::error!("the private tables of the newest version cannot be used: {error}");
                said = Some(newest.version);
            }
        }
    })?)
}

/// Time between two looks at the files of keys and certificates.
const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// Connections for metrics and health checks, where they have an address of their own.
const METRICS_CONNECTIONS: usize = 64;

/// Makes the server answer from what was loaded. Returns what keeps the index up to date.
fn publish(
    state: &AppState,
    args: &Args,
    loaded: Loaded,
    (encrypted, reader): (Option<Arc<ServedTables>>, Option<ServedReader>),
) -> Result<Opened, CliError> {
    let Loaded { index, model, question, passage, blur } = loaded;
    let mut serving = Serving {
        model,
        blur,
        encrypted,
        reader: reader.map(Arc::new),
        ..Serving::new(Arc::clone(&index.backend))
    };
    if args.recall_sample > 0 && index.backend.snapshot().is_some() {
        let every = Duration::from_secs(args.recall_sample.into());
        serving.search = state.sample_recall(Arc::clone(&index.backend), every)?;
    }
    if let Some(encoder) = question {
        let text = TextSearcher::new(Arc::clone(&index.backend), encoder);
        if !text.has_words() {
            tracing::warn!(
                "--allow-text, but there are no words to search by, so text is ranked by vectors alone: build the \
                 index with `dpr index --sparse`, and serve it by a program with the feature `sparse`"
            );
        }
        tracing::warn!("questions sent as text to /v1/search/text are taken (--allow-text)");
        if serving.reader.is_some() {
            tracing::warn!("questions sent as text to /v1/answer are answered (--reader)");
        }
        serving.text = Some(Arc::new(text));
    }
    if let Some(writer) = &index.writer {
        let access = state.access();
        match (access.needs_key(Scope::Write), access.has_key_for(Scope::Write)) {
            (true, true) => tracing::warn!("updates with a key are taken at /v1/passages (--allow-updates)"),
            (true, false) => tracing::warn!("no key has the scope `write`, so all updates are refused"),
            (false, _) => tracing::warn!(
                "updates are taken from every program of this machine (--allow-updates): set DPR_UPDATE_TOKEN or give --keys"
            ),
        }
        serving.updates = Some(Updates::new(Arc::new(PassageUpdater::new(Arc::clone(writer), passage))));
    }
    state.publish_all(serving);
    Ok(index)
}

/// Returns the options of a server that listens on `address`, and has its counters at `metrics` if that is another.
fn options(
    args: &Args,
    access: Access,
    (address, metrics): (SocketAddr, Option<SocketAddr>),
) -> Result<Options, CliError> {
    let (limits, defaults) = (&args.limits, Limits::default());
    let concurrency = limits.concurrency.unwrap_or(defaults.concurrency);
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
            max_k: limits.max_k,
            max_batch: limits.max_batch,
            max_body: limits.max_body,
            max_bodies: limits.max_bodies.unwrap_or(Limits::bodies(limits.max_body)).max(limits.max_body),
            max_answer: limits.max_answer,
            max_answers: limits
                .max_answers
                .unwrap_or(Limits::answers(limits.max_answer))
                .max(limits.max_answer),
            max_passages: limits.max_passages,
            max_ids: limits.max_ids,
            concurrency,
            queue: limits.queue.unwrap_or_else(|| concurrency.saturating_mul(16)),
            timeout: Duration::from_millis(u64::try_from(limits.timeout_ms)?),
            ..defaults
        },
        web: args.web.clone(),
        origins: Origins::parse(&args.allow_origin)?,
        hosts: protection::hosts(&args.access, address)?,
        metrics_hosts: metrics.map(|metrics| protection::hosts_of(&args.access, metrics)).transpose()?,
        access,
        rate: protection::rate(limits)?,
        trusted_proxies: args.access.trust_forwarded,
        private_only: args.private_only,
        max_stale: (args.max_stale > 0).then(|| Duration::from_secs(args.max_stale.into())),
        metrics_apart: args.access.metrics_listen.is_some(),
        trace_parent: SET_PARENT,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use dpr_serve::Hosts;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_web_directory_without_a_page_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let web = dir.path().to_str().unwrap();
        let line = Line::parse_from(["serve", "--model", "m", "--index", "i", "--web", web]);
        let address = ([127, 0, 0, 1], 7878).into();
        let error =
            options(&line.args, Access::default(), (address, None)).map(drop).unwrap_err().to_string();
        assert!(error.contains("index.html"), "{error}");
    }

    #[test]
    fn there_is_room_for_one_body_and_one_answer_of_the_largest_size() {
        let limits =
            ["--max-body", "5000", "--max-bodies", "1000", "--max-answer", "700", "--max-answers", "7"];
        let line = Line::parse_from(["serve", "--index", "i"].into_iter().chain(limits));
        let address = ([127, 0, 0, 1], 7878).into();
        let limits = options(&line.args, Access::default(), (address, None)).unwrap().limits;
        assert_eq!((limits.max_bodies, limits.max_answers), (5000, 700));
    }

    #[test]
    fn counters_may_be_asked_for_at_the_address_of_metrics_listen() {
        let line = Line::parse_from(["serve", "--index", "i"]);
        let addresses = (([127, 0, 0, 1], 7878).into(), Some(([10, 0, 0, 5], 9090).into()));
        let options = options(&line.args, Access::default(), addresses).unwrap();
        let own = Hosts::new(([10, 0, 0, 5], 9090).into(), &[]).unwrap();
        assert_eq!(options.metrics_hosts, Some(own));
    }
}
