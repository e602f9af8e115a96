//! The connections that are open: which of them makes room for another, and how many one client has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use dpr_files::lock;

use super::activity::Activity;
use super::rate::network;

/// The open connections of a server; a clone is another handle to them.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenConnections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    activities: HashMap<u64, Arc<Activity>>,
    next: u64,
    /// Connections of each client that is counted.
    of_client: HashMap<IpAddr, usize>,
}

/// A connection among the open ones, until this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    all: OpenConnections,
    id: u64,
    /// The client whose connections are counted.
    client: Option<IpAddr>,
    pub(super) activity: Arc<Activity>,
}

impl OpenConnections {
    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.0)
    }

    /// Adds a connection from `address`. Returns `None` where that client has `most` already. An IPv6 network of 64
    /// bits is one client; this machine is not counted, since a proxy that runs here is all of its clients.
    pub(super) fn add(&self, address: IpAddr, most: Option<usize>) -> Option<Opened> {
        let is_counted = most.is_some() && !address.to_canonical().is_loopback();
        let client = is_counted.then(|| network(address));
        let mut open = self.lock();
        if let Some(client) = client {
            let count = open.of_client.entry(client).or_default();
            if most.is_some_and(|most| *count >= most) {
                return None;
            }
            *count += 1;
        }
        let (id, activity) = (open.next, Activity::new());
        open.next += 1;
        open.activities.insert(id, Arc::clone(&activity));
        Some(Opened { all: self.clone(), id, client, activity })
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

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.activities.remove(&self.id);
        if let Some(client) = self.client
            && let Some(count) = open.of_client.get_mut(&client)
        {
            *count -= 1;
            if *count == 0 {
                open.of_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_connections_and_this_machine_any_number() {
        let open = OpenConnections::default();
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
