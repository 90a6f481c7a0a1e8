//! The (a,b)-tree: nodes with ranges of hashes and buffers of fragments, and who may be emptied.
//!
//! ```text
//!                     root          runs that wait, sorted; no buffer of its own
//!              ┌───────┼───────┐
//!            inner   inner   inner  fragments: since it was last emptied, any keys of its range
//!           ┌──┼──┐     …           …
//!         leaf leaf leaf            fragments: the first has what the leaf was last emptied to, one object a key
//! ```
//!
//! Nodes are emptied by others ([`schedule`](super::schedule)); here is what that does to the tree.
//!
//! Invariants:
//! 1. All leaves are equally deep. A child's hashes begin at its `from`, and end where the next child's begin.
//! 2. A node is *due* once its buffer is full, and *busy* from when it begins to be emptied until its fragments are where they belong.
//!    While a node is busy, none of its children is due or busy, and nothing changes its children. So a full child is emptied before
//!    its parent.
//! 3. A node of more than b children splits as soon as its buffer is empty and its parent is not busy; if its buffer is not empty, it
//!    becomes due. So at rest a node has at most b children, and at least a if it is not the root: halves of b + 1 are no less.
//! 4. The lowest nodes that are due can always begin. So all are emptied in the end.
//!
//! Source: Amur et al., section 3.3; Arge, The Buffer Tree, Algorithmica 2003.

use super::fragment::Fragment;
use super::options::Knobs;
use super::run::Run;
use std::collections::VecDeque;
use std::sync::Arc;

/// Which node: never reused.
pub(super) type NodeId = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    Due,
    Busy,
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    /// The least hash of its range.
    from: u32,
    /// In the order of their ranges. A leaf has none.
    children: Vec<NodeId>,
    fragments: Vec<Arc<Fragment>>,
    raw_bytes: usize,
    /// It is due from so many bytes on: more than others where a leaf's bytes are of one hash, so that they cannot be split.
    full_at: usize,
    state: State,
    /// Children that are due or busy.
    closed_children: usize,
    /// While it is busy: parts that are not here yet, and those that are.
    parts_left: usize,
    arrived: Vec<(Destination, Fragment)>,
}

/// Where a part of what was in a node belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    Child(NodeId),
    /// The leaf itself, or one that it is split to: the parts in the order of their hashes.
    Leaf,
}

/// What begins to be emptied.
#[derive(Debug)]
pub(super) enum Start {
    Root { run: Run },
    Node { node: NodeId, fragments: Vec<Arc<Fragment>> },
}

/// What was done to a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Changes {
    pub(super) spills: u64,
    pub(super) leaf_splits: u64,
    pub(super) inner_splits: u64,
    pub(super) root_splits: u64,
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: NodeId,
    /// Sorted buffers of the root.
    runs: VecDeque<Run>,
    due: Vec<NodeId>,
    children_max: usize,
    buffer_bytes: usize,
    pub(super) changes: Changes,
}

impl Node {
    fn new(parent: Option<NodeId>, from: u32, children: Vec<NodeId>, full_at: usize) -> Node {
        Node {
            parent,
            from,
            children,
            fragments: Vec::new(),
            raw_bytes: 0,
            full_at,
            state: State::Idle,
            closed_children: 0,
            parts_left: 0,
            arrived: Vec::new(),
        }
    }
}

impl Tree {
    pub(super) fn new(knobs: &Knobs) -> Tree {
        Tree {
            nodes: vec![Node::new(None, 0, Vec::new(), knobs.buffer_bytes)],
            root: 0,
            runs: VecDeque::new(),
            due: Vec::new(),
            children_max: knobs.children_max,
            buffer_bytes: knobs.buffer_bytes,
            changes: Changes::default(),
        }
    }

    /// Takes a sorted buffer of the root.
    pub(super) fn push_run(&mut self, run: Run) {
        self.runs.push_back(run);
    }

    /// The root if a run waits there, and all due nodes, that can be emptied now; they are busy from now on.
    pub(super) fn start(&mut self) -> Vec<Start> {
        let mut starts = Vec::new();
        let root = &mut self.nodes[self.root];
        if root.state == State::Idle
            && root.closed_children == 0
            && let Some(run) = self.runs.pop_front()
        {
            root.state = State::Busy;
            starts.push(Start::Root { run });
        }
        for node in std::mem::take(&mut self.due) {
            if self.nodes[node].closed_children > 0 {
                self.due.push(node);
                continue;
            }
            self.set_state(node, State::Busy);
            let fragments = std::mem::take(&mut self.nodes[node].fragments);
            self.nodes[node].raw_bytes = 0;
            starts.push(Start::Node { node, fragments });
        }
        starts
    }

    pub(super) fn root(&self) -> NodeId {
        self.root
    }

