//! The collector: its address, and requests to it by ureq, which is in the program anyway.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::http::Uri;

use crate::cli::CliError;

/// Time that one request to the collector may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read.
const MOST: u64 = 64 << 10;

/// The path below the endpoint that takes traces.
const PATH: &str = "/v1/traces";

/// Returns the address that traces are sent to, below an endpoint.
pub(super) fn address(endpoint: &str) -> Result<String, CliError> {
    let is_collector = |uri: &Uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        is_http && uri.host().is_some_and(|host| !host.is_empty()) && uri.query().is_none()
    };
    // A password must not stand in an error.
    if endpoint.contains('@') {
        return Err("the address in --otlp-endpoint holds a user or a password: give them in \
                    OTEL_EXPORTER_OTLP_HEADERS (authorization=Basic%20...)"
            .into());
    }
    if !endpoint.parse::<Uri>().is_ok_and(|uri| is_collector(&uri)) {
        return Err(format!(
            "--otlp-endpoint {endpoint:?} is not an http or https address: give one such as http://127.0.0.1:4318"
        )
        .into());
    }
    let base = endpoint.trim_end_matches('/');
    Ok(format!("{}{PATH}", base.strip_suffix(PATH).unwrap_or(base)))
}

/// The way to the collector. It waits for answers on the thread that sends, which does nothing else.
#[derive(Debug)]
pub(super) struct Collector {
    agent: ureq::Agent,
    address: String,
    /// `true` since a request failed.
    is_away: AtomicBool,
}

impl Collector {
    pub(super) fn new(address: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .user_agent("dpr")
            .build();
        Self { agent: config.into(), address: address.to_owned(), is_away: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let (head, mut body) = self.agent.run(Request::from_parts(head, &body[..]))?.into_parts();
        let body = body.with_config().limit(MOST).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }

    /// Tells once that the collector does not take traces, and once that it does again.
    fn tell(&self, failure: Option<&dyn std::fmt::Display>) {
        let was_away = self.is_away.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(why) if !was_away => tracing::warn!(
                "traces cannot be sent to {}, so they are dropped: {why}; requests do not wait for them",
                self.address
            ),
            None if was_away => tracing::info!("traces are sent to {} again", self.address),
            _ => {}
        }
    }
}

impl HttpClient for Collector {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let answer = self.send(request);
        match &answer {
            Ok(answer) if answer.status().is_success() => self.tell(None),
            Ok(answer) => self.tell(Some(&format_args!("it answered {}", answer.status().as_u16()))),
            Err(error) => self.tell(Some(error)),
        }
        Box::pin(std::future::ready(answer.map_err(HttpError::from)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_below_the_endpoint_whatever_its_end() {
        for (endpoint, wanted) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example.org/otlp/", "https://collector.example.org/otlp/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            assert_eq!(address(endpoint).unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_not_an_http_address_is_refused_and_a_password_is_not_repeated() {
        for endpoint in ["localhost:4318", "grpc://h:4317", "http://", "/v1/traces", "http://h/?a=b", "a b"] {
            let error = address(endpoint).unwrap_err().to_string();
            assert!(error.contains(endpoint) && error.contains("http://127.0.0.1:4318"), "{error}");
        }
        let error = address("http://me:secret@h:4318").unwrap_err().to_string();
        assert!(error.contains("OTEL_EXPORTER_OTLP_HEADERS") && !error.contains("secret"), "{error}");
    }
}
