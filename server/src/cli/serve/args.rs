//! Options of `dpr serve`.

use std::path::PathBuf;

use dpr_index::{CompactionPolicy, DeltaLimit};

use crate::cli::args::{DeviceArgs, PrecisionArgs, at_least_one};
use crate::cli::traces::TraceArgs;
use crate::location::Location;

/// The time at which a server builds new versions of its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Compact {
    /// When so much has changed.
    Auto,
    /// Never.
    Off,
}

/// Options of `dpr serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr serve --model model/ --index index/ --web web-demo/dist/
  dpr serve --model model/ --index index/ --listen 0.0.0.0:7878 --public --allow-origin https://example.org
  dpr serve --model model/ --index index/ --listen 0.0.0.0:443 --keys keys.toml --allow-host search.example.org \
--tls-cert cert.pem --tls-key key.pem --metrics-listen 127.0.0.1:9090
  dpr serve --model model/ --index index/ --encrypted
  dpr serve --model model/ --index index/ --encrypted --private-only
  DPR_UPDATE_TOKEN=secret dpr serve --model model/ --index index/ --allow-updates
  dpr serve --model model/ --index index/ --blur blur/
  dpr serve --model model/ --index index/ --allow-text --reader reader/
  dpr serve --model model/ --index milvus://db.example.org:19530/wikipedia
  dpr serve --model model/ --index 'postgres://web@db.example.org/shop?table=articles'

