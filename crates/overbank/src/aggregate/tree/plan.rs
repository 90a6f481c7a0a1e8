//! The model of costs: when rows are better off in leaves ([`Groups`](super::super::Groups)), and when in a buffer tree.
//!
//! ```text
//!   leaves   a row        one look at its page                                        ROW_IN_LEAVES
//!            n groups     rewritten whenever w bytes of new ones have come            n t / w times n / 2, each GROUP_REWRITTEN
//!
//!   tree     a row        copied, sorted in a buffer of k rows                        ROW_IN_ROOT
//!            an object    merged once a level, 3/2 times in its leaf                  d / k of the rows (h - 1/2), each OBJECT_MERGED
//!                         d = n (1 - e^(-k / n)) objects are left of k rows in the root; h levels below it
//! ```
//!
//! The constants were fitted to 20 M rows of 2 M keys of 10 bytes that are counted, by CPU time on a machine that others used, so they
//! are worth a fifth up or down; expect their ratio elsewhere, not them. A row took, in nanoseconds:
//!
//! | | measured | model | peak of memory |
//! |---|---|---|---|
//! | leaves, 32 MiB | 146 | 148 | 24 MB |
//! | leaves, 96 MiB | 118 | 119 | 30 MB |
//! | tree, LZ4, buffers of 4 MB, 64 children a node | 142 | 140 | 150 MB |
//! | … of 1 MB | 192 | 155 | 119 MB |
//! | … of 30 MB, the paper's | 207 | larger than the model's | 380 MB |
//! | … and without compression | 193 | | 411 MB |
//!
//! The paper's buffers are quicker than smaller ones on its machine. Here what is sorted should stay in the cache, and one more merge costs
//! little.
//!
//! What it says: a tree is quicker where most rows are new keys, so that leaves would be rewritten again and again, and memory is plenty.
//! Leaves need less memory for the same groups, and are the only shape that keeps a promise of it.
//!
//! Source: Amur et al., sections 2.3 (Table 3) and 5.3.2, whose heat maps this follows: larger buffers are quicker, and take more memory.

/// A look at a page that is in the cache, and a share of the insertion.
const ROW_IN_LEAVES_NS: f64 = 105.0;
const GROUP_REWRITTEN_NS: f64 = 80.0;
const ROW_IN_ROOT_NS: f64 = 120.0;
/// Decompressed, merged, compressed.
const OBJECT_MERGED_NS: f64 = 14.0;
/// Arrivals at a leaf make it rewrite as many objects, and half as many that were there: a leaf is a quarter to half full
/// after it was emptied.
const LEAF_REWRITES: f64 = 1.5;
/// Beside a row's bytes: what a page has for a group, a leaf for a record that waits, a tree for an object.
const GROUP_BYTES: f64 = 1.2;
const RECORD_BYTES: f64 = 3.0;
const TUPLE_BYTES: f64 = 9.0;
/// Beside a row's bytes, of an object in a fragment: keys are taken as random, so that LZ4 makes nothing less of them.
const FRAGMENT_BYTES: f64 = 3.0;
/// How much larger the fragments are before nodes are emptied: leaves fill up to a whole buffer, of keys that are there already, too.
const FRAGMENTS_FILLED: f64 = 3.0;
/// Of the leaves' memory, the share in which new groups wait.
const WAITING_SHARE: f64 = 1.0 / 12.0;
/// Buffers that a tree holds beside its nodes: four of the root and its runs, and two for each of two workers.
const BUFFERS_HELD: f64 = 10.0;
const FAN_OUT: f64 = 64.0;
const BUFFER_BYTES_MIN: f64 = 64e3;
const BUFFER_BYTES_MAX: f64 = 4e6;

/// What grouping costs in one shape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupingCost {
    /// CPU time a row, in nanoseconds; infinite where the memory is too small.
    pub ns_per_row: f64,
    /// The most memory that is in use, in bytes.
    pub memory_bytes: f64,
}

/// What grouping costs in leaves and in a tree, by [`GroupingPlan::new`].
///
/// ```
/// use overbank::aggregate::GroupingPlan;
///
/// // 64 MiB for 2 M groups of 20 M rows: leaves fit in half of it.
/// let plan = GroupingPlan::new(64 << 20, 2_000_000, 20_000_000, 11);
/// assert!(plan.prefers_leaves());
/// // 8 GiB for 100 M of them, and nearly all rows are new keys: a tree does not rewrite its groups as often.
/// let plan = GroupingPlan::new(8 << 30, 100_000_000, 120_000_000, 11);
/// assert!(!plan.prefers_leaves());
/// assert_eq!(plan.tree_height, 3);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct GroupingPlan {
    /// One level of pages: [`Groups`](super::super::Groups).
    pub leaves: GroupingCost,
    /// A compressed buffer tree: [`BufferTree`](super::BufferTree).
    pub tree: GroupingCost,
    /// The buffers for which that holds: the largest that the memory is enough for, up to 4 MB.
    pub tree_buffer_bytes: usize,
    /// Levels of that tree, the root's among them, with 32 to 64 children a node.
    pub tree_height: usize,
}

