//! The two indexes over buckets of hashes, and their making as the items go by in order.

use super::Scheme;
use super::bit_string::BitString;
use super::directory::{Bucket, Directory};
use super::file::FileWriter;
use super::perfect_hash;
use super::stored::Stored;
use super::trie::{Blocks, Codes};
use crate::Result;
use keyhash::range_of;
use std::path::Path;

/// The paper's bucket size and largest Huffman-coded trie.
pub(in super::super) const G: u64 = 256;
pub(in super::super) const HMAX: u64 = 64;

/// Keys of a bucket of external perfect hashing, on average.
const EPH_BUCKET_KEYS: u64 = 128;

/// Where an item stands among all, by its hash.
pub(in super::super) struct Index {
    directory: Directory,
    code: Code,
}

enum Code {
    /// Bits of the tries.
    Tries(Codes, BitString),
    /// Functions back to back; a bucket's first bit in the directory is eight times its first byte.
    Functions(Vec<u8>),
}

impl Index {
    /// Entropy-coded tries with other knobs than the paper's defaults, of sorted hashes: for the figures that vary them.
    pub(in super::super) fn tries(hashes: &[u64], g: u64, hmax: u64) -> Result<Self> {
        let mut builder =
            Builder::new(hashes.len() as u64, g, Code::Tries(Codes::new(hmax), BitString::default()));
        for hash in hashes {
            builder.push(*hash, |_| Ok(()))?;
        }
        builder.finish(|_| Ok(()))
    }

    /// Perfect hash functions of sorted hashes.
    pub(in super::super) fn functions(hashes: &[u64]) -> Result<Self> {
        let mut builder = Builder::new(hashes.len() as u64, EPH_BUCKET_KEYS, Code::Functions(Vec::new()));
        for hash in hashes {
            builder.push(*hash, |_| Ok(()))?;
        }
        builder.finish(|_| Ok(()))
    }

    /// The item that has this hash, if one has.
    pub(in super::super) fn rank(&self, hash: u64) -> Option<u64> {
        let bucket = self.directory.get(range_of(hash, self.directory.buckets()));
        if bucket.items == 0 {
            return None;
        }
        Some(bucket.first_item + self.code.rank(bucket, path(hash, self.directory.buckets()), hash))
    }

    pub(super) fn items(&self) -> u64 {
        self.directory.items()
    }

    /// How many items each bucket has, in order.
    pub(super) fn bucket_items(&self) -> impl Iterator<Item = u64> {
        (0..self.directory.buckets()).map(|bucket| self.directory.get(bucket).items)
    }

    /// RAM it takes, in bits.
    pub(in super::super) fn size_bits(&self) -> u64 {
        self.directory.size_bits() + self.code.bits()
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut stored = Stored::default();
        self.directory.store(&mut stored);
        match &self.code {
            Code::Tries(_, bits) => {
                stored.push([bits.len()]);
                stored.push(bits.words().iter().copied());
            }
            Code::Functions(bytes) => {
                stored.push([bytes.len() as u64]);
                let word =
                    |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                stored.push(bytes.chunks(8).map(word));
            }
        }
        stored.write(path)
    }

    pub(super) fn read(path: &Path, scheme: Scheme) -> Result<Self> {
        let mut stored = Stored::read(path)?;
        let directory = Directory::load(&mut stored)?;
        let [len] = stored.pop()?[..] else { return Err("no length".into()) };
        let words = stored.pop()?;
        let code = match scheme {
            Scheme::Ect => Code::Tries(Codes::new(HMAX), BitString::from_words(words.to_vec(), len)),
            Scheme::EphSort | Scheme::EphPartition => {
                let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                bytes.truncate(usize::try_from(len)?);
                Code::Functions(bytes)
            }
        };
        Ok(Self { directory, code })
    }
}

impl Code {
    fn bits(&self) -> u64 {
        match self {
            Self::Tries(_, bits) => bits.len(),
            Self::Functions(bytes) => bytes.len() as u64 * 8,
        }
    }

    fn rank(&self, bucket: Bucket, path: u64, hash: u64) -> u64 {
        match self {
            Self::Tries(codes, bits) => codes.rank(bits, bucket.first_bit, bucket.items, path, Blocks::DENSE),
            Self::Functions(bytes) => {
                perfect_hash::value(&bytes[(bucket.first_bit / 8) as usize..], bucket.items, hash)
            }
        }
    }
}

/// What is left of a hash behind its bucket.
fn path(hash: u64, buckets: u64) -> u64 {
    hash.wrapping_mul(buckets)
}