The server takes vectors only; there is no way to send it a question's text unless --allow-text is given. \
Sparse and hybrid ranking need the words, so they are for callers who may send them: the command line, and \
with --allow-text services at POST /v1/search/text. The search page never sends a question's text. \
Pages may search, but never change the index: --allow-origin is not for /v1/passages. \
Without keys (dpr keys new --help) it listens on this machine alone, unless told --public. \
Browsers give a page WebGPU, and the cache it keeps the model in, over https or on localhost only: give --tls-cert and \
--tls-key, or put it behind a proxy that speaks TLS.")]
pub struct Args {
    /// Model directory, as `dpr import` wrote it. Without one nothing is encoded here and pages get no model: vectors
    /// are made elsewhere
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it, on a local file system; its files must never be changed in place. Or
    /// milvus://HOST:PORT/COLLECTION, or postgres://USER@HOST/DATABASE?table=NAME
    #[arg(
        long,
        env = "DPR_INDEX",
        hide_env_values = true,
        value_name = "DIR",
        required_unless_present = "print_openapi"
    )]
    pub(super) index: Option<Location>,
    /// Address and port; port 0 takes a free one
    #[arg(long, env = "DPR_LISTEN", value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878")]
    pub(super) listen: String,
    /// The search page's built files (index.html and assets)
    #[arg(long, env = "DPR_WEB", value_name = "DIR")]
    pub(super) web: Option<PathBuf>,
    /// Origin whose pages may call this server, or `*`; repeat for more. Default: only this server's own page
    #[arg(long, env = "DPR_ALLOW_ORIGIN", value_name = "ORIGIN", value_delimiter = ',')]
    pub(super) allow_origin: Vec<String>,
    /// Also take questions as text, at POST /v1/search/text: for BM25, TF-IDF and hybrid ranking, which need words.
    /// Whoever calls it gives up that the question stays where it is asked
    #[arg(long, env = "DPR_ALLOW_TEXT")]
    pub(super) allow_text: bool,
    /// With --allow-text: also answer such questions, at POST /v1/answer, by this model directory of a reader, as
    /// `dpr import --reader` wrote it. Each answer is read by one thread
    #[arg(long, env = "DPR_READER", value_name = "DIR", requires = "allow_text")]
    pub(super) reader: Option<PathBuf>,
    /// Also offer the question encoder of this model directory, which `dpr distill` wrote with --model as teacher, to
    /// pages that ask for the small one
    #[arg(long, env = "DPR_SMALL", value_name = "DIR", requires = "model")]
    pub(super) small: Option<PathBuf>,
    /// Also offer blurred search at /v1/private, by this blur directory, as `dpr index blur` wrote it
    #[arg(long, env = "DPR_BLUR", value_name = "DIR")]
    pub(super) blur: Option<PathBuf>,
    /// Also take passages to add, replace and delete, at /v1/passages; the index's directory is then written by this
    /// server alone. Only with a key of the scope `write`, or with the token in DPR_UPDATE_TOKEN; without any, only
    /// on a loopback address, from programs of this machine
    #[arg(long, env = "DPR_ALLOW_UPDATES")]
    pub(super) allow_updates: bool,
    /// With --allow-updates: build a new version once so large a share of the passages has changed
    #[arg(long, env = "DPR_COMPACT_SHARE", value_name = "SHARE", default_value_t = CompactionPolicy::default().share, value_parser = share)]
    pub(super) compact_share: f64,
    /// With --allow-updates: build a new version once so many passages have changed, whatever the share
    #[arg(long, env = "DPR_COMPACT_ROWS", value_name = "N", default_value_t = CompactionPolicy::default().rows, value_parser = at_least_one)]
    pub(super) compact_rows: usize,
    /// With --allow-updates: when new versions are built: auto (as --compact-share and --compact-rows say), or off (by
    /// `dpr index compact`, while this server is stopped)
    #[arg(long, env = "DPR_COMPACT", value_name = "WHEN", value_enum, default_value_t = Compact::Auto)]
    pub(super) compact: Compact,
    /// With --allow-updates: answer 429 to further passages while so many added ones wait for a new version to be built
    #[arg(long, env = "DPR_MAX_DELTA_ROWS", value_name = "N", default_value_t = DeltaLimit::default().rows, value_parser = at_least_one)]
    pub(super) max_delta_rows: usize,
    /// Also answer encrypted questions, at /v1/encrypted, from the private tables that `dpr index private` wrote beside
    /// the index (experimental). Changes of the index since reach clients as a delta of up to 2,000 passages, so with
    /// --allow-updates a new version is built after 1,000 at the latest, with tables of its own
    #[arg(long, env = "DPR_ENCRYPTED")]
    pub(super) encrypted: bool,
    /// With --encrypted: tables that are read at once. Default: half the processors
    #[arg(long, env = "DPR_ENCRYPTED_CONCURRENCY", value_name = "N", value_parser = at_least_one)]
    pub(super) encrypted_concurrency: Option<usize>,
    /// With --encrypted: questions that wait; the next one is answered 429. Default: 16 for each that is read at once
    #[arg(long, env = "DPR_ENCRYPTED_QUEUE", value_name = "N")]
    pub(super) encrypted_queue: Option<usize>,
    /// Answer private questions alone, by the modes of --blur and --encrypted: whoever sends a question's vector is
    /// answered 403. A server with --encrypted and no --blur can be told nothing about a question
    #[arg(long, env = "DPR_PRIVATE_ONLY", conflicts_with = "allow_text")]
    pub(super) private_only: bool,
    #[command(flatten)]
    pub(super) compute: DeviceArgs,
    #[command(flatten)]
    pub(super) numbers: PrecisionArgs,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    #[command(flatten)]
    pub(in crate::cli) traces: TraceArgs,
    /// Seconds from one search that is repeated exactly, to measure what a graph finds (dpr_recall_sample_* at
    /// /metrics), to the next; at least 1, or 0 for none. Answers do not wait for it
    #[arg(
        long,
        env = "DPR_RECALL_SAMPLE",
        value_name = "SECONDS",
        default_value = "10",
        help_heading = "Operation"
    )]
    pub(super) recall_sample: u32,
    /// Seconds for which an index that others write may not have been brought up to date before /readyz answers 503;
    /// 0 for ever. Mind that one bad version makes all servers that follow an index stale at once
    #[arg(
        long,
        env = "DPR_MAX_STALE",
        value_name = "SECONDS",
        default_value = "0",
        help_heading = "Operation"
    )]
    pub(super) max_stale: u32,
    /// Seconds that requests in flight get to finish after SIGINT or SIGTERM, and a compaction to stop
    #[arg(long, env = "DPR_GRACE", value_name = "SECONDS", default_value = "10", help_heading = "Operation")]
    pub(super) grace: u32,
    /// Print the listening line as JSON
    #[arg(long, help_heading = "Operation")]
    pub(super) json: bool,
    /// Print the OpenAPI document and end
    #[arg(long, help_heading = "Operation")]
    pub(super) print_openapi: bool,
}

/// Who may do what, and how connections are protected.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access")]
pub(super) struct AccessArgs {
    /// File of keys (TOML), as `dpr keys new` prints entries for it; read again when it changes. Requests then need a
    /// key: of the scope `search` for searches, model and index, `write` for changes, `admin` for /metrics, any for
    /// /openapi.json. The same text may stand in DPR_KEYS
    #[arg(long, env = "DPR_KEYS_FILE", value_name = "FILE")]
    pub(super) keys: Option<PathBuf>,
    /// With keys: searches, model and index need none all the same
    #[arg(long, env = "DPR_OPEN_SEARCH")]
    pub(super) open_search: bool,
    /// Listen on an address that other machines reach although searches need no key
    #[arg(long, env = "DPR_PUBLIC")]
    pub(super) public: bool,
    /// Name under which this server is called; repeat for more. Requests for other hosts are answered 421. Default: the
    /// address in --listen, localhost and loopback addresses; with --listen 0.0.0.0 or `[::]` every address in numbers;
    /// with --public every name
    #[arg(long, env = "DPR_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(super) allow_host: Vec<String>,
    /// Certificate in PEM, with those between it and its root: connections then speak TLS, with HTTP/1.1 or HTTP/2.
    /// Both files are read again when they change
    #[arg(long, env = "DPR_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM, not encrypted
    #[arg(long, env = "DPR_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Address and port for /metrics, /healthz and /readyz, without TLS; --listen then has them no more
    #[arg(long, env = "DPR_METRICS_LISTEN", value_name = "ADDRESS:PORT")]
    pub(super) metrics_listen: Option<String>,
    /// Proxies in front of this server: an address that sends too much is the one that the farthest of them wrote into
    /// x-forwarded-for
    #[arg(long, env = "DPR_TRUST_FORWARDED", value_name = "HOPS", default_value = "0")]
    pub(super) trust_forwarded: usize,
}

