//! A minimal perfect hash function of one bucket: the keys are edges of a random graph with two sides and without a cycle, and each edge is
//! given one of its ends.
//!
//! ```text
//!   side 0   ○ ● ○ ● …      2.09 vertices a key on both sides together; a vertex has 0, 1, or 2 for "nobody's"
//!   side 1   ● ○ ○ ● …      edge (u, v) is given u where g(u) + g(v) is even, else v
//!   value    how many vertices before it are somebody's
//! ```
//!
//! Five vertices a byte: 3.34 bits a key, and a byte for the seed that left no cycle.
//!
//! Source: Botelho, Ziviani, External Perfect Hashing for Very Large Key Sets, CIKM 2007.

use crate::Result;
use crate::digest::mix;
use keyhash::range_of;

/// Vertices of a graph, times 100, a key: below 2, a graph without a cycle is not found.
const VERTICES_PER_100_KEYS: u64 = 209;

/// Vertices of a byte.
const A_BYTE: usize = 5;

/// A vertex that no edge was given.
const NOBODYS: u8 = 2;

/// Vertices of one side.
fn side(keys: u64) -> u64 {
    (keys * VERTICES_PER_100_KEYS).div_ceil(200).max(1)
}

/// Appends the function of the keys of these hashes.
pub(super) fn build(hashes: &[u64], into: &mut Vec<u8>) -> Result<()> {
    if hashes.len() < 2 {
        return Ok(());
    }
    for seed in 0..=u8::MAX {
        if let Some(values) = try_seed(hashes, seed) {
            into.push(seed);
            into.extend(
                values.chunks(A_BYTE).map(|five| five.iter().rev().fold(0, |byte, value| byte * 3 + value)),
            );
            return Ok(());
        }
    }
    Err("no seed leaves the graph of a bucket without a cycle".into())
}

/// The value of a hash, below `keys` and no other key's.
pub(super) fn value(function: &[u8], keys: u64, hash: u64) -> u64 {
    if keys < 2 {
        return 0;
    }
    let get = |vertex: u64| {
        let (byte, place) = (function[1 + vertex as usize / A_BYTE], vertex as usize % A_BYTE);
        byte / [1, 3, 9, 27, 81][place] % 3
    };
    let ends = ends(hash, function[0], side(keys));
    let chosen = ends[usize::from((get(ends[0]) + get(ends[1])) % 2)];
    (0..chosen).filter(|vertex| get(*vertex) != NOBODYS).count() as u64
}

/// The vertices of an edge, one of each side.
fn ends(hash: u64, seed: u8, side: u64) -> [u64; 2] {
    let first = mix(hash ^ u64::from(seed) << 32);
    [range_of(first, side), side + range_of(mix(first), side)]
}

/// Values of all vertices, unless the graph has a cycle.
fn try_seed(hashes: &[u64], seed: u8) -> Option<Vec<u8>> {
    let side = side(hashes.len() as u64);
    let edges: Vec<[u64; 2]> = hashes.iter().map(|hash| ends(*hash, seed, side)).collect();
    // Of each vertex, how many edges it has left, and the exclusive or of their numbers: of the last one, its number.
    let (mut degrees, mut sums) = (vec![0u32; 2 * side as usize], vec![0usize; 2 * side as usize]);
    for (number, vertex) in edges.iter().enumerate().flat_map(|(number, ends)| ends.map(|end| (number, end)))
    {
        degrees[vertex as usize] += 1;
        sums[vertex as usize] ^= number;
    }
    let mut peeled = Vec::with_capacity(edges.len());
    for start in 0..2 * side {
        let mut vertex = start as usize;
        // Where an edge is taken from its one end, the other end may be the next with one edge left.
        while degrees[vertex] == 1 {
            let number = sums[vertex];
            peeled.push((number, vertex));
            for end in edges[number] {
                degrees[end as usize] -= 1;
                sums[end as usize] ^= number;
            }
            let [first, second] = edges[number];
            vertex = (first + second) as usize - vertex;
        }
    }
    if peeled.len() < edges.len() {
        return None;
    }
    let mut values = vec![NOBODYS; 2 * side as usize];
    for (number, vertex) in peeled.into_iter().rev() {
        let [first, second] = edges[number];
        let other = (first + second) as usize - vertex;
        let wanted = u8::from(vertex as u64 == second);
        values[vertex] = (wanted + values[other]) % 2;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn a_function_is_a_bijection_of_some_three_bits_a_key() {
        for keys in [0, 1, 2, 3, 10, 128, 200, 255] {
            let hashes = Workload::Uniform.keys(keys, 11);
            let mut function = Vec::new();
            build(&hashes, &mut function).expect("built");
            assert!(function.len() <= 3 + keys * 43 / 100, "{} bytes of {keys} keys", function.len());
            let mut values: Vec<u64> =
                hashes.iter().map(|hash| value(&function, keys as u64, *hash)).collect();
            values.sort_unstable();
            assert_eq!(values, (0..keys as u64).collect::<Vec<_>>());
        }
    }
}
