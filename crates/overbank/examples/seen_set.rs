//! A crawler's seen set: which links are new, one at a time and in batches, kept with the crawl's position.
//!
//!     cargo run --example seen_set DIRECTORY
//!
//! The crawl stops twice, as if it had been killed, and goes on where its last commit was.

use overbank::{Filter, FilterOptions, Result, Store, StoreOptions};

/// How many pages the site has, and how many of them one leg of the crawl visits.
const PAGES: u64 = 3000;
const LEG: u64 = 1200;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).ok_or("usage: seen_set DIRECTORY")?;
    while crawl(&place)? < PAGES {}
    Ok(())
}

/// Crawls one leg; returns the page that comes next.
fn crawl(place: &str) -> Result<u64> {
    let store = Store::open_or_create(place, StoreOptions::new().memory_bytes(64 << 20))?;
    // At most one new link in a million is taken for one that was seen; a link that was seen is never taken for new.
    let options = FilterOptions::new().keys(1_000_000).false_positive_rate(1e-6).memory_bytes(32 << 20);
    let seen = store.filter("seen", options)?;

    // The position is whatever the crawler needs to go on: here, the page that comes next.
    let start = store.position().try_into().map_or(0, u64::from_le_bytes);
    let end = PAGES.min(start + LEG);
    let (mut fetched, mut queued) = (0, 0);
    for page in start..end {
        // One at a time, where the answer is needed before the next question: nothing is fetched twice.
        if seen.insert_one_if_absent(store.hasher().hash(url(page).as_bytes()))? {
            fetched += 1;
        }
        queued += new_links(&seen, page)?;
        if page % 500 == 499 {
            // The links that were seen and the position come to the disk together, or not at all.
            store.commit(&(page + 1).to_le_bytes())?;
        }
    }
    if end == PAGES {
        store.commit(&end.to_le_bytes())?;
    }
    println!("pages {start} to {end}: {fetched} fetched first, {queued} new links");
    Ok(store.position().try_into().map_or(0, u64::from_le_bytes))
}

/// How many of a page's links are new. In batches a key costs a fraction.
fn new_links(seen: &Filter, page: u64) -> Result<usize> {
    let links: Vec<String> = (1..=20).map(|link| url(page * link % (2 * PAGES))).collect();
    let are_new = seen.insert_keys_if_absent(&links)?;
    Ok(are_new.into_iter().filter(|&is_new| is_new).count())
}

fn url(page: u64) -> String {
    format!("https://example.org/page/{page}")
}
