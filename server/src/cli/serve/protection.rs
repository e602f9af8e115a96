//! Keys, hosts and addresses of a server: what is read of the command line and the environment, and what is refused
//! before anything listens.

use std::net::SocketAddr;
use std::sync::Arc;

use dpr_serve::{Access, Hosts, KeySources, Rate, Scope, Tls};

use super::args::{AccessArgs, Args, LimitArgs};
use crate::cli::CliError;

/// Tokens of fewer characters are warned of: a key of `dpr keys new` has 47.
const SHORT_TOKEN: usize = 32;

/// Characters that a token has at least where other machines may try it.
const LEAST_TOKEN: usize = 16;

/// Reads the keys of the file, of `DPR_KEYS` and of `DPR_UPDATE_TOKEN`. The last two have no flag: a command line is
/// seen by every process of the machine.
pub(super) fn access(args: &AccessArgs) -> Result<Access, CliError> {
    let update_token = variable("DPR_UPDATE_TOKEN", "take updates without a token")?;
    if update_token.as_ref().is_some_and(|token| token.len() < SHORT_TOKEN) {
        tracing::warn!(
            "DPR_UPDATE_TOKEN is short enough to be guessed: `dpr keys new` makes one that is not"
        );
    }
    let list = variable("DPR_KEYS", "take the keys of --keys alone")?;
    let sources = KeySources { file: args.keys.clone(), list, update_token, open_search: args.open_search };
    Ok(Access::new(sources)?)
}

/// Returns the most connections of one client; `None` where all clients come through proxies.
pub(super) fn connections_of_client(args: &Args) -> Option<usize> {
    let (named, all) = (args.limits.max_client_connections, args.limits.max_connections);
    named.or((args.access.trust_forwarded == 0).then_some(all.div_ceil(4)))
}

/// Returns a secret of the environment, if it is set.
fn variable(name: &str, or: &str) -> Result<Option<String>, CliError> {
    match std::env::var(name) {
        Ok(text) if text.trim().is_empty() => {
            Err(format!("{name} is blank: give it a value, or unset it to {or}").into())
        }
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        // Without the value, which the system's error quotes.
        Err(std::env::VarError::NotUnicode(_)) => Err(format!("{name} is not text").into()),
    }
}

/// Refuses to listen where other machines reach what needs no key. What cannot be resolved is left to the binding to
/// name.
pub(super) async fn check_reach(
    listen: &str,
    access: &Access,
    is_public: bool,
    takes_updates: bool,
) -> Result<(), CliError> {
    let Ok(mut addresses) = tokio::net::lookup_host(listen).await else { return Ok(()) };
    let Some(address) = addresses.find(|address| !address.ip().to_canonical().is_loopback()) else {
        return Ok(());
    };
    let port = address.port();
    if takes_updates && !access.needs_key(Scope::Write) {
        return Err(format!(
            "--allow-updates without a key would let everybody who reaches {address} change the index: give --keys (see \
             `dpr keys new --help`), set DPR_UPDATE_TOKEN, or listen on this machine alone with --listen 127.0.0.1:{port}"
        )
        .into());
    }
    let token = variable("DPR_UPDATE_TOKEN", "take updates without a token")?;
    if takes_updates && token.is_some_and(|token| token.len() < LEAST_TOKEN) {
        return Err(format!(
            "DPR_UPDATE_TOKEN has fewer than {LEAST_TOKEN} characters, and everybody who reaches {address} may try: take a key of `dpr keys new`, or listen on this machine alone with --listen 127.0.0.1:{port}"
        )
        .into());
    }
    if !is_public && !access.needs_key(Scope::Admin) {
        return Err(format!(
            "without keys everybody who reaches {address} is answered: give --keys (see `dpr keys new --help`), let them \
             with --public, or listen on this machine alone with --listen 127.0.0.1:{port}"
        )
        .into());
    }
    Ok(())
}

/// Refuses to take updates without a key from proxies, which pass on what other machines send.
pub(super) fn check_proxies(args: &Args, access: &Access) -> Result<(), CliError> {
    let proxies = args.access.trust_forwarded;
    if proxies == 0 || !args.allow_updates || access.needs_key(Scope::Write) {
        return Ok(());
    }
    Err(format!(
        "--trust-forwarded {proxies} is for requests of other machines, and --allow-updates without a key for programs \
         of this one: give --keys (see `dpr keys new --help`), set DPR_UPDATE_TOKEN, or leave out one of the two"
    )
    .into())
}

/// Returns the names under which a server may be called that listens on `address`.
pub(super) fn hosts(args: &AccessArgs, address: SocketAddr) -> Result<Hosts, CliError> {
    if !args.public && args.allow_host.is_empty() && !address.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "requests that name this server are refused, those that call its address are not: give --allow-host"
        );
    }
    hosts_of(args, address)
}

/// Returns the same without a warning: the names of a second socket, which listens on `address`.
pub(super) fn hosts_of(args: &AccessArgs, address: SocketAddr) -> Result<Hosts, CliError> {
    if args.public && args.allow_host.is_empty() {
        return Ok(Hosts::Any);
    }
    Ok(Hosts::new(address, &args.allow_host)?)
}

/// Returns what each client may send, if that is limited.
pub(super) fn rate(args: &LimitArgs) -> Result<Option<Rate>, CliError> {
    let Some(per_second) = args.rate else { return Ok(None) };
    let burst = args.burst.unwrap_or_else(|| (per_second.ceil() as u32).max(10));
    Rate::new(per_second, burst).map(Some).ok_or_else(|| match burst {
        0 => "--burst 0 lets no request through: give the requests that may come at once, at least 1".into(),
        _ => format!(
            "--rate {per_second} is out of range: give requests a second, above 0.000001 and up to 1000000, as 0.5"
        )
        .into(),
    })
}

/// Reads certificate and key, where they are given.
pub(super) fn tls(args: &AccessArgs) -> Result<Option<Arc<Tls>>, CliError> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Ok(Some(Arc::new(Tls::open(certificate, key)?)))
}

/// Tells what stands open, so that nobody learns it from others.
pub(super) fn warn_of_what_is_open(args: &AccessArgs, access: &Access) {
    if args.public && !access.needs_key(Scope::Admin) && args.metrics_listen.is_none() {
        tracing::warn!(
            "everybody may search and read /metrics and /openapi.json (--public): --metrics-listen takes the first elsewhere"
        );
    }
    if args.public && args.allow_host.is_empty() {
        tracing::warn!(
            "requests for every host are answered (--public): --allow-host names those that are meant"
        );
    }
}
