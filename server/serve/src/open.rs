//! The connections that are open: which of them makes room for another, and how many places one client has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dpr_files::lock;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use super::activity::Activity;
use super::rate::network;

/// A counter of connections that were closed at once because their client had as many as it may; a clone is another
/// handle to it.
#[derive(Debug, Clone, Default)]
pub struct ClosedConnections(pub(super) Counter);

/// The open connections of a server; a clone is another handle to them.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenConnections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Open>,
    /// Told whenever a client gives back a place of its share.
    returned: Notify,
    closed: ClosedConnections,
}

#[derive(Debug, Default)]
struct Open {
    activities: HashMap<u64, Arc<Activity>>,
    next: u64,
    /// Places of each kind of each client that is counted.
    of_client: HashMap<(IpAddr, Kind), usize>,
}

/// What a place is for. A client may have as many of one kind as of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Connection,
    /// A request that a connection sends beside others.
    Request,
}

/// The share of one client in the places of a server: a place for each connection, and for each request that one sends
/// beside others. A clone is another handle to it.
#[derive(Debug, Clone)]
pub(super) struct Share {
    all: OpenConnections,
    /// The client and the most places of each kind that it may take; `None` for a client that is not counted.
    client: Option<(IpAddr, usize)>,
}

/// A place of a client's share, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct ShareTaken(Share, Kind);

/// A connection among the open ones, until this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    all: OpenConnections,
    id: u64,
    taken: ShareTaken,
    pub(super) activity: Arc<Activity>,
}

impl OpenConnections {
    /// Returns no connections; `closed` counts those that [`add`](Self::add) refuses.
    pub(super) fn new(closed: ClosedConnections) -> Self {
        Self(Arc::new(Shared { closed, ..Shared::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.0.open)
    }

    /// Adds a connection from `address`. Returns `None` where that client has `most` open already. An IPv6 network of
    /// 64 bits is one client; this machine is not counted, since a proxy that runs here is all of its clients.
    pub(super) fn add(&self, address: IpAddr, most: Option<usize>) -> Option<Opened> {
        let most = most.filter(|_| !address.to_canonical().is_loopback());
        let share = Share { all: self.clone(), client: most.map(|most| (network(address), most)) };
        let Some(taken) = share.take(Kind::Connection) else {
            self.0.closed.0.inc();
            return None;
        };
        let mut open = self.lock();
        let (id, activity) = (open.next, Activity::new());
        open.next += 1;
        open.activities.insert(id, Arc::clone(&activity));
        Some(Opened { all: self.clone(), id, taken, activity })
    }

    /// Closes the connection that has been without a request for longest, if that is `least` or more.
    pub(super) fn close_longest_idle(&self, least: Duration) {
        let mut open = self.lock();
        let idle = open.activities.iter().filter_map(|(id, activity)| Some((activity.idle_for()?, *id)));
        if let Some((for_long, id)) = idle.max()
            && for_long >= least
            && let Some(activity) = open.activities.remove(&id)
        {
            activity.close();
        }
    }
}

impl Opened {
    /// Returns the share of the connection's client.
    pub(super) fn share(&self) -> Share {
        self.taken.0.clone()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.all.lock().activities.remove(&self.id);
    }
}

impl Share {
    /// Takes a place. Returns `None` where the client has as many of this kind as it may have.
    fn take(&self, kind: Kind) -> Option<ShareTaken> {
        if let Some((client, most)) = self.client {
            let mut open = self.all.lock();
            let count = open.of_client.entry((client, kind)).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(ShareTaken(self.clone(), kind))
    }

    /// Waits for a place of a request that comes beside another one of its connection.
    pub(super) async fn take_for_request(&self) -> ShareTaken {
        loop {
            // Made before the check: a place that is given back between the check and the wait wakes it.
            let returned = self.all.0.returned.notified();
            if let Some(taken) = self.take(Kind::Request) {
                return taken;
            }
            returned.await;
        }
    }
}

impl Drop for ShareTaken {
    fn drop(&mut self) {
        let Self(Share { all, client: Some((client, _)) }, kind) = self else { return };
        let place = (*client, *kind);
        let mut open = all.lock();
        if let Some(count) = open.of_client.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                open.of_client.remove(&place);
            }
        }
        drop(open);
        all.0.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_connections_and_this_machine_any_number() {
        let closed = ClosedConnections::default();
        let open = OpenConnections::new(closed.clone());
        let add = |address: &str| open.add(address.parse().unwrap(), Some(2));
        let held = [add("192.0.2.7"), add("::ffff:192.0.2.7")];
        assert!(held.iter().all(Option::is_some) && add("192.0.2.7").is_none());
        assert!(add("192.0.2.8").is_some(), "another client");
        let network = [add("2001:db8::1"), add("2001:db8::2")];
        assert!(network.iter().all(Option::is_some) && add("2001:db8::3").is_none(), "one network");
        let [first, _second] = held;
        drop(first);
        let again = add("192.0.2.7");
        assert!(again.is_some() && add("192.0.2.7").is_none());
        let local: Vec<_> = (0..9).map(|_| add("127.0.0.1")).collect();
        assert!(local.iter().all(Option::is_some));
        assert!(open.add("192.0.2.7".parse().unwrap(), None).is_some(), "without a limit");
        assert_eq!(closed.0.get(), 3, "as many as were refused");
    }

    #[tokio::test]
    async fn requests_beside_each_other_have_as_many_places_as_connections_and_wait_for_one() {
        let open = OpenConnections::default();
        let wait = Duration::from_millis(20);
        for most in [1, 2] {
            let add = || open.add("192.0.2.7".parse().unwrap(), Some(most)).unwrap();
            let connections: Vec<_> = (0..most).map(|_| add()).collect();
            let share = connections[0].share();
            let mut requests = Vec::new();
            for _ in 0..most {
                requests.push(tokio::time::timeout(wait, share.take_for_request()).await.unwrap());
            }
            assert!(tokio::time::timeout(wait, share.take_for_request()).await.is_err());
            let waiting = tokio::spawn(async move { share.take_for_request().await });
            tokio::time::sleep(wait).await;
            assert!(!waiting.is_finished());
            drop(requests.pop());
            let _request = waiting.await.unwrap();
            assert!(open.add("192.0.2.7".parse().unwrap(), Some(most)).is_none(), "connections count apart");
        }
        let local = open.add("127.0.0.1".parse().unwrap(), Some(1)).unwrap().share();
        let _taken = [local.take_for_request().await, local.take_for_request().await];
    }

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room() {
        let open = OpenConnections::default();
        let add = || open.add("127.0.0.1".parse().unwrap(), None).unwrap();
        let [busy, first, second] = [(); 3].map(|()| add());
        let _request = busy.activity.begin();
        open.close_longest_idle(Duration::from_secs(3600));
        let closed = async |opened: &Opened| {
            tokio::time::timeout(Duration::from_millis(20), opened.activity.closed()).await.is_ok()
        };
        assert!(!closed(&first).await, "none has been idle for an hour");
        std::thread::sleep(Duration::from_millis(5));
        // A request later, the second is idle for less long than the first.
        drop(second.activity.begin());
        open.close_longest_idle(Duration::ZERO);
        assert!(closed(&first).await && !closed(&second).await && !closed(&busy).await);
        open.close_longest_idle(Duration::ZERO);
        open.close_longest_idle(Duration::ZERO);
        assert!(closed(&second).await && !closed(&busy).await, "one with a request is never closed");
    }
}