impl GroupingPlan {
    /// What `rows` rows of `groups` groups cost with `memory_bytes` bytes of memory, where a row's key and state take `row_bytes`
    /// bytes together.
    pub fn new(memory_bytes: usize, groups: u64, rows: u64, row_bytes: usize) -> GroupingPlan {
        let (memory, n, r) = (memory_bytes as f64, groups.max(1) as f64, rows.max(groups).max(1) as f64);
        let t = row_bytes.max(1) as f64;
        let (tree, buffer_bytes, levels) = tree_cost(memory, n, r, t);
        GroupingPlan {
            leaves: leaves_cost(memory, n, r, t),
            tree,
            tree_buffer_bytes: buffer_bytes as usize,
            tree_height: levels as usize + 1,
        }
    }

    /// Whether leaves are the better shape: as quick, or the only one that fits, or neither does and theirs is the smaller need.
    pub fn prefers_leaves(&self) -> bool {
        self.leaves.ns_per_row <= self.tree.ns_per_row
    }
}

fn leaves_cost(memory: f64, n: f64, r: f64, t: f64) -> GroupingCost {
    let groups_bytes = n * (t + GROUP_BYTES);
    let waiting = memory * WAITING_SHARE;
    let rewritten = (n * (t + RECORD_BYTES) / waiting) * n / 2.0;
    let fits = groups_bytes + waiting <= memory;
    GroupingCost {
        ns_per_row: if fits { ROW_IN_LEAVES_NS + rewritten * GROUP_REWRITTEN_NS / r } else { f64::INFINITY },
        memory_bytes: groups_bytes + waiting,
    }
}

/// The cost, the bytes of a buffer, and the levels below the root.
fn tree_cost(memory: f64, n: f64, r: f64, t: f64) -> (GroupingCost, f64, f64) {
    let object = t + TUPLE_BYTES;
    let fragments = n * (t + FRAGMENT_BYTES) * FRAGMENTS_FILLED;
    let buffer = ((memory - fragments) / BUFFERS_HELD).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
    let fits = fragments + BUFFERS_HELD * buffer <= memory;
    let leaves = (n * object / (buffer * 0.375)).max(1.0);
    let levels = leaves.log(FAN_OUT).ceil().max(1.0);
    let k = (buffer / object).min(r);
    let left = n * (1.0 - (-k / n).exp()) / k;
    let merged = left * (levels - 1.0 + LEAF_REWRITES);
    let cost = GroupingCost {
        ns_per_row: if fits { ROW_IN_ROOT_NS + merged * OBJECT_MERGED_NS } else { f64::INFINITY },
        memory_bytes: fragments + BUFFERS_HELD * buffer,
    };
    (cost, buffer, levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measurements that the model was fitted to.
    #[test]
    fn the_model_is_what_was_measured() {
        let leaves = |mib: usize| GroupingPlan::new(mib << 20, 2_000_000, 20_000_000, 11).leaves.ns_per_row;
        assert!((leaves(32) - 146.0).abs() < 10.0 && (leaves(96) - 118.0).abs() < 10.0);
        let plan = GroupingPlan::new(150 << 20, 2_000_000, 20_000_000, 11);
        assert_eq!((plan.tree_buffer_bytes, plan.tree_height), (4_000_000, 2));
        assert!((plan.tree.ns_per_row - 142.0).abs() < 10.0);
    }

    #[test]
    fn what_does_not_fit_is_not_preferred() {
        let small = GroupingPlan::new(16 << 20, 2_000_000, 20_000_000, 11);
        assert!(small.leaves.ns_per_row.is_infinite() && small.tree.ns_per_row.is_infinite());
        assert!(small.prefers_leaves());
        let tight = GroupingPlan::new(30 << 20, 2_000_000, 20_000_000, 11);
        assert!(tight.leaves.ns_per_row.is_finite() && tight.prefers_leaves());
        assert!(tight.leaves.memory_bytes < (30 << 20) as f64);
    }

    #[test]
    fn trees_are_higher_where_buffers_are_smaller() {
        let height = |mib: usize| GroupingPlan::new(mib << 20, 2_000_000, 20_000_000, 11).tree_height;
        assert_eq!((height(400), height(90)), (2, 3));
        let plan = GroupingPlan::new(1 << 40, 0, 0, 0);
        assert!(plan.leaves.ns_per_row.is_finite() && plan.tree.ns_per_row.is_finite());
    }
}