/// Makes an index of hashes in order of their buckets.
struct Builder {
    directory: Directory,
    code: Code,
    bucket: u64,
    hashes: Vec<u64>,
}

impl Builder {
    fn new(expected: u64, bucket_keys: u64, code: Code) -> Self {
        let buckets = expected.div_ceil(bucket_keys).max(1);
        Self { directory: Directory::new(buckets, bucket_keys), code, bucket: 0, hashes: Vec::new() }
    }

    fn push(&mut self, hash: u64, each: impl FnMut(Done<'_>) -> Result<()>) -> Result<()> {
        let bucket = range_of(hash, self.directory.buckets());
        self.close(bucket, each)?;
        self.hashes.push(hash);
        Ok(())
    }

    /// Ends all buckets before this one.
    fn close(&mut self, bucket: u64, mut each: impl FnMut(Done<'_>) -> Result<()>) -> Result<()> {
        while self.bucket < bucket {
            let bits_before = self.code.bits();
            match &mut self.code {
                Code::Tries(codes, bits) => {
                    let buckets = self.directory.buckets();
                    let paths: Vec<u64> = self.hashes.iter().map(|hash| path(*hash, buckets)).collect();
                    if !paths.is_sorted_by(|a, b| a < b) {
                        return Err("two keys have one hash".into());
                    }
                    codes.encode(bits, &paths, Blocks::DENSE);
                }
                Code::Functions(bytes) => {
                    let at = bytes.len();
                    perfect_hash::build(&self.hashes, bytes)?;
                    each(Done { hashes: &self.hashes, function: &bytes[at..] })?;
                }
            }
            self.directory.push(self.hashes.len() as u64, self.code.bits() - bits_before)?;
            self.hashes.clear();
            self.bucket += 1;
        }
        Ok(())
    }

    fn finish(mut self, each: impl FnMut(Done<'_>) -> Result<()>) -> Result<Index> {
        self.close(self.directory.buckets(), each)?;
        self.directory.finish()?;
        Ok(Index { directory: self.directory, code: self.code })
    }
}

/// A bucket whose function is made.
struct Done<'b> {
    hashes: &'b [u64],
    function: &'b [u8],
}

/// Makes an index, and writes the items in the order that it gives them.
pub(super) struct IndexedWriter {
    builder: Builder,
    writer: FileWriter,
    item_bytes: usize,
    /// The items of the bucket under way, where the index permutes them.
    bucket: Vec<u8>,
    permuted: Vec<u8>,
}

impl IndexedWriter {
    pub(super) fn new(scheme: Scheme, expected: u64, item_bytes: usize, writer: FileWriter) -> Self {
        let builder = match scheme {
            Scheme::Ect => Builder::new(expected, G, Code::Tries(Codes::new(HMAX), BitString::default())),
            Scheme::EphSort | Scheme::EphPartition => {
                Builder::new(expected, EPH_BUCKET_KEYS, Code::Functions(Vec::new()))
            }
        };
        Self { builder, writer, item_bytes, bucket: Vec::new(), permuted: Vec::new() }
    }

    /// Buckets that its items must come in the order of.
    pub(super) fn buckets(&self) -> u64 {
        self.builder.directory.buckets()
    }

    pub(super) fn push(&mut self, hash: u64, item: &[u8]) -> Result<()> {
        let Self { builder, writer, item_bytes, bucket, permuted } = self;
        builder.push(hash, |done| permute(&done, *item_bytes, bucket, permuted, writer))?;
        match builder.code {
            Code::Tries(..) => writer.write(item),
            Code::Functions(_) => {
                bucket.extend_from_slice(item);
                Ok(())
            }
        }
    }

    /// Everything is on disk and synced.
    pub(super) fn finish(self) -> Result<Index> {
        let Self { builder, mut writer, item_bytes, mut bucket, mut permuted } = self;
        let index =
            builder.finish(|done| permute(&done, item_bytes, &mut bucket, &mut permuted, &mut writer))?;
        writer.finish(true)?;
        Ok(index)
    }
}

/// Writes the items of a bucket in the order of their function's values, and empties it.
fn permute(
    done: &Done<'_>,
    item_bytes: usize,
    bucket: &mut Vec<u8>,
    permuted: &mut Vec<u8>,
    writer: &mut FileWriter,
) -> Result<()> {
    permuted.resize(bucket.len(), 0);
    for (hash, item) in done.hashes.iter().zip(bucket.chunks_exact(item_bytes)) {
        let place = perfect_hash::value(done.function, done.hashes.len() as u64, *hash) as usize;
        permuted[place * item_bytes..][..item_bytes].copy_from_slice(item);
    }
    bucket.clear();
    writer.write(permuted)
}
