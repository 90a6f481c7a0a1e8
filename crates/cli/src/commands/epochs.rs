//! Epochs that `overbank monitor` kept in a store, asked by the commands that ask other stores: one of them, or all together.

use super::keys::{self, Keys};
use super::open_to_read;
use crate::arguments::{AskedKeys, EpochName, Form};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::kept_epochs::{DISTINCT, FLOWS, KeptEpoch, KeptEpochs, NAMES, PACKETS};
use crate::page::{Page, print_json};
use crate::picture;
use crate::plain::{self, Field, Plain};
use crate::report::{CONFIDENCE, Distinct, PacketSizes, SIZE_ERROR, TopFlow};
use crate::units;
use overbank::Sketch;
use overbank::sketch::{CountBounds, CountMin, DdSketch, HyperLogLog, SpaceSaving};
use overbank::store::{Store, StoreOptions};
use overbank_ingest::capture::FlowKey;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Epochs of a store that are asked together.
pub(super) struct Epochs {
    store: Store,
    state: KeptEpochs,
    asked: Vec<KeptEpoch>,
}

impl Epochs {
    /// The epochs of a store, or the one of this name; `None` of a store of another kind.
    pub(super) fn of(directory: &Path, name: Option<EpochName>) -> Result<Option<Self>, Failure> {
        let mut store = open_to_read(directory)?;
        let Ok(state) = KeptEpochs::from_bytes(&store.position()) else {
            return match name {
                None => Ok(None),
                Some(_) => Err(Failure::Usage(format!(
                    "{} holds no epochs; leave --epoch away, or name a store that monitor made",
                    directory.display()
                ))),
            };
        };
        // The largest part is there twice while two are put together, and a copy of it.
        let needed = usize::try_from(state.unit.saturating_mul(128)).unwrap_or(usize::MAX);
        if needed > store.budget().budget_bytes() {
            store = Store::open_read_only(directory, StoreOptions::new().memory_bytes(needed))?;
        }
        let asked = match name {
            None => state.epochs.clone(),
            Some(name) => {
                let number = match name {
                    EpochName::Number(number) => Some(number),
                    EpochName::Last => state.epochs.last().map(|epoch| epoch.number),
                };
                let asked = state.epochs.iter().filter(|epoch| Some(epoch.number) == number);
                let asked: Vec<KeptEpoch> = asked.copied().collect();
                if asked.is_empty() {
                    return Err(Failure::Usage(format!("{} {}", directory.display(), held(&state))));
                }
                asked
            }
        };
        Ok(Some(Self { store, state, asked }))
    }

    /// What the epochs have of a part, put together.
    fn merged<S: Sketch>(
        &self,
        part: &str,
        merge: impl Fn(&mut S, &S) -> overbank::Result<()>,
    ) -> Result<Option<S>, Failure> {
        let mut all: Option<S> = None;
        for epoch in &self.asked {
            let stored = self.store.open_sketch::<S>(&epoch.part(part))?;
            match &mut all {
                None => all = Some(stored.snapshot()?),
                Some(all) => stored.with(|sketch| merge(all, sketch))??,
            }
        }
        Ok(all)
    }

    fn flows(&self) -> Result<Option<CountMin<u64>>, Failure> {
        self.merged(FLOWS, CountMin::merge)
    }

    /// The weight of all flows together.
    fn weight(&self) -> u64 {
        self.asked.iter().fold(0, |sum, epoch| sum.saturating_add(epoch.weight(self.state.by)))
    }

    /// A size above which no flow lacks a name, with the same confidence of all epochs together as of one: what hides a flow in one of
    /// them does so by the same cells in all.
    fn heavy_threshold(&self) -> Option<u64> {
        self.asked.iter().try_fold(0u64, |sum, epoch| Some(sum.saturating_add(epoch.heavy_threshold?)))
    }

    /// The heaviest flows that are known by name.
    pub(super) fn top(&self, count: usize, form: Form) -> CommandResult {
        let Some(flows) = self.flows()? else { return nothing() };
        let mut names = BTreeSet::new();
        for epoch in &self.asked {
            let stored = self.store.open_sketch::<SpaceSaving>(&epoch.part(NAMES))?;
            let keys = stored.with(|sketch| {
                let keys = sketch.top(sketch.capacity()).into_iter();
                keys.filter_map(|flow| FlowKey::from_bytes(self.state.kind, flow.key)).collect::<Vec<_>>()
            });
            names.extend(keys?);
        }
        let hasher = self.store.hasher();
        let flow =
            |key: FlowKey| TopFlow { key, size: flows.bounds(hasher.hash(key.as_bytes()), CONFIDENCE) };
        let mut top: Vec<TopFlow> = names.into_iter().map(flow).collect();
        top.sort_by_key(|flow| (Reverse(flow.size.estimate), flow.key));
        top.truncate(count);
        match form {
            Form::Json => print_json(&json!({
                "weight": self.weight(),
                "heavy_threshold": self.heavy_threshold(),
                "heavy": top.iter().map(picture::flow_json).collect::<Vec<_>>(),
            }))?,
            Form::Table => {
                let mut page = Page::new();
                let note = picture::top_note(self.state.by, self.state.kind, self.heavy_threshold());
                page.heading("Top flows", &note);
                picture::flow_table(&mut page, &top, self.weight());
                page.print()?;
            }
            form @ (Form::Tsv | Form::Csv) => {
                let names: Vec<String> = top.iter().map(|flow| flow.key.to_string()).collect();
                let rows = top.iter().zip(&names).map(|(flow, name)| row(&flow.size, name.as_bytes()));
                plain::print(form, &COLUMNS, rows)?;
            }
        }
        Ok(if top.is_empty() && count > 0 { Outcome::Absent } else { Outcome::Found })
    }