/// Limits of requests and connections.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Largest `k` of a search
    #[arg(long, env = "DPR_MAX_K", value_name = "N", default_value = "1000", value_parser = at_least_one)]
    pub(super) max_k: usize,
    /// Most vectors in one request
    #[arg(long, env = "DPR_MAX_BATCH", value_name = "N", default_value = "64", value_parser = at_least_one)]
    pub(super) max_batch: usize,
    /// Most bytes in a request body
    #[arg(long, env = "DPR_MAX_BODY", value_name = "BYTES", default_value = "2097152", value_parser = at_least_one)]
    pub(super) max_body: usize,
    /// Most bytes of all request bodies together, read or waiting; at least --max-body. Default: 64 times --max-body
    #[arg(long, env = "DPR_MAX_BODIES", value_name = "BYTES", value_parser = at_least_one)]
    pub(super) max_bodies: Option<usize>,
    /// Most bytes of a search's answer
    #[arg(long, env = "DPR_MAX_ANSWER", value_name = "BYTES", default_value = "67108864", value_parser = at_least_one)]
    pub(super) max_answer: usize,
    /// Most bytes of answers that clients have not read yet, together. Default: 4 times --max-answer
    #[arg(long, env = "DPR_MAX_ANSWERS", value_name = "BYTES", value_parser = at_least_one)]
    pub(super) max_answers: Option<usize>,
    /// Most passages that one update adds
    #[arg(long, env = "DPR_MAX_PASSAGES", value_name = "N", default_value = "1000", value_parser = at_least_one)]
    pub(super) max_passages: usize,
    /// Most ids that one update deletes
    #[arg(long, env = "DPR_MAX_IDS", value_name = "N", default_value = "10000", value_parser = at_least_one)]
    pub(super) max_ids: usize,
    /// Searches that run at once. Default: one for each processor
    #[arg(long, env = "DPR_CONCURRENCY", value_name = "N", value_parser = at_least_one)]
    pub(super) concurrency: Option<usize>,
    /// Searches that wait when all threads are busy; the next one is answered 429. Default: 16 a thread
    #[arg(long, env = "DPR_QUEUE", value_name = "N")]
    pub(super) queue: Option<usize>,
    /// Milliseconds after which a search is answered 503
    #[arg(long, env = "DPR_TIMEOUT_MS", value_name = "MS", default_value = "10000", value_parser = at_least_one)]
    pub(super) timeout_ms: usize,
    /// Connections open at once, and beside them requests that HTTP/2 connections send beside each other. A few more
    /// are answered health checks alone, the next ones wait
    #[arg(long, env = "DPR_MAX_CONNECTIONS", value_name = "N", default_value = "1024", value_parser = at_least_one)]
    pub(super) max_connections: usize,
    /// Connections that one address (IPv6: network of 64 bits) may have open; more are closed at once. HTTP/2
    /// requests beside each other have as many places of their own. This machine may have any number, and so may all
    /// with --trust-forwarded. Default: a quarter of --max-connections
    #[arg(long, env = "DPR_MAX_CLIENT_CONNECTIONS", value_name = "N", value_parser = at_least_one)]
    pub(super) max_client_connections: Option<usize>,
    /// Requests a second that each key may send, and each address (IPv6: network of 64 bits) without one; more are
    /// answered 429. Keys may have a rate of their own in their file. Default: no limit
    #[arg(long, env = "DPR_RATE", value_name = "PER_SECOND", allow_negative_numbers = true)]
    pub(super) rate: Option<f64>,
    /// With --rate: requests that it may send at once. Default: those of a second, at least 10
    #[arg(long, env = "DPR_BURST", value_name = "N", requires = "rate")]
    pub(super) burst: Option<u32>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share.is_finite() => Ok(share),
        _ => Err("it must be a number above 0".into()),
    }
}
