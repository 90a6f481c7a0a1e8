//! Records of pages on disk: what a crawler knows of each address, loaded in bulk, changed as it goes on, and read back beside it.
//!
//!     cargo run --example page_records DIRECTORY
//!
//! A record is text here, `status,visits`; a second dictionary counts the visits by a merge operator, which reads nothing.

use overbank::dictionary::{DictionaryOptions, Duplicates, MergeOperator, Numbers};
use overbank::{Store, StoreOptions};

const PAGES: u64 = 20_000;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).ok_or("usage: page_records DIRECTORY")?;
    let store = Store::open_or_create(&place, StoreOptions::new().memory_bytes(128 << 20))?;
    let records = store.dictionary("records", DictionaryOptions::new().memory_bytes(32 << 20))?;
    let sum = MergeOperator::Sum(Numbers::Text);
    let visits =
        store.dictionary("visits", DictionaryOptions::new().memory_bytes(16 << 20).merge_operator(sum))?;

    // What is known at the start comes in as a load: sorted, merged once, one file a part of the hash range.
    let mut load = records.load(Duplicates::Last)?;
    for first in (0..PAGES).step_by(1000) {
        let urls: Vec<String> = (first..first + 1000).map(url).collect();
        let values: Vec<String> = (first..first + 1000).map(|page| format!("200,{page}")).collect();
        load.insert_many(&urls, &values)?;
    }
    println!("loaded {} records", load.finish()?.items);

    // Whoever reads now goes on with what was there, whatever is written meanwhile.
    let before = records.snapshot()?;
    records.insert(url(7).as_bytes(), b"404,8")?;
    records.remove(url(8).as_bytes())?;
    for page in [7, 9, 7, 7] {
        visits.merge(url(page).as_bytes(), b"1")?;
    }
    // Both dictionaries and the position, or nothing: also if the power fails now.
    store.commit(b"page 9")?;

    let text = |value: Option<Vec<u8>>| {
        value.map_or("none".to_owned(), |value| String::from_utf8_lossy(&value).into())
    };
    for page in [7, 8, 9] {
        let (then, now) = (before.get(url(page).as_bytes())?, records.get(url(page).as_bytes())?);
        println!(
            "page {page}: {} before, {} now, {} visits",
            text(then),
            text(now),
            text(visits.get(url(page).as_bytes())?)
        );
    }
    // A quarter of the hash range is about a quarter of the keys: a shard of four.
    let quarter = records.snapshot()?.scan(0..=u64::MAX / 4)?.count();
    println!("of {} records, {quarter} are in the first shard of four", records.scan()?.count());
    Ok(())
}

fn url(page: u64) -> String {
    format!("https://example.org/page/{page}")
}
