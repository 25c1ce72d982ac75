//! Endpoints by the EndpointSlices of a Kubernetes service.
//!
//! One list, then a watch from its version on, by the client library's watcher: a watch that was
//! cut is taken up where it ended, and a version that the API server no longer has (410) leads to
//! a new list. Every event makes the whole list anew (`core::discovery`), so none can be missed in
//! part. Added here:
//!
//! * Nothing waits for ever: a list, and a watch that has gone silent, are given up and begun
//!   again. Nothing is asked again and again without a pause either (`pace`).
//! * While the API server is away, the pool keeps what it has.
//! * What was asked and failed is asked with a new client by a configuration read anew, so a mended
//!   kubeconfig needs no restart.

mod client;
mod pace;
mod slices;
#[cfg(test)]
mod tests;
mod trouble;

use super::Pauses;
use super::outage::Outage;
use crate::config::Discovery;
use crate::core::discovery::{PortRef, merge, ports};
use crate::upstream::pool::Pool;
use client::{Connect, WATCH_SECONDS, cluster};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use slices::Slices;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use trouble::Trouble;

/// The label by which slices name their service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Longest time until the next piece of a list.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// What is followed.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub source: Discovery,
    pub namespace: String,
    pub service: String,
    pub port: PortRef,
}

/// The task of one pool.
pub(super) struct Follower {
    pool: Arc<Pool>,
    wanted: Wanted,
    connect: Connect,
    pauses: Pauses,
    /// For versions that are gone. They have a count of their own, so that the list which one needs
    /// is not put off by the cut that brought it about.
    expiries: Pauses,
    outage: Outage,
    /// What the watch has said, whole.
    slices: Slices,
    /// A list that is under way.
    listing: Option<Slices>,
    /// The ports that were offered when none of them was the wanted one.
    other_ports: BTreeSet<String>,
}

impl Follower {
    /// By the cluster that the environment names.
    pub fn new(pool: Arc<Pool>, wanted: Wanted) -> Self {
        Self::with(pool, wanted, cluster())
    }

    fn with(pool: Arc<Pool>, wanted: Wanted, connect: Connect) -> Self {
        Self {
            outage: Outage::new(pool.id().clone()),
            pool,
            wanted,
            connect,
            pauses: Pauses::default(),
            expiries: Pauses::default(),
            slices: Slices::default(),
            listing: None,
            other_ports: BTreeSet::new(),
        }
    }

    /// Never ends, not by a panic of the client library either: `watch` lists anew, so nothing
    /// that a panic left half done is used.
    pub async fn run(mut self) {
        loop {
            let attempt = AssertUnwindSafe(Box::pin(self.attempt())).catch_unwind().await;
            let trouble = attempt.unwrap_or_else(|_| Trouble::panicked());
            self.pause(&trouble).await;
        }
    }

    /// With a new client, until another one is needed.
    async fn attempt(&mut self) -> Trouble {
        let connected = (self.connect)().await;
        match connected {
            Ok(client) => self.watch(client).await,
            Err(error) => Trouble::no_cluster(&error),
        }
    }

    /// Follow the slices until that has to begin again.
    async fn watch(&mut self, client: Client) -> Trouble {
        let api: Api<EndpointSlice> = Api::namespaced(client, &self.wanted.namespace);
        let service = format!("{SERVICE_LABEL}={}", self.wanted.service);
        let config = watcher::Config::default().labels(&service).timeout(WATCH_SECONDS);
        let mut events = pin!(watcher(api, config));
        self.listing = None;
        loop {
            let next = match self.listing {
                Some(_) => timeout(LIST_LIMIT, events.next()).await,
                None => Ok(events.next().await),
            };
            match next {
                Ok(Some(Ok(event))) => self.heard(event),
                Ok(Some(Err(error))) => {
                    let trouble = Trouble::of(&error, &self.wanted.namespace);
                    if trouble.begin_again {
                        return trouble;
                    }
                    self.pause(&trouble).await;
                }
                Ok(None) | Err(_) => return Trouble::silent(),
            }
        }
    }

    fn heard(&mut self, event: Event<EndpointSlice>) {
        match (event, &mut self.listing) {
            (Event::Init, listing) => {
                *listing = Some(Slices::default());
                return;
            }
            (Event::InitApply(slice), Some(listing)) => {
                listing.put(slice);
                return;
            }
            (Event::InitDone, listing) => self.slices = listing.take().unwrap_or_default(),
            (Event::InitApply(slice) | Event::Apply(slice), _) => self.slices.put(slice),
            (Event::Delete(slice), _) => self.slices.remove(&slice),
        }
        self.outage.is_over();
        self.publish();
    }

    fn publish(&mut self) {
        let found = merge(self.slices.iter(), &self.wanted.port);
        self.pool.discovered(&self.wanted.source, &found);
        let others = match found.is_empty() && self.slices.has_endpoints() {
            true => ports(self.slices.iter()),
            false => BTreeSet::new(),
        };
        if !others.is_empty() && others != self.other_ports {
            tracing::warn!(
                pool = %self.pool.id(), port = %self.wanted.port, offered = ?others,
                "the service has endpoints, but none with this port; write the port on which the \
                 pods listen, or the name of the service's port"
            );
        }
        self.other_ports = others;
    }

    async fn pause(&mut self, trouble: &Trouble) {
        let pauses = if trouble.expired { &mut self.expiries } else { &mut self.pauses };
        let pause = pauses.after_failure();
        // A watch that is cut now and then is taken up again, and nobody need know.
        if trouble.passing && pauses.failures == 1 {
            tracing::debug!(pool = %self.pool.id(), error = trouble.text, "the watch was cut");
        } else {
            self.outage.goes_on(&trouble.text, &trouble.remedy);
        }
        sleep(pause).await;
    }
}
