//! What is to be done, in which order: the queues between the stages, and what each stage's result leads to.
//!
//! ```text
//!   full root buffer ─▶ sort ─────────────┐ one run at a time, once no child of the root is due or busy
//!                                         ▼
//!   due node ─▶ decompress ─▶ merge ─▶ empty ─▶ compress, a task a fragment ─▶ child, or leaf
//!      ▲ once no child of it is due or busy                                     │
//!      └──────────────────────────── full ◀─────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. A task holds what it works on, and nothing else does: buffers move by reference, and no lock is held while one is worked on.
//! 2. Later stages go first. So no more nodes are decompressed than there are workers.
//! 3. After a failure no task is handed out, and everybody who waits hears of it.
//!
//! Source: Amur et al., section 4.1 (Asynchronous operations, Scaling the number of workers). Deviation: the paper has workers for each
//! queue; here each worker serves all of them, so that none is idle while another queue is long.

use super::fragment::Fragment;
use super::nodes::{Changes, Destination, NodeId, Start, Tree};
use super::options::Knobs;
use super::root::RootBuffer;
use super::run::Run;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Work that needs no lock. The first number is that of the tree.
#[derive(Debug)]
pub(super) enum Task {
    Sort { tree: usize, buffer: RootBuffer },
    Decompress { tree: usize, node: NodeId, fragments: Vec<Arc<Fragment>> },
    Merge { tree: usize, node: NodeId, input: Run, ends: Vec<usize> },
    Empty { tree: usize, node: NodeId, run: Run, children: Vec<(u32, NodeId)> },
    Compress { tree: usize, node: NodeId, to: Destination, run: Arc<Run>, objects: Range<usize> },
}

/// What a task came to.
#[derive(Debug)]
pub(super) enum Done {
    Sorted { tree: usize, buffer: RootBuffer, run: Run },
    Decompressed { tree: usize, node: NodeId, input: Run, ends: Vec<usize> },
    Merged { tree: usize, node: NodeId, run: Run },
    Divided { tree: usize, node: NodeId, run: Run, parts: Vec<(Destination, Range<usize>)> },
    Compressed { tree: usize, node: NodeId, to: Destination, fragment: Fragment },
}

/// The last stage, first of all.
const STAGES: usize = 5;

impl Task {
    fn stage(&self) -> usize {
        match self {
            Task::Compress { .. } => 0,
            Task::Empty { .. } => 1,
            Task::Merge { .. } => 2,
            Task::Sort { .. } => 3,
            Task::Decompress { .. } => 4,
        }
    }
}

/// A tree, and the buffers of its root.
#[derive(Debug)]
struct Place {
    tree: Tree,
    /// Empty ones, kept.
    free: Vec<RootBuffer>,
    /// Buffers that were handed over, and whose objects are not yet where they belong.
    buffers_under_way: usize,
}

#[derive(Debug)]
pub(super) struct Schedule {
    places: Vec<Place>,
    queues: [VecDeque<Task>; STAGES],
    /// Tasks that were handed out and have not come back.
    running: usize,
    root_buffers: usize,
    failure: Option<String>,
    stopping: bool,
}

impl Schedule {
    pub(super) fn new(knobs: &Knobs) -> Schedule {
        let place = || Place { tree: Tree::new(knobs), free: Vec::new(), buffers_under_way: 0 };
        Schedule {
            places: (0..knobs.trees).map(|_| place()).collect(),
            queues: Default::default(),
            running: 0,
            root_buffers: knobs.root_buffers,
            failure: None,
            stopping: false,
        }
    }

    /// Takes a full buffer of a tree's root.
    pub(super) fn hand_over(&mut self, tree: usize, buffer: RootBuffer) {
        self.places[tree].buffers_under_way += 1;
        self.push(Task::Sort { tree, buffer });
    }

    /// Whether the tree's root has a buffer that nothing is in, so that rows can go on coming.
    pub(super) fn has_buffer(&self, tree: usize) -> bool {
        self.places[tree].buffers_under_way < self.root_buffers
    }

