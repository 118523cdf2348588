//! Which lane a call takes: there is one, or in a Cluster one for each server.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::cluster::Cluster;
use crate::error::Result;
use crate::key;
use crate::lane::{Lane, Settings};
use crate::status::{Status, StoreState};
use crate::store::OwnedPart;
use crate::store::job::Job;
use crate::store::target::Target;

pub(crate) enum Routes {
    One(Arc<Lane>),
    Cluster(Arc<Cluster>),
}

/// The parts of a call that one server can carry out in one step.
pub(crate) type Group = SmallVec<[OwnedPart; 1]>;

impl Routes {
    /// The routes to a store that is not this process's memory.
    pub(crate) fn open(target: &Target, settings: Settings) -> Result<Routes> {
        Ok(match target.clone() {
            Target::Cluster(seeds) => Routes::Cluster(Cluster::open(seeds, settings)?),
            Target::Sentinel(sentinels) => Routes::One(Arc::new(Lane::to_master(sentinels, &settings)?)),
            Target::Server(server) => Routes::One(Arc::new(Lane::to(server, &settings, None)?)),
            Target::Memory => unreachable!("memory has no routes"),
        })
    }

    /// The lane of a key, as it is kept.
    pub(crate) fn lane(&self, key: &[u8]) -> Arc<Lane> {
        match self {
            Routes::One(lane) => Arc::clone(lane),
            Routes::Cluster(cluster) => cluster.lane(key::slot(key)),
        }
    }

    /// Whether one server can carry out a call on these keys in one step.
    pub(crate) fn are_together<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        match self {
            Routes::One(_) => true,
            Routes::Cluster(_) => keys.next().is_none_or(|first| {
                let slot = key::slot(first);
                keys.all(|key| key == first || key::slot(key) == slot)
            }),
        }
    }

    /// The parts by what one server can carry out in one step.
    pub(crate) fn groups(&self, parts: Group) -> Vec<Group> {
        let mut groups: BTreeMap<u16, Group> = BTreeMap::new();
        for part in parts {
            let slot = if let Routes::Cluster(_) = self { key::slot(&part.key) } else { 0 };
            groups.entry(slot).or_default().push(part);
        }
        groups.into_values().collect()
    }

    /// Sends a call on its way, which may be to the thread that calls.
    pub(crate) fn send(&self, lane: &Lane, job: Job, may_block: bool) {
        let astray = lane.send(job, may_block);
        if let Routes::Cluster(cluster) = self {
            cluster.redirect(astray, lane);
        }
    }

    fn lanes(&self) -> Vec<Arc<Lane>> {
        match self {
            Routes::One(lane) => vec![Arc::clone(lane)],
            Routes::Cluster(cluster) => cluster.lanes(),
        }
    }

    /// Fills in what the lanes know. The worst of them speaks for the store; of those that are
    /// alike, the one that changed last.
    pub(crate) fn fill(&self, status: &mut Status) {
        let rank = |state: StoreState| match state {
            StoreState::Out => 2,
            StoreState::Connecting => 1,
            _ => 0,
        };
        let mut worst: Option<Status> = None;
        for lane in self.lanes() {
            let mut own = status.clone();
            lane.outage.fill(&mut own);
            worst = Some(match worst {
                None => own,
                Some(mut before) => {
                    let (keys, refused) =
                        (before.local_keys + own.local_keys, before.refused_full + own.refused_full);
                    if (rank(own.state), own.since) > (rank(before.state), before.since) {
                        before = own;
                    }
                    before.local_keys = keys;
                    before.refused_full = refused;
                    before
                }
            });
        }
        if let Some(worst) = worst {
            *status = worst;
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Routes::One(lane) => lane.close(),
            Routes::Cluster(cluster) => cluster.close(),
        }
    }
}