    /// The first hash of each child, and the child; nothing for a leaf.
    pub(super) fn children(&self, node: NodeId) -> Vec<(u32, NodeId)> {
        self.nodes[node].children.iter().map(|&child| (self.nodes[child].from, child)).collect()
    }

    /// Says of how many parts what was in a busy node is, one or more.
    pub(super) fn expect(&mut self, node: NodeId, parts: usize) {
        self.nodes[node].parts_left = parts;
    }

    /// A part of what was in a busy node, encoded; whether it was the last one.
    pub(super) fn arrive(&mut self, node: NodeId, to: Destination, fragment: Fragment) -> bool {
        let busy = &mut self.nodes[node];
        busy.arrived.push((to, fragment));
        busy.parts_left -= 1;
        let is_last = busy.parts_left == 0;
        if is_last {
            self.finish(node);
        }
        is_last
    }

    fn finish(&mut self, node: NodeId) {
        let mut arrived = std::mem::take(&mut self.nodes[node].arrived);
        self.set_state(node, State::Idle);
        if !self.nodes[node].children.is_empty() {
            self.changes.spills += 1;
            for (to, fragment) in arrived {
                if let Destination::Child(child) = to {
                    self.attach(child, fragment);
                }
            }
            for child in self.nodes[node].children.clone() {
                self.balance(child);
            }
            return self.balance(node);
        }
        arrived.sort_by_key(|(_, fragment)| fragment.first_hash);
        let mut parts = arrived.into_iter().map(|(_, fragment)| fragment);
        let parent = match self.nodes[node].parent {
            // The tree was one node, whose buffer is the root's: all parts become leaves.
            None => {
                let first = self.add(Some(node), 0, Vec::new());
                self.nodes[node].children.push(first);
                self.fill_leaf(first, parts.next());
                node
            }
            Some(parent) => {
                self.fill_leaf(node, parts.next());
                parent
            }
        };
        let mut before = self.nodes[node].children.first().copied().unwrap_or(node);
        for part in parts {
            self.changes.leaf_splits += 1;
            let leaf = self.add(Some(parent), part.first_hash, Vec::new());
            self.insert_after(parent, before, leaf);
            self.fill_leaf(leaf, Some(part));
            before = leaf;
        }
        self.balance(parent);
    }

    /// Gives a leaf what it was emptied to.
    fn fill_leaf(&mut self, leaf: NodeId, fragment: Option<Fragment>) {
        let Some(fragment) = fragment else { return };
        let is_one_hash = fragment.first_hash == fragment.last_hash;
        let least = if is_one_hash { 2 * fragment.raw_bytes } else { 0 };
        self.nodes[leaf].full_at = least.max(self.buffer_bytes);
        self.attach(leaf, fragment);
    }

    fn attach(&mut self, to: NodeId, fragment: Fragment) {
        let node = &mut self.nodes[to];
        node.raw_bytes += fragment.raw_bytes;
        node.fragments.push(Arc::new(fragment));
        if node.raw_bytes >= node.full_at {
            self.make_due(to);
        }
    }

    fn make_due(&mut self, node: NodeId) {
        if self.nodes[node].state == State::Idle {
            self.set_state(node, State::Due);
            self.due.push(node);
        }
    }

    fn set_state(&mut self, node: NodeId, state: State) {
        let before = std::mem::replace(&mut self.nodes[node].state, state);
        if let Some(parent) = self.nodes[node].parent {
            let closed = &mut self.nodes[parent].closed_children;
            *closed += usize::from(state != State::Idle);
            *closed -= usize::from(before != State::Idle);
        }
    }

