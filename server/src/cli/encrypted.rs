//! `dpr search --privacy encrypted`: the reference client of encrypted search, over HTTP.

use std::path::Path;
use std::time::Duration;

use dpr_core::private::encrypted::manifest::Tables;
use dpr_core::{DeviceChoice, Precision};
use dpr_data::Question;
use dpr_encode::model::ModelDir;
use dpr_index::search::Hit;
use dpr_private::MOST_FETCHES;
use dpr_private::client::{Client, Transport, TransportError};

use super::CliError;
use super::model_of_index::model_of_index;
use super::privacy::PrivacyArgs;
use crate::location::Location;

/// The environment variable of the key that the server wants, if it wants one.
const KEY: &str = "DPR_SERVER_KEY";

/// The time that one request may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The way to a server.
struct Http {
    agent: ureq::Agent,
    address: String,
    key: Option<String>,
}

/// The error that a server returned in the place of an answer.
#[derive(Debug, thiserror::Error)]
#[error("{address} answered {status} to {path}: {text}")]
struct Refused {
    address: String,
    path: String,
    status: u16,
    text: String,
}

impl Http {
    fn new(address: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .user_agent("dpr")
            .build();
        let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
        Self { agent: config.into(), address: address.trim_end_matches('/').to_owned(), key }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Reads an answer of at most `most` bytes.
    fn read(
        &self,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
        most: u64,
    ) -> Result<Vec<u8>, TransportError> {
        let failed = |error: ureq::Error| format!("{}: {error}", self.address);
        let mut answer = answer.map_err(failed)?;
        let status = answer.status().as_u16();
        // One byte more, so that an answer that is too long is seen as one.
        let limit = if status == 200 { most.saturating_add(1) } else { 4096 };
        let body = answer.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
        if status == 200 {
            return Ok(body);
        }
        let message = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let field = |name: &str| message.as_ref().and_then(|body| body["error"][name].as_str());
        // The server's words, on one line and not too many.
        let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(300).collect::<String>();
        let mut text = short(field("message").unwrap_or("no reason was given"));
        if let Some(fix) = field("fix").map(short).filter(|fix| !fix.is_empty()) {
            text.push_str(": ");
            text.push_str(&fix);
        }
        let (address, path) = (self.address.clone(), path.to_owned());
        Err(Refused { address, path, status, text }.into())
    }
}

impl Transport for Http {
    fn get(&mut self, path: &str, most: u64) -> Result<Vec<u8>, TransportError> {
        let mut request = self.agent.get(self.url(path));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        self.read(path, request.call(), most)
    }

    fn post(&mut self, path: &str, message: &[u8], most: u64) -> Result<Vec<u8>, TransportError> {
        let mut request = self.agent.post(self.url(path)).header("content-type", "application/octet-stream");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        self.read(path, request.send(message), most)
    }
}

/// A connection to the private tables of a server, and the encoder of questions to it.
pub(super) struct Encrypted {
    client: Client<Http>,
    encoder: dpr_core::TextEncoder,
    model: String,
}

impl Encrypted {
    /// Connects to the server at `location`, downloads what everybody downloads, and loads the question encoder.
    pub(super) fn open(
        location: &Location,
        model: Option<&Path>,
        (device, precision): (DeviceChoice, Precision),
        privacy: &PrivacyArgs,
        k: usize,
    ) -> Result<Self, CliError> {
        let Location::Server(address) = location else {
            return Err(format!(
                "--privacy encrypted asks a server, and {location} is none: give --server URL; nothing was searched"
            )
            .into());
        };
        if !(1..=MOST_FETCHES).contains(&k) {
            return Err(format!("--k is {k}; an encrypted search finds 1 to {MOST_FETCHES} passages").into());
        }
        let path = model.ok_or("--privacy encrypted needs --model, to encode the questions with")?;
        let mut http = Http::new(address);
        let json = http.get("/v1/encrypted", 64 << 10)?;
        let tables = Tables::read(&json)?;
        let (fingerprint, dim) = (tables.manifest.model_fingerprint, tables.manifest.dim);
        let model = model_of_index(location, (&fingerprint, dim), path, ModelDir::open(path)?)?;
        let encoder = model.in_precision(precision).question_encoder(device)?;
        let client = Client::connect(http, &fingerprint, privacy.expect_version())?;
        Ok(Self { client, encoder, model: fingerprint })
    }

    /// Returns the fingerprint of the model.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the `k` best passages for each question, best first.
    pub(super) fn search(&mut self, questions: &[Question], k: usize) -> Result<Vec<Vec<Hit>>, CliError> {
        let search = |question: &Question| {
            let vector = self.encoder.encode_question(&question.text)?;
            Ok(self.client.search(vector.as_slice(), k)?)
        };
        questions.iter().map(search).collect()
    }
}
