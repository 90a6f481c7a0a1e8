//! `overbank info STORE`: what a store holds.

use super::dictionary::DictionaryState;
use super::group::state::GroupState;
use super::{dictionary, filter};
use crate::arguments::StoreArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::kept_epochs::KeptEpochs;
use crate::page::{Align, Page, print_json};
use crate::run_state::{FilterState, RunState};
use crate::{picture, units};
use overbank::HashKind;
use overbank::frequency::FrequencyOptions;
use overbank::profile::FlashReport;
use overbank::store::{Store, SummaryInfo, registry};
use serde_json::json;

pub(crate) fn run(arguments: &StoreArguments) -> CommandResult {
    let store = super::open_to_read(&arguments.store)?;
    let commit = store.commit_info();
    let summaries = store.summaries();
    let hash = match store.hash_kind() {
        HashKind::Xxh3 => "XXH3-128",
        HashKind::SipHash13 => "SipHash-1-3",
    };
    let writer = store.writer()?;
    let sketches = sketches(&store)?;
    let filter = match store.record(filter::NAME) {
        Some(_) => Some(filter::info::facts(&store, &arguments.store)?),
        None => None,
    };
    let dictionary = match super::has_dictionary(&store) {
        true => Some(super::open_dictionary(&store, &arguments.store)?.report()),
        false => None,
    };
    let run = RunState::from_bytes(&commit.position)
        .or_else(|_| FilterState::from_bytes(&commit.position).map(|state| state.run))
        .or_else(|_| DictionaryState::from_bytes(&commit.position).map(|state| state.run))
        .or_else(|_| GroupState::from_bytes(&commit.position).map(|state| state.run))
        .ok();
    let epochs = KeptEpochs::from_bytes(&commit.position).ok();
    if arguments.json {
        print_json(&json!({
            "store": arguments.store.display().to_string(),
            "id": format!("{:032x}", store.id()),
            "format_version": store.format_version(),
            "hash": hash,
            "seed_fingerprint": format!("{:016x}", store.seed().fingerprint()),
            "commit": commit.commit.0,
            "commit_time_ns": commit.time_ns,
            "device": store.device().describe(),
            "writer_pid": writer,
            "complete": run.as_ref().map(|run| run.complete).or(epochs.as_ref().map(|_| true)),
            "epochs": epochs.as_ref().map(|epochs| epochs.epochs.iter().map(picture::epoch_json).collect::<Vec<_>>()),
            "summaries": summaries.iter().map(|summary| json!({
                "name": summary.name,
                "kind": kind(summary.structure.id),
                "sketch": sketch_of(&sketches, &summary.name).map(picture::flash_json),
                "filter": filter.as_ref().filter(|_| summary.structure.id == registry::FILTER.id).map(picture::filter_json),
                "dictionary": dictionary
                    .as_ref()
                    .filter(|_| summary.structure.id == registry::DICTIONARY.id)
                    .map(dictionary::as_json),
                "structure": summary.structure.id,
                "version": summary.structure.version,
                "files": summary.files,
                "bytes": summary.bytes,
            })).collect::<Vec<_>>(),
        }))?;
        return Ok(Outcome::Found);
    }
    let mut page = Page::new();
    page.heading(&format!("Store {}", arguments.store.display()), "");
    page.line(&format!("  id          {:032x}", store.id()));
    page.line(&format!("  format      version {}", store.format_version()));
    page.line(&format!("  hash        {hash}, seed fingerprint {:016x}", store.seed().fingerprint()));
    page.line(&format!(
        "  commit      number {}, {} ago",
        commit.commit.0,
        ago(store.device().now_ns(), commit.time_ns)
    ));
    page.line(&format!("  reads by    {}", store.device().describe()));
    match writer {
        Some(0) => page.line("  written by  another process, now"),
        Some(pid) => page.line(&format!("  written by  process {pid}, now")),
        None => {}
    }
    if let Some(run) = run {
        let state = if run.complete { "read to its end" } else { "interrupted; --resume goes on" };
        page.line(&format!("  stream      {state}"));
    }
    if let Some(epochs) = &epochs {
        picture::epoch_section(&mut page, epochs);
    }
    page.heading("Summaries", "");
    let rows: Vec<Vec<String>> = summaries
        .iter()
        .map(|summary| {
            vec![
                summary.name.clone(),
                kind(summary.structure.id).to_owned(),
                format!("{} v{}", summary.structure.id, summary.structure.version),
                summary.files.to_string(),
                units::bytes(summary.bytes),
            ]
        })
        .collect();
    page.table(
        &[
            ("name", Align::Left),
            ("kind", Align::Left),
            ("structure", Align::Right),
            ("files", Align::Right),
            ("bytes", Align::Right),
        ],
        &rows,
    );
    for (name, sketch) in &sketches {
        page.heading(&format!("Sketch {name}"), "");
        picture::flash_lines(&mut page, sketch);
    }
    if let Some(facts) = &filter {
        page.heading("Filter", "");
        picture::filter_lines(&mut page, facts);
    }
    if let Some(report) = &dictionary {
        page.heading("Dictionary", "");
        dictionary::lines(&mut page, report);
    }
    page.print()?;
    Ok(Outcome::Found)
}

/// What people call a structure.
fn kind(structure: u16) -> &'static str {
    const SHOWN: [(registry::Kind, &str); 6] = [
        (registry::PROFILE, "profile"),
        (registry::FREQUENCY, "counts on flash"),
        (registry::FILTER, "keys seen"),
        (registry::DICTIONARY, "keys and values"),
        (registry::STREAM_KEY, "what the key is"),
        (registry::OWED_OUTPUT, "rows to print"),
    ];
    SHOWN.iter().find(|(kind, _)| kind.id == structure).map_or("unknown", |(_, shown)| shown)
}

/// The sketches on flash of a store, by name.
fn sketches(store: &Store) -> Result<Vec<(String, FlashReport)>, Failure> {
    let summaries =
        store.summaries().into_iter().filter(|summary| summary.structure.id == registry::FREQUENCY.id);
    let open = |summary: SummaryInfo| {
        let report = FlashReport::of(&store.frequency(&summary.name, FrequencyOptions::new())?);
        Ok((summary.name, report))
    };
    summaries.map(open).collect()
}

fn sketch_of<'a>(sketches: &'a [(String, FlashReport)], name: &str) -> Option<&'a FlashReport> {
    sketches.iter().find(|(own, _)| own == name).map(|(_, sketch)| sketch)
}

fn ago(now_ns: u64, then_ns: u64) -> String {
    units::seconds(now_ns.saturating_sub(then_ns) as f64 / 1e9)
}