    /// How large flows are.
    pub(super) fn estimate(&self, asked: &AskedKeys, form: Form) -> CommandResult {
        let flows = self.flows()?;
        let hasher = self.store.hasher();
        let keys = Keys::as_bytes(asked, &self.store, None)?;
        let mut out = Plain::begin(form, BufWriter::new(io::stdout().lock()), &COLUMNS)?;
        let mut is_absent = false;
        let mut rows = Vec::new();
        keys.each_batch(|batch| {
            for written in batch.keys() {
                let key = FlowKey::parse(self.state.kind, &String::from_utf8_lossy(written))?;
                let hash = hasher.hash(key.as_bytes());
                let size = flows.as_ref().map_or(NOTHING, |flows| flows.bounds(hash, CONFIDENCE));
                is_absent |= size.upper == 0;
                let name = key.to_string();
                match form {
                    Form::Json => {
                        let facts = json!({
                            "estimate": picture::bound_json(size.estimate),
                            "lower": size.lower,
                            "upper": picture::bound_json(size.upper),
                            "lower_confidence": CONFIDENCE,
                        });
                        writeln!(out.get_mut(), "{}", keys::as_json(name.as_bytes(), &facts))?;
                    }
                    Form::Table => rows.push(TopFlow { key, size }),
                    Form::Tsv | Form::Csv => out.row(&row(&size, name.as_bytes()))?,
                }
            }
            if !rows.is_empty() {
                let mut page = Page::new();
                picture::flow_table(&mut page, &std::mem::take(&mut rows), self.weight());
                page.print()?;
            }
            Ok(())
        })?;
        out.get_mut().flush()?;
        Ok(if is_absent { Outcome::Absent } else { Outcome::Found })
    }

    /// How many flows there were.
    pub(super) fn distinct(&self, form: Form) -> CommandResult {
        let Some(sketch) = self.merged(DISTINCT, HyperLogLog::merge)? else { return nothing() };
        let distinct = Distinct::of(&sketch);
        match form {
            Form::Json => print_json(&picture::distinct_flows_json(&distinct))?,
            Form::Table => {
                let mut page = Page::new();
                let [estimate, lower, upper] = [distinct.estimate, distinct.lower, distinct.upper]
                    .map(|value| units::count(value.round() as u64));
                page.fact("distinct flows", &estimate, &format!("{lower} to {upper} (95 %)"));
                page.print()?;
            }
            form @ (Form::Tsv | Form::Csv) => {
                let counts = [distinct.estimate.round(), distinct.lower.floor(), distinct.upper.ceil()];
                let row = counts.map(|count| Field::Count(count as u64));
                plain::print(form, &["estimate", "lower", "upper"], [row])?;
            }
        }
        Ok(Outcome::Found)
    }

    /// Quantiles of packet sizes.
    pub(super) fn quantile(&self, ranks: &[f64], form: Form) -> CommandResult {
        let Some(sketch) = self.merged(PACKETS, DdSketch::merge)? else { return nothing() };
        let sum = |part: fn(&KeptEpoch) -> u64| {
            self.asked.iter().fold(0u64, |sum, epoch| sum.saturating_add(part(epoch)))
        };
        let packets = (sum(|epoch| epoch.counted), sum(|epoch| epoch.counted_bytes));
        let sizes = PacketSizes::of(&sketch, packets, ranks);
        match form {
            Form::Json => print_json(&picture::sizes_json(&sizes))?,
            Form::Table => {
                let mut page = Page::new();
                let note = format!("within {} of the true quantile", units::percent(SIZE_ERROR));
                page.heading("Packet sizes in bytes", &note);
                picture::size_lines(&mut page, &sizes);
                page.print()?;
            }
            form @ (Form::Tsv | Form::Csv) => {
                let row = |&(rank, value): &(f64, f64)| [Field::Number(rank), Field::Number(value)];
                plain::print(form, &["rank", "value"], sizes.quantiles.iter().map(row))?;
            }
        }
        Ok(if sizes.count == 0 { Outcome::Absent } else { Outcome::Found })
    }
}

/// What is said of a store in which no epoch is.
fn nothing() -> CommandResult {
    Err(Failure::Usage(
        "the store holds no epoch yet; let overbank monitor --store come to the end of one".to_owned(),
    ))
}

const COLUMNS: [&str; 4] = ["estimate", "lower", "upper", "key"];
const NOTHING: CountBounds = CountBounds { lower: 0, estimate: 0, upper: 0 };

fn row<'a>(size: &CountBounds, name: &'a [u8]) -> [Field<'a>; 4] {
    [Field::bound(size.estimate), Field::Count(size.lower), Field::bound(size.upper), Field::Text(name)]
}

/// Which epochs there are, for whoever asked for another.
fn held(state: &KeptEpochs) -> String {
    match (state.epochs.first(), state.epochs.last()) {
        (Some(first), Some(last)) => {
            format!("holds epochs {} to {}; give one of them, or last", first.number, last.number)
        }
        _ => "holds no epoch yet; let overbank monitor --store come to the end of one".to_owned(),
    }
}
