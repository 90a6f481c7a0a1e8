//! A random workload over the four summaries, and the exact model of what each of its commits holds.

use crate::levels::{self, Levels};
use crate::summaries::{Counters, Layers, Locked, PAGES, Pages, Summary};
use overbank::device::Device;
use overbank::store::{Handle, Store, StoreOptions};
use overbank::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a commit holds; `None` for a summary that is not there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Model {
    pub(crate) commit: u64,
    pub(crate) position: Vec<u8>,
    pub(crate) counters: Option<BTreeMap<u64, u64>>,
    pub(crate) pages: Option<[u64; PAGES]>,
    pub(crate) layers: Option<BTreeSet<u64>>,
    pub(crate) levels: Option<levels::Content>,
}

/// A commit of the workload: it ran during the changing operations `from..to` of the device.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) model: Model,
}

/// What a run did: the commits that returned OK, and the one that was in flight when an error ended it.
#[derive(Default, Debug)]
pub(crate) struct History {
    pub(crate) commits: Vec<Step>,
    pub(crate) in_flight: Option<Model>,
    pub(crate) error: Option<Error>,
    /// Full disks that the run went on from.
    pub(crate) full: usize,
}

impl History {
    /// The states that a crash during changing operation `operation` may leave; `None` among them is "not a store".
    pub(crate) fn allowed(&self, operation: u64) -> Vec<Option<&Model>> {
        let acknowledged = self.commits.iter().rev().find(|step| step.to <= operation);
        let in_flight = self.commits.iter().find(|step| step.from <= operation && operation < step.to);
        let mut allowed = vec![acknowledged.map(|step| &step.model)];
        allowed.extend(in_flight.map(|step| Some(&step.model)));
        allowed
    }

    /// The states that may be there after an error ended the run.
    pub(crate) fn allowed_at_end(&self) -> Vec<Option<&Model>> {
        let mut allowed = vec![self.commits.last().map(|step| &step.model)];
        allowed.extend(self.in_flight.as_ref().map(Some));
        allowed
    }
}

pub(crate) fn options() -> StoreOptions {
    // Small, so that the log rotates every few commits and the reserve does not hide a full disk.
    StoreOptions::new().threads(0).manifest_bytes(40 << 10).reserve_bytes(16 << 10)
}

/// A store with its summaries.
pub(crate) struct World {
    pub(crate) store: Store,
    counters: Option<Arc<Locked<Counters>>>,
    pages: Option<Arc<Locked<Pages>>>,
    layers: Option<Arc<Locked<Layers>>>,
    levels: Option<Handle<Levels>>,
}

impl World {
    pub(crate) fn open(device: Arc<dyn Device>) -> Result<World> {
        World::recover(Store::open_on(device, options())?)
    }

    pub(crate) fn recover(store: Store) -> Result<World> {
        let files = store.files().clone();
        let counters = store.record("counters").map(|entry| Counters::recover(&entry, &files)).transpose()?;
        let pages = store.record("pages").map(|entry| Pages::recover(&entry, &files)).transpose()?;
        let layers = store.record("layers").map(|entry| Layers::recover(&entry, &files)).transpose()?;
        Ok(World {
            counters: attach(&store, "counters", counters)?,
            pages: attach(&store, "pages", pages)?,
            layers: attach(&store, "layers", layers)?,
            levels: store.record("levels").map(|_| Levels::open(&store)).transpose()?,
            store,
        })
    }

    pub(crate) fn model(&self) -> Model {
        let info = self.store.commit_info();
        Model {
            commit: info.commit.0,
            position: info.position,
            counters: self.counters.as_ref().map(|c| c.summary.lock().unwrap().counts.clone()),
            pages: self.pages.as_ref().map(|p| p.summary.lock().unwrap().values),
            layers: self.layers.as_ref().map(|l| l.summary.lock().unwrap().keys()),
            levels: self.levels.as_ref().map(|levels| levels.content()),
        }
    }

    /// One random change, not yet committed.
    pub(crate) fn change(&mut self, rng: &mut Random) -> Result<()> {
        match rng.below(18) {
            12 | 13 => {
                if self.levels.is_none() {
                    self.levels = Some(Levels::open(&self.store)?);
                }
                let levels = self.levels.as_ref().expect("it is open");
                levels.insert(rng.next());
                if rng.below(3) == 0 {
                    levels.pad(rng.below(3), rng.next());
                }
            }
            14 => {
                if let Some(levels) = &self.levels {
                    levels.flush()?;
                }
            }
            15 => {
                if let Some(levels) = &self.levels {
                    levels.merge()?;
                }
            }
            16 => self.leave_and_return(rng)?,
            0..=2 => {
                let counters =
                    self.counters.get_or_insert_with(|| Locked::new(Default::default(), self.store.files()));
                let mut counters = counters.summary.lock().unwrap();
                // Now and then enough keys that the blob takes several blocks.
                for _ in 0..[1, 3, 700][rng.below(3) as usize] {
                    *counters.counts.entry(rng.below(1000)).or_default() += 1;
                }
                counters.changed = true;
            }
            3..=5 => {
                let pages =
                    self.pages.get_or_insert_with(|| Locked::new(Default::default(), self.store.files()));
                pages.summary.lock().unwrap().set(rng.below(PAGES as u64) as usize, rng.next());
            }
            6 | 7 => self
                .layers
                .get_or_insert_with(|| Locked::new(Default::default(), self.store.files()))
                .summary
                .lock()
                .unwrap()
                .insert(rng.next()),
            8 | 9 => {
                if let Some(layers) = &self.layers {
                    layers.summary.lock().unwrap().flush(self.store.files())?;
                }
            }
            10 => {
                if let Some(layers) = &self.layers {
                    layers.summary.lock().unwrap().merge(self.store.files(), self.store.workers())?;
                }
            }
            _ if rng.below(3) == 0 => self.remove(rng)?,
            _ => {}
        }
        self.attach_new()
    }

