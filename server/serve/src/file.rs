//! A content-addressed file on its way to a browser: streamed, resumable, cached for good.

use std::fmt;
use std::io::{Cursor, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use dpr_core::model::sha256_hex;
use dpr_encode::model::WebChunks;
use dpr_files::Mapped;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::access::Access;
use super::error::ApiError;
use super::range::{self, Wanted};
use super::scope::Scope;

/// Bytes read from the disk at a time.
const CHUNK: usize = 256 << 10;

/// A file that may be served, and all that is sent with it.
#[derive(Debug, Clone)]
pub struct ServedFile {
    plain: Part,
    /// The last part of its address.
    pub(super) name: String,
    /// 64 hexadecimal digits.
    pub(super) sha256: String,
    media_type: &'static str,
    /// Checksums of its parts, of weights that were exported with them.
    pub(super) chunks: Option<WebChunks>,
    /// The same content compressed, of JSON and of weights that were exported so.
    gzip: Option<Part>,
}

/// A whole content and its length.
#[derive(Debug, Clone)]
struct Part {
    content: Content,
    bytes: u64,
}

/// The caches that may keep a file.
#[derive(Debug, Clone, Copy)]
enum Sharing {
    /// All, those of proxies too.
    Public,
    /// The client's own cache alone.
    Private,
}

impl Sharing {
    /// Returns who may keep the files of a model, of tables and of a projection: a cache that many share would hand out
    /// those that need a key to clients without one.
    fn of(access: &Access) -> Self {
        if access.needs_key(Scope::Search) { Self::Private } else { Self::Public }
    }

    fn cache_control(self) -> &'static str {
        match self {
            Self::Public => "public, max-age=31536000, immutable",
            Self::Private => "private, max-age=31536000, immutable",
        }
    }
}

/// The place of a file's content.
#[derive(Debug, Clone)]
enum Content {
    File(PathBuf),
    Memory(Bytes),
    /// A file that was checked in its map: another file that takes its path changes nothing of it.
    Mapped(Bytes),
}

/// The owner of the bytes of a mapped file.
struct Shared(Arc<Mapped>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Memory(content) | Self::Mapped(content) => {
                write!(f, "a document of {} bytes", content.len())
            }
        }
    }
}

impl Part {
    /// Returns these bytes of it, from `start` on.
    ///
    /// # Errors
    /// [`ApiError::Internal`] when its file is gone or no longer as long as it was.
    async fn stream(&self, start: u64, length: u64) -> Result<Body, ApiError> {
        self.read(start, length).await.map_err(|error| {
            tracing::error!("cannot serve {}: {error}", self.content);
            ApiError::Internal("a model file is gone or has changed since the server started")
        })
    }

    async fn read(&self, start: u64, length: u64) -> std::io::Result<Body> {
        let part = start as usize..(start + length) as usize;
        let path = match &self.content {
            Content::File(path) => path,
            Content::Memory(content) => return Ok(Body::from(content.slice(part))),
            // Copied piece by piece: a connection may copy a body of one piece whole. The pages were read when the file
            // was checked, so that reading rarely waits for the disk.
            Content::Mapped(content) => {
                let content = Cursor::new(content.slice(part));
                return Ok(Body::from_stream(ReaderStream::with_capacity(content, CHUNK)));
            }
        };
        let mut file = tokio::fs::File::open(path).await?;
        let found = file.metadata().await?.len();
        if found != self.bytes {
            return Err(std::io::Error::other(format!("it has {found} bytes, not {}", self.bytes)));
        }
        if start > 0 {
            file.seek(SeekFrom::Start(start)).await?;
        }
        Ok(Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK)))
    }
}

impl ServedFile {
    /// Describes the file at `path`, whose content has been checked to have this length and checksum.
    ///
    /// # Errors
    /// When a JSON file cannot be read; other files are read when they are asked for.
    pub fn new(path: PathBuf, name: &str, bytes: u64, sha256: &str) -> std::io::Result<Self> {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let gzip = if is_json { Some(compress(&fs_err::read(&path)?)?) } else { None };
        let media_type = if is_json { "application/json" } else { "application/octet-stream" };
        let (name, sha256) = (name.to_owned(), sha256.to_owned());
        Ok(Self {
            plain: Part { content: Content::File(path), bytes },
            name,
            sha256,
            media_type,
            chunks: None,
            gzip,
        })
    }

    /// Returns the file with its content compressed by gzip, in the file at `path`, which has been checked to have this
    /// length. Clients that take gzip are sent it, unless they ask for a part: parts are of the content.
    #[must_use]
    pub fn with_gzip(self, path: PathBuf, bytes: u64) -> Self {
        Self { gzip: Some(Part { content: Content::File(path), bytes }), ..self }
    }

    /// Returns the file with checksums of its parts.
    #[must_use]
    pub fn with_chunks(self, chunks: Option<WebChunks>) -> Self {
        Self { chunks, ..self }
    }

    /// Returns the length of the content.
    pub(super) fn bytes(&self) -> u64 {
        self.plain.bytes
    }

    /// Describes a JSON document that stands in no file.
    ///
    /// # Errors
    /// When it cannot be compressed.
    pub fn of_json(name: &str, content: Vec<u8>) -> std::io::Result<Self> {
        let (name, bytes, sha256) = (name.to_owned(), content.len() as u64, sha256_hex(&content));
        let gzip = Some(compress(&content)?);
        let plain = Part { content: Content::Memory(content.into()), bytes };
        Ok(Self { plain, name, sha256, media_type: "application/json", chunks: None, gzip })
    }

