//! A dictionary's files with bytes changed: it answers as it did, or with an error; with seals mended, so that pages, the index of their
//! borders, fronts, ranks and packed bytes are what nobody wrote, it may answer anything, but nothing panics and nothing is asked of
//! memory that the file does not back.

use crate::image::{Image, judge, options, seeds};
use crate::{Target, Verdict};
use overbank::Result;
use overbank::device::memory::MemoryDevice;
use overbank::dictionary::{Compression, Dictionary, DictionaryOptions, MergeOperator};
use overbank::store::Store;
use std::sync::{Arc, LazyLock};

/// The target. Input: that of [`judge`].
pub const TARGET: Target = Target { name: "dictionary_image", seeds, run };

const KEYS: u64 = 240;
/// Of the dictionary whose items are of one length and ranked, and of that whose pages are packed.
const NAMES: [&str; 2] = ["even", "packed"];

/// What keys have: in each dictionary, looked up and scanned.
type Answers = Vec<Vec<Option<Vec<u8>>>>;

/// The files, and the answers at each commit: damage to both copies of the last one's record shows the one before.
static IMAGE: LazyLock<(Image, Vec<Answers>)> = LazyLock::new(|| {
    let mut answers = Vec::new();
    let image = Image::new(|store| {
        let [even, packed] = NAMES.map(|name| open(store, name).expect("the options are in range"));
        for turn in 0..3 {
            let numbers = turn * 20..KEYS - turn * 30;
            let keys: Vec<Vec<u8>> = numbers.clone().map(key).collect();
            let words: Vec<[u8; 4]> =
                numbers.clone().map(|number| ((number + turn) as u32).to_le_bytes()).collect();
            // One is longer than a page.
            let length = |number: u64| if number == 100 { 30_000 } else { (number * 7 % 90) as usize };
            let texts: Vec<Vec<u8>> = numbers.map(|number| vec![turn as u8 + b'a'; length(number)]).collect();
            even.insert_many(&keys, &words).expect("RAM takes it");
            packed.merge_many(&keys, &texts).expect("RAM takes it");
            packed.remove_many(&keys[..turn as usize * 10]).expect("RAM takes it");
            if turn == 0 {
                even.compact().expect("RAM is merged");
            }
            store.commit(&[turn as u8]).expect("RAM takes a commit");
            answers.push(answers_of(&[&even, &packed]).expect("RAM reads"));
        }
    });
    (image, answers)
});

/// Keys of one length: pages without lengths, if the values' are one, too.
fn key(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x0123_4567_89ab_cdef).to_be_bytes().to_vec()
}

fn open(store: &Store, name: &str) -> Result<Dictionary> {
    let options = DictionaryOptions::new().memory_bytes(16 << 20);
    let options = if name == NAMES[0] {
        options.ranks(true)
    } else {
        options.page_bytes(16 << 10).compression(Compression::Lz4).merge_operator(MergeOperator::Append)
    };
    store.dictionary(name, options)
}

/// What each key has, and some that were never in, then all by a scan.
fn answers_of(dictionaries: &[&Dictionary]) -> Result<Answers> {
    let keys: Vec<Vec<u8>> = (0..KEYS + 20).map(key).collect();
    let mut answers = Vec::new();
    for dictionary in dictionaries {
        answers.push(dictionary.get_many(&keys)?);
        let mut scanned = Vec::new();
        for item in dictionary.scan()? {
            let (key, value) = item?;
            scanned.extend([Some(key), Some(value)]);
        }
        answers.push(scanned);
    }
    Ok(answers)
}

fn run(data: &[u8]) -> Verdict {
    judge(&IMAGE, data, ask)
}

/// Opens the dictionaries, asks them in each way, and writes, merges and commits.
fn ask(device: Arc<MemoryDevice>) -> Result<Answers> {
    let store = Store::open_on(device, options())?;
    let (even, packed) = (open(&store, NAMES[0])?, open(&store, NAMES[1])?);
    let answers = answers_of(&[&even, &packed])?;
    for dictionary in [&even, &packed] {
        // Whatever it finds, and says.
        let _ = dictionary.verify();
        let _ = dictionary.report();
        let snapshot = dictionary.snapshot()?;
        for number in (0..KEYS).step_by(16) {
            let (found, key) = (snapshot.search(&key(number)), key(number));
            let _ = (found, even.rank(&key));
        }
    }
    packed.merge_many(&[key(1), key(2)], &["more", "and more"])?;
    even.remove(&key(3))?;
    even.compact()?;
    packed.compact()?;
    store.commit(b"more")?;
    Ok(answers)
}