    /// Commits, and says what the commit holds.
    pub(crate) fn commit(&self, position: &[u8]) -> (Model, Result<()>) {
        let model = Model {
            commit: self.store.commit_info().commit.0 + 1,
            position: position.to_vec(),
            ..self.model()
        };
        (model, self.store.commit(position).map(drop))
    }

    /// Publishes a merge of what is durable, and says what is committed then, if anything changed.
    pub(crate) fn publish(&self, last: &Model) -> (Model, Result<bool>) {
        let model = Model { commit: last.commit + 1, ..last.clone() };
        let Some(levels) = &self.levels else { return (model, Ok(false)) };
        (model, levels.publish())
    }

    /// Closes the levels, or drops the handle, and opens them again.
    fn leave_and_return(&mut self, rng: &mut Random) -> Result<()> {
        let Some(levels) = self.levels.take() else { return Ok(()) };
        let content = levels.content();
        let is_closed = rng.below(2) == 0 && self.store.close("levels").is_ok();
        drop(levels);
        let levels = Levels::open(&self.store)?;
        assert_eq!(levels.content(), content, "closed {is_closed}");
        self.levels = Some(levels);
        Ok(())
    }

    fn remove(&mut self, rng: &mut Random) -> Result<()> {
        let (name, there) = match rng.below(4) {
            3 => ("levels", self.levels.take().is_some()),
            0 => ("counters", self.counters.take().is_some()),
            1 => ("pages", self.pages.take().is_some()),
            _ => ("layers", self.layers.take().is_some()),
        };
        if there { self.store.remove(name) } else { Ok(()) }
    }

    fn attach_new(&self) -> Result<()> {
        fn again(result: Result<()>) -> Result<()> {
            match result {
                Err(Error::AlreadyExists { .. }) => Ok(()),
                result => result,
            }
        }
        if let Some(counters) = &self.counters {
            again(self.store.attach("counters", counters.clone()))?;
        }
        if let Some(pages) = &self.pages {
            again(self.store.attach("pages", pages.clone()))?;
        }
        if let Some(layers) = &self.layers {
            again(self.store.attach("layers", layers.clone()))?;
        }
        Ok(())
    }
}

fn attach<P: Summary + 'static>(
    store: &Store,
    name: &str,
    summary: Option<P>,
) -> Result<Option<Arc<Locked<P>>>> {
    let Some(summary) = summary else { return Ok(None) };
    let summary = Locked::new(summary, store.files());
    store.attach(name, summary.clone())?;
    Ok(Some(summary))
}

/// Creates a store and makes `commits` commits with changes between them. Goes on after a full disk, ends at any other
/// error. `changes` tells how many changing operations the device has seen.
pub(crate) fn run(device: Arc<dyn Device>, changes: &dyn Fn() -> u64, seed: u64, commits: u64) -> History {
    let mut history = History::default();
    let mut rng = Random(seed);
    if let Err(error) = run_into(device, changes, &mut rng, commits, &mut history) {
        history.error = Some(error);
    }
    history
}

fn run_into(
    device: Arc<dyn Device>,
    changes: &dyn Fn() -> u64,
    rng: &mut Random,
    commits: u64,
    history: &mut History,
) -> Result<()> {
    history.in_flight = Some(Model::default());
    let store = Store::create_on(device, options())?;
    history.commits.push(Step { from: 0, to: changes(), model: Model::default() });
    history.in_flight = None;
    let mut world = World::recover(store)?;
    for number in 1..=commits {
        for _ in 0..1 + rng.below(6) {
            if let Err(error) = world.change(rng) {
                history.survive(error)?;
            }
        }
        if rng.below(2) == 0 {
            let from = changes();
            let last = history.commits.last().expect("the creation is a commit").model.clone();
            let (model, result) = world.publish(&last);
            match result {
                Ok(true) => history.commits.push(Step { from, to: changes(), model }),
                Ok(false) => {}
                Err(error @ Error::Full { .. }) => history.survive(error)?,
                Err(error) => {
                    history.in_flight = Some(model);
                    return Err(error);
                }
            }
        }
        let from = changes();
        let (model, result) = world.commit(format!("offset={}", number * 1000).as_bytes());
        match result {
            Ok(()) => history.commits.push(Step { from, to: changes(), model }),
            Err(error @ Error::Full { .. }) => {
                let last = history.commits.last().expect("the creation is a commit");
                assert_eq!(world.store.position(), last.model.position, "a full disk leaves the last commit");
                history.survive(error)?;
            }
            Err(error) => {
                history.in_flight = Some(model);
                let again = world.store.commit(b"again");
                assert!(matches!(again, Err(Error::Poisoned { .. })), "after {error} came {again:?}");
                return Err(error);
            }
        }
    }
    Ok(())
}

impl History {
    fn survive(&mut self, error: Error) -> Result<()> {
        if !matches!(error, Error::Full { .. }) {
            return Err(error);
        }
        self.full += 1;
        Ok(())
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}