    /// Describes bytes that are held in memory.
    pub fn of_bytes(name: &str, content: Vec<u8>) -> Self {
        let (sha256, bytes) = (sha256_hex(&content), content.len() as u64);
        Self::octets(name, sha256, Content::Memory(content.into()), bytes)
    }

    /// Describes a mapped file, whose bytes have been checked in the map to have this checksum.
    pub(super) fn of_mapped(name: &str, mapped: &Arc<Mapped>, sha256: &str) -> Self {
        let content = Content::Mapped(Bytes::from_owner(Shared(Arc::clone(mapped))));
        Self::octets(name, sha256.to_owned(), content, mapped.bytes().len() as u64)
    }

    /// Describes a content of no particular type.
    fn octets(name: &str, sha256: String, content: Content, bytes: u64) -> Self {
        let (plain, name) = (Part { content, bytes }, name.to_owned());
        Self { plain, name, sha256, media_type: "application/octet-stream", chunks: None, gzip: None }
    }

    /// Answers a GET or HEAD with these request headers: 200, 206, 304 or 416. Caches may keep the file as `sharing`
    /// says.
    ///
    /// # Errors
    /// [`ApiError::Internal`] when the file is gone or no longer as long as it was.
    async fn respond(&self, request: &HeaderMap, sharing: Sharing) -> Result<Response, ApiError> {
        let plain_tag = format!("\"{}\"", self.sha256);
        let gzip_tag = format!("\"{}-gzip\"", self.sha256);
        let range = match text(request, &header::RANGE) {
            Some(range) if unchanged(request, &plain_tag) => range::parse(range, self.bytes()),
            _ => Wanted::Whole,
        };
        let gzip = self.gzip.as_ref().filter(|_| range == Wanted::Whole && accepts_gzip(request));
        let tag = if gzip.is_some() { &gzip_tag } else { &plain_tag };
        let response = Response::builder()
            .header(header::ETAG, tag)
            .header(header::CACHE_CONTROL, sharing.cache_control())
            .header(header::VARY, "accept-encoding");
        if text(request, &header::IF_NONE_MATCH).is_some_and(|tags| lists(tags, &[&plain_tag, &gzip_tag])) {
            return finish(response.status(StatusCode::NOT_MODIFIED), Body::empty());
        }
        let response = response.header(header::CONTENT_TYPE, self.media_type);
        if let Some(small) = gzip {
            let response =
                response.header(header::CONTENT_ENCODING, "gzip").header(header::CONTENT_LENGTH, small.bytes);
            return finish(response, small.stream(0, small.bytes).await?);
        }
        let response = response.header(header::ACCEPT_RANGES, "bytes");
        let (response, part) = match range {
            Wanted::Whole => (response, 0..self.bytes()),
            Wanted::Part(part) => {
                let content_range = format!("bytes {}-{}/{}", part.start, part.end - 1, self.bytes());
                let response = response.status(StatusCode::PARTIAL_CONTENT);
                (response.header(header::CONTENT_RANGE, content_range), part)
            }
            Wanted::Nothing => {
                let response = response
                    .status(StatusCode::RANGE_NOT_SATISFIABLE)
                    .header(header::CONTENT_RANGE, format!("bytes */{}", self.bytes()));
                return finish(response, Body::empty());
            }
        };
        let length = part.end - part.start;
        let body = self.plain.stream(part.start, length).await?;
        finish(response.header(header::CONTENT_LENGTH, length), body)
    }
}

/// Answers a request for the file that has this content and name: 200, 206, 304 or 416.
///
/// # Errors
/// [`ApiError::NotFound`] where `file` is `None`, with the path `{path}/files/{sha256}/{name}`, and those of
/// [`ServedFile::respond`].
pub(super) async fn respond_by_content(
    file: Option<&ServedFile>,
    path: &str,
    [sha256, name]: [&str; 2],
    request: &HeaderMap,
    access: &Access,
) -> Result<Response, ApiError> {
    match file {
        Some(file) => file.respond(request, Sharing::of(access)).await,
        None => Err(ApiError::NotFound(format!("{path}/files/{sha256}/{name}").chars().take(160).collect())),
    }
}

fn finish(response: axum::http::response::Builder, body: Body) -> Result<Response, ApiError> {
    response.body(body).map_err(|_| ApiError::Internal("a file's headers are malformed"))
}

fn compress(content: &[u8]) -> std::io::Result<Part> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(content)?;
    let small = encoder.finish()?;
    let bytes = small.len() as u64;
    Ok(Part { content: Content::Memory(Bytes::from(small)), bytes })
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).map(HeaderValue::to_str)?.ok()
}

/// Returns whether `If-Range`, if there is one, names this very content; else a range would join two files.
fn unchanged(request: &HeaderMap, tag: &str) -> bool {
    match request.get(header::IF_RANGE) {
        None => true,
        Some(value) => value.as_bytes() == tag.as_bytes(),
    }
}

/// Returns whether the list of an `If-None-Match` holds one of `tags`; weak comparison (RFC 9110 §13.1.2).
pub(super) fn lists(header: &str, tags: &[&str]) -> bool {
    header
        .split(',')
        .map(str::trim)
        .any(|listed| listed == "*" || tags.contains(&listed.strip_prefix("W/").unwrap_or(listed)))
}

/// Returns whether the client takes answers compressed by gzip.
pub(super) fn accepts_gzip(request: &HeaderMap) -> bool {
    request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts
                .filter_map(|part| part.strip_prefix("q="))
                .any(|weight| weight.parse::<f32>().is_ok_and(|weight| weight == 0.0));
            named && !refused
        })
    })
}
