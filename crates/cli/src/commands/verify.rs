//! `overbank verify STORE`: reads every checksum.

use crate::arguments::StoreArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::page::{Page, print_json};
use crate::units;
use overbank::Error;
use overbank::frequency::FrequencyOptions;
use overbank::store::{CommitId, Damage, VerifyReport};
use serde_json::json;
use std::path::Path;

pub(crate) fn run(arguments: &StoreArguments) -> CommandResult {
    let mut report = verify(&arguments.store)?;
    while !report.0.is_whole() {
        // A block that a writer beside us is writing looks damaged; the commit behind it tells.
        let again = verify(&arguments.store)?;
        let same_commit = again.1 == report.1;
        report = again;
        if same_commit {
            break;
        }
    }
    let report = report.0;
    if arguments.json {
        print_json(&json!({
            "whole": report.is_whole(),
            "files": report.files,
            "blocks": report.blocks,
            "bytes": report.bytes,
            "unchecked_blocks": report.unchecked_blocks,
            "damaged": report.damaged.iter().map(|damage| json!({
                "file": damage.file,
                "offset": damage.offset,
                "what": damage.what,
            })).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut page = Page::new();
        page.fact("files", &units::count(report.files), "");
        page.fact("blocks", &units::count(report.blocks), "each with its checksum");
        page.fact("bytes", &units::bytes(report.bytes), "");
        if report.unchecked_blocks > 0 {
            page.fact(
                "unchecked blocks",
                &units::count(report.unchecked_blocks),
                "of files written in place",
            );
        }
        for damage in &report.damaged {
            page.line(&format!("  {}", damage.what));
        }
        if report.is_whole() {
            page.line("  no damage");
        }
        page.print()?;
    }
    if report.is_whole() {
        return Ok(Outcome::Found);
    }
    Err(Failure::Usage(format!(
        "{} is damaged in {}; restore it from a copy, or make it again from its stream",
        arguments.store.display(),
        units::counted(report.damaged.len() as u64, "place")
    )))
}

/// Verifies the last commit, and says which it is.
fn verify(directory: &Path) -> Result<(VerifyReport, CommitId), Failure> {
    let store = super::open_to_read(directory)?;
    // Sketches on flash know which blocks of their files count; a damaged one does not open, and its blocks show why.
    let sketches: Vec<_> = store
        .summaries()
        .iter()
        .map(|summary| store.frequency(&summary.name, FrequencyOptions::new()))
        .collect();
    let mut report = store.verify()?;
    drop(sketches);
    if super::has_dictionary(&store) {
        // Whole files may yet contradict each other, or what they say of themselves.
        let checked = super::open_dictionary(&store, directory).and_then(|one| Ok(one.verify()?));
        // Where a block is damaged, that was told already.
        let damage = checked.map_or_else(damage_of, |()| Ok(None))?.filter(|_| report.is_whole());
        report.damaged.extend(damage);
    }
    Ok((report, store.commit_info().commit))
}

/// The damage that a failure tells of, if it does.
fn damage_of(failure: Failure) -> Result<Option<Damage>, Failure> {
    match failure {
        Failure::Overbank(error) => match &error {
            Error::Corrupt { path, at, .. } => {
                Ok(Some(Damage { file: path.display().to_string(), offset: *at, what: error.to_string() }))
            }
            _ => Err(error.into()),
        },
        failure => Err(failure),
    }
}