    fn add(&mut self, parent: Option<NodeId>, from: u32, children: Vec<NodeId>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node::new(parent, from, children, self.buffer_bytes));
        id
    }

    fn insert_after(&mut self, parent: NodeId, before: NodeId, new: NodeId) {
        let children = &mut self.nodes[parent].children;
        let place = children.iter().position(|&child| child == before).map_or(children.len(), |i| i + 1);
        children.insert(place, new);
    }

    /// Splits a node of too many children, or has that done once its buffer is empty.
    fn balance(&mut self, node: NodeId) {
        let is_busy = |id: NodeId| self.nodes[id].state == State::Busy;
        let parent = self.nodes[node].parent;
        if self.nodes[node].children.len() <= self.children_max
            || is_busy(node)
            || parent.is_some_and(is_busy)
        {
            return;
        }
        if !self.nodes[node].fragments.is_empty() {
            return self.make_due(node);
        }
        let parent = match parent {
            Some(parent) => parent,
            None => {
                self.changes.root_splits += 1;
                let root = self.add(None, self.nodes[node].from, vec![node]);
                self.nodes[node].parent = Some(root);
                self.root = root;
                root
            }
        };
        let all = std::mem::take(&mut self.nodes[node].children);
        let parts = all.len().div_ceil(self.children_max);
        let mut before = node;
        for part in 0..parts {
            let children = all[all.len() * part / parts..all.len() * (part + 1) / parts].to_vec();
            let closed = children.iter().filter(|&&child| self.nodes[child].state != State::Idle).count();
            if part == 0 {
                self.nodes[node].children = children;
            } else {
                let new = self.add(Some(parent), self.nodes[children[0]].from, Vec::new());
                children.iter().for_each(|&child| self.nodes[child].parent = Some(new));
                self.nodes[new].children = children;
                self.insert_after(parent, before, new);
                self.changes.inner_splits += 1;
                before = new;
            }
            self.nodes[before].closed_children = closed;
        }
        self.balance(parent);
    }

    /// At rest: makes due what the next step of a breadth-first emptying empties, the topmost inner nodes whose buffers are not empty, or
    /// the leaves with more than one fragment. Whether there is any.
    pub(super) fn force_next_level(&mut self) -> bool {
        for level in self.levels() {
            let is_forced = |id: &NodeId| match &self.nodes[*id] {
                leaf if leaf.children.is_empty() => leaf.fragments.len() > 1,
                inner => !inner.fragments.is_empty(),
            };
            let forced: Vec<NodeId> = level.into_iter().filter(is_forced).collect();
            forced.iter().for_each(|&node| self.make_due(node));
            if !forced.is_empty() {
                return true;
            }
        }
        false
    }

    /// All nodes but the root, level by level, each in the order of ranges.
    fn levels(&self) -> Vec<Vec<NodeId>> {
        let mut levels = Vec::new();
        let mut level = self.nodes[self.root].children.clone();
        while !level.is_empty() {
            let below = level.iter().flat_map(|&id| self.nodes[id].children.iter().copied()).collect();
            levels.push(std::mem::replace(&mut level, below));
        }
        levels
    }

    /// The fragments of leaves, in the order of their ranges.
    pub(super) fn leaf_fragments(&self) -> Vec<Arc<Fragment>> {
        let leaves = self.levels().pop().unwrap_or_default();
        leaves.iter().flat_map(|&leaf| self.nodes[leaf].fragments.iter().cloned()).collect()
    }

    /// Levels, the root's among them.
    pub(super) fn height(&self) -> usize {
        1 + self.levels().len()
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of all fragments, and of what knows of them.
    pub(super) fn memory_bytes(&self) -> usize {
        let fragment_bytes = |fragment: &Fragment| fragment.bytes.len() + size_of::<Fragment>();
        let node_bytes = |node: &Node| {
            let attached: usize = node.fragments.iter().map(|fragment| fragment_bytes(fragment)).sum();
            let arrived: usize = node.arrived.iter().map(|(_, fragment)| fragment_bytes(fragment)).sum();
            attached + arrived + size_of::<Node>() + node.children.capacity() * size_of::<NodeId>()
        };
        self.nodes.iter().map(node_bytes).sum()
    }

    /// At rest: panics where an invariant does not hold, and says how many nodes each level has.
    #[cfg(test)]
    pub(super) fn check(&self, children_min: usize) -> Vec<usize> {
        assert!(self.runs.is_empty() && self.due.is_empty());
        assert!(self.nodes.iter().all(|node| node.state == State::Idle));
        let mut seen = 1;
        let mut leaf_depths = std::collections::BTreeSet::new();
        let mut below = vec![(self.root, 0u32, u64::from(u32::MAX) + 1, 0usize)];
        while let Some((id, from, end, depth)) = below.pop() {
            let node = &self.nodes[id];
            assert_eq!((node.from, node.closed_children, node.parts_left), (from, 0, 0));
            assert!(node.arrived.is_empty() && node.raw_bytes < node.full_at);
            assert_eq!(
                node.raw_bytes,
                node.fragments.iter().map(|fragment| fragment.raw_bytes).sum::<usize>()
            );
            for fragment in &node.fragments {
                assert!(fragment.first_hash >= from && u64::from(fragment.last_hash) < end);
                assert!(fragment.objects > 0);
            }
            assert!(node.children.len() <= self.children_max);
            if id == self.root {
                assert!(node.fragments.is_empty() && node.parent.is_none());
            } else if node.children.is_empty() {
                leaf_depths.insert(depth);
                assert!(!node.fragments.is_empty());
            } else {
                assert!(node.children.len() >= children_min, "{} children", node.children.len());
            }
            for (i, &child) in node.children.iter().enumerate() {
                assert_eq!(self.nodes[child].parent, Some(id));
                let next = node.children.get(i + 1);
                let end = next.map_or(end, |&next| u64::from(self.nodes[next].from));
                below.push((child, self.nodes[child].from, end, depth + 1));
                seen += 1;
            }
        }
        assert_eq!(seen, self.nodes.len());
        assert!(leaf_depths.len() <= 1, "{leaf_depths:?}");
        self.levels().iter().map(Vec::len).collect()
    }
}
