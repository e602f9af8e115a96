//! Rate limits: so many requests a second for each key, and for each address that sends without one.

use std::hash::{Hash, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpr_files::lock;

use lru::LruCache;

use crate::access::{Caller, Rate};
use crate::error::ApiError;

/// The limits of all clients.
pub(crate) struct Rates {
    /// Of clients that have no rate of their own.
    rate: Option<Rate>,
    keys: Limiter<Arc<str>>,
    addresses: Limiter<IpAddr>,
    guesses: Limiter<IpAddr>,
}

/// The rate at which an address may send keys that the server does not know: a key is not found by trying.
const GUESSES: Rate = Rate { per_second: 1.0, burst: 30 };

/// Clients that are remembered. One that is forgotten, because so many others sent since, begins anew.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

impl Rates {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        let limiter = || Limiter::new(REMEMBERED);
        Self { rate, keys: Limiter::new(REMEMBERED), addresses: limiter(), guesses: limiter() }
    }

    /// Counts a request of this sender: for its key, and without a known key for its address. One with a key that the
    /// server does not know is counted as a guess too, whatever the rate.
    pub(crate) fn take(&self, caller: &Caller) -> Result<(), ApiError> {
        let now = Instant::now();
        if let (true, Some(address)) = (caller.is_guess(), caller.address) {
            let guessed = self.guesses.take(network(address), GUESSES, now);
            guessed.map_err(|wait| ApiError::RateLimited { seconds: whole_seconds(wait) })?;
        }
        let taken = match (&caller.key, caller.address) {
            (Some(key), _) => {
                let rate = key.rate().or(self.rate);
                rate.map(|rate| self.keys.take(Arc::clone(key.name()), rate, now))
            }
            (None, Some(address)) => self.rate.map(|rate| self.addresses.take(network(address), rate, now)),
            (None, None) => None,
        };
        taken.unwrap_or(Ok(())).map_err(|wait| ApiError::RateLimited { seconds: whole_seconds(wait) })
    }
}

/// Returns the seconds after which a wait is over, at least one.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

/// Returns what stands for all addresses of one client: an IPv4 address, or the 64 bits of an IPv6 network, within
/// which a client has as many addresses as it likes.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
    }
}

/// Token buckets, of which only the clients that sent last are kept (generic cell rate algorithm: for each client the
/// time at which its bucket is full again).
struct Limiter<K> {
    full_at: Mutex<LruCache<K, Instant, RandomState>>,
}

impl<K: Hash + Eq> Limiter<K> {
    fn new(remembered: NonZeroUsize) -> Self {
        Self { full_at: Mutex::new(LruCache::with_hasher(remembered, RandomState::new())) }
    }

    /// Takes a token of this client, or returns the time until there is one.
    fn take(&self, client: K, rate: Rate, now: Instant) -> Result<(), Duration> {
        let step = Duration::from_secs_f64(1.0 / rate.per_second);
        let most = step.saturating_mul(rate.burst - 1);
        let mut full_at = lock(&self.full_at);
        let full = full_at.get(&client).copied().unwrap_or(now).max(now);
        let missing = full - now;
        if missing > most {
            return Err(missing - most);
        }
        full_at.put(client, full + step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let limiter = Limiter::new(REMEMBERED);
        let (rate, start) = (Rate::new(2.0, 3).unwrap(), Instant::now());
        let at = |ms: u64| limiter.take("a", rate, start + Duration::from_millis(ms));
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        assert_eq!(at(0), Err(Duration::from_millis(500)));
        assert_eq!(at(400), Err(Duration::from_millis(100)));
        assert_eq!([at(500), at(500)], [Ok(()), Err(Duration::from_millis(500))]);
        assert_eq!([at(60_000), at(60_000), at(60_000)], [Ok(()); 3]);
        assert!(at(60_000).is_err(), "never more than a burst");
    }

    #[test]
    fn clients_do_not_take_of_each_other_and_the_idle_are_forgotten() {
        let limiter = Limiter::new(NonZeroUsize::new(2).unwrap());
        let (rate, now) = (Rate::new(0.1, 1).unwrap(), Instant::now());
        assert_eq!([limiter.take(1, rate, now), limiter.take(2, rate, now)], [Ok(()); 2]);
        assert_eq!(limiter.take(1, rate, now), Err(Duration::from_secs(10)));
        limiter.take(3, rate, now).unwrap();
        assert_eq!(limiter.full_at.lock().unwrap().len(), 2);
        assert!(limiter.take(1, rate, now).is_err(), "the one that sent last but one is kept");
        limiter.take(2, rate, now).unwrap();
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn seconds_to_wait_are_whole_and_enough() {
        let of = |ms| whole_seconds(Duration::from_millis(ms));
        assert_eq!([of(0), of(1), of(1000), of(1001)], [1, 1, 1, 2]);
        for (per_second, burst) in [(0.0, 1), (-1.0, 1), (f64::NAN, 1), (f64::INFINITY, 1), (1.0, 0)] {
            assert_eq!(Rate::new(per_second, burst), None);
        }
    }
}