    /// An empty buffer that was one before.
    pub(super) fn free_buffer(&mut self, tree: usize) -> Option<RootBuffer> {
        self.places[tree].free.pop()
    }

    fn push(&mut self, task: Task) {
        self.queues[task.stage()].push_back(task);
    }

    /// Hands a task out; who takes it brings it back by [`Schedule::done`] or [`Schedule::fail`].
    pub(super) fn next(&mut self) -> Option<Task> {
        if self.failure.is_some() || self.stopping {
            return None;
        }
        let task = self.queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.running += 1;
        Some(task)
    }

    /// How many tasks wait.
    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Takes a task's result, and makes the tasks that follow from it.
    pub(super) fn done(&mut self, done: Done) {
        self.running -= 1;
        match done {
            Done::Sorted { tree, mut buffer, run } => {
                buffer.clear();
                self.places[tree].free.push(buffer);
                self.places[tree].tree.push_run(run);
                self.start(tree);
            }
            Done::Decompressed { tree, node, input, ends } => {
                self.push(Task::Merge { tree, node, input, ends });
            }
            Done::Merged { tree, node, run } => self.push_empty(tree, node, run),
            Done::Divided { tree, node, run, parts } => {
                self.places[tree].tree.expect(node, parts.len());
                let run = Arc::new(run);
                for (to, objects) in parts {
                    self.push(Task::Compress { tree, node, to, run: Arc::clone(&run), objects });
                }
            }
            Done::Compressed { tree, node, to, fragment } => {
                let place = &mut self.places[tree];
                let is_root = node == place.tree.root();
                if place.tree.arrive(node, to, fragment) {
                    place.buffers_under_way -= usize::from(is_root);
                    self.start(tree);
                }
            }
        }
    }

    fn push_empty(&mut self, tree: usize, node: NodeId, run: Run) {
        let children = self.places[tree].tree.children(node);
        self.push(Task::Empty { tree, node, run, children });
    }

    /// Makes tasks of what can begin.
    fn start(&mut self, tree: usize) {
        for start in self.places[tree].tree.start() {
            match start {
                Start::Root { run } => self.push_empty(tree, self.places[tree].tree.root(), run),
                Start::Node { node, fragments } => self.push(Task::Decompress { tree, node, fragments }),
            }
        }
    }

    /// Says that a task that was handed out failed. The first reason is kept.
    pub(super) fn fail(&mut self, why: String) {
        self.running -= 1;
        self.failure.get_or_insert(why);
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Has everybody who takes tasks stop.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether no task will come any more.
    pub(super) fn is_over(&self) -> bool {
        self.stopping || self.failure.is_some()
    }

    /// Whether nothing is to be done, and nothing is being done.
    pub(super) fn is_at_rest(&self) -> bool {
        self.running == 0 && self.waiting() == 0
    }

    /// At rest: makes the tasks of the next step of a breadth-first emptying of all trees; whether there are any.
    pub(super) fn force_next_level(&mut self) -> bool {
        for tree in 0..self.places.len() {
            if self.places[tree].tree.force_next_level() {
                self.start(tree);
            }
        }
        self.waiting() > 0
    }

    /// The fragments of all leaves, in hash order.
    pub(super) fn leaf_fragments(&self) -> Vec<Arc<Fragment>> {
        self.places.iter().flat_map(|place| place.tree.leaf_fragments()).collect()
    }

    pub(super) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.places.iter().map(|place| &place.tree)
    }

    /// What was done to all trees.
    pub(super) fn changes(&self) -> Changes {
        self.trees().fold(Changes::default(), |sum, tree| Changes {
            spills: sum.spills + tree.changes.spills,
            leaf_splits: sum.leaf_splits + tree.changes.leaf_splits,
            inner_splits: sum.inner_splits + tree.changes.inner_splits,
            root_splits: sum.root_splits + tree.changes.root_splits,
        })
    }
}
