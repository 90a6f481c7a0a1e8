//! The paths of JSON values that are wanted, as one tree.

use crate::{Error, Result};

/// The wanted paths, joined where they start alike.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    /// The slots that take the value here.
    pub(crate) slots: Vec<usize>,
    pub(crate) members: Vec<(String, PathTree)>,
    pub(crate) elements: Vec<(usize, PathTree)>,
}

impl PathTree {
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut tree = Self::default();
        for (slot, path) in paths.enumerate() {
            let steps = steps(path).ok_or_else(|| Error::InvalidOption {
                name: "key",
                value: path.into(),
                why: "a JSON path is like user.id, items[0].sku or /user/id".into(),
            })?;
            tree.insert(&steps, slot);
        }
        Ok(tree)
    }

    fn insert(&mut self, steps: &[Step], slot: usize) {
        let Some((first, rest)) = steps.split_first() else { return self.slots.push(slot) };
        if let Some(name) = &first.member {
            child(&mut self.members, name.clone()).insert(rest, slot);
        }
        if let Some(index) = first.element {
            child(&mut self.elements, index).insert(rest, slot);
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.members.is_empty() && self.elements.is_empty()
    }

    /// Forgets what an earlier member of the same name left.
    pub(crate) fn forget(&self, found: &mut [Option<&str>]) {
        self.slots.iter().for_each(|&slot| found[slot] = None);
        self.members.iter().for_each(|(_, child)| child.forget(found));
        self.elements.iter().for_each(|(_, child)| child.forget(found));
    }
}

fn child<K: PartialEq>(children: &mut Vec<(K, PathTree)>, key: K) -> &mut PathTree {
    let index = children.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        children.push((key, PathTree::default()));
        children.len() - 1
    });
    &mut children[index].1
}

/// One step of a path: a member's name, an element's index, or a number in a pointer, which may be either.
#[derive(Debug, PartialEq)]
struct Step {
    member: Option<String>,
    element: Option<usize>,
}

fn steps(path: &str) -> Option<Vec<Step>> {
    if let Some(pointer) = path.strip_prefix('/') {
        let step = |part: &str| {
            let name = part.replace("~1", "/").replace("~0", "~");
            Step { element: name.parse().ok(), member: Some(name) }
        };
        return Some(pointer.split('/').map(step).collect());
    }
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, indices) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        match (name.is_empty(), indices.is_empty(), steps.is_empty()) {
            (false, _, _) => steps.push(Step { member: Some(name.into()), element: None }),
            (true, false, true) => {}
            _ => return None,
        }
        let mut rest = indices;
        while !rest.is_empty() {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(Step { member: None, element: Some(index.parse().ok()?) });
            rest = after;
        }
    }
    Some(steps)
}
