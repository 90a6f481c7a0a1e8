//! A frequency cap: nobody sees an advertisement more than five times in three hours, with a writer a server thread.
//!
//!     cargo run --example frequency_cap DIRECTORY
//!
//! Counts are never too low, so the cap holds; they are too high by little and rarely, so a few are shown less often than allowed.

use overbank::{FrequencyOptions, FrequencyWindow, Result, Store, StoreOptions};

/// How often an advertisement may be shown to a user in a window of so many hours.
const CAP: u64 = 5;
const HOURS: usize = 3;
const THREADS: u64 = 3;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).ok_or("usage: frequency_cap DIRECTORY")?;
    let store = Store::open_or_create(&place, StoreOptions::new().memory_bytes(128 << 20))?;
    // A sketch an hour; the oldest is dropped whole when an hour begins.
    let options = FrequencyOptions::new().error(1e-5, 0.01).memory_bytes(24 << 20).writers(THREADS as usize);
    let shown = store.frequency_window("impressions", HOURS, options)?;

    for hour in 0..5 {
        if hour > 0 {
            shown.advance()?;
        }
        // A handle is cloned for each thread; estimates and updates of one do not stop the others.
        let allowed: u64 = std::thread::scope(|scope| {
            let serve = |thread| {
                let (store, shown) = (&store, shown.clone());
                scope.spawn(move || serve(store, &shown, thread))
            };
            let threads: Vec<_> = (0..THREADS).map(serve).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum::<Result<u64>>()
        })?;
        store.commit(format!("hour {hour}").as_bytes())?;
        println!("hour {hour}: {allowed} of {} shown", THREADS * 100 * 4);
    }
    let user = [store.hasher().hash(b"user-0-0")];
    let bounds = shown.bounds(&user, 0.95)?[0];
    println!("user-0-0 saw {} in the last {HOURS} hours, at most {}", bounds.estimate, bounds.upper);
    Ok(())
}

/// Four requests of each of the thread's hundred users; returns how many were shown.
fn serve(store: &Store, shown: &FrequencyWindow, thread: u64) -> Result<u64> {
    let hasher = store.hasher();
    let users = (0..100).map(|user| hasher.hash(format!("user-{thread}-{user}").as_bytes()));
    let users: Vec<_> = users.collect();
    let mut allowed = 0;
    for _ in 0..4 {
        // Questions and updates in batches: a lone one costs a read of each pane.
        let counts = shown.estimate(&users)?;
        let below = users.iter().zip(&counts).filter(|(_, count)| **count < CAP);
        let below: Vec<_> = below.map(|(&user, _)| user).collect();
        shown.update(&below, None)?;
        allowed += below.len() as u64;
    }
    Ok(allowed)
}
