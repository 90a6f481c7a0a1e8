//! What is known of a group: the trait by which a partial aggregation object is described.
//!
//! ```text
//!   row    words, bytes ──update──▶  state    words: a column each in pages, changed there
//!                                             tail: bytes of any length, for lists and sketches
//!   state ──────────────merge─────▶  state
//! ```
//!
//! A partial aggregation object of the paper is a key and a state. The key is the library's: it is bytes, and is compared and stored here.
//! The state is the user's.
//!
//! Source: Amur et al., Memory-Efficient GroupBy-Aggregate using Compressed Buffer Trees, SoCC 2013, section 3.1.

/// The most words of a state or of a row.
pub const WORDS_MAX: usize = 64;

/// What a row says beside its key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Row<'a> {
    /// [`Aggregate::row_words`] words.
    pub words: &'a [u64],
    /// Bytes, for an aggregate that has a tail; empty for others.
    pub bytes: &'a [u8],
}

/// The state of a group, to be read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State<'a> {
    /// [`Aggregate::state_words`] words.
    pub words: &'a [u64],
    /// Empty unless [`Aggregate::has_tail`].
    pub tail: &'a [u8],
}

/// The state of a group, to be changed.
#[derive(Debug)]
pub struct StateMut<'a> {
    /// [`Aggregate::state_words`] words.
    pub words: &'a mut [u64],
    /// To be left alone unless [`Aggregate::has_tail`].
    pub tail: &'a mut Vec<u8>,
}

/// What is computed of the rows of each group. A program that wants its own implements this; [`Columns`](super::Columns) has the usual
/// ones, several at once.
///
/// A state is some words and, where that does not do, a tail of bytes. Words of all groups are kept as columns, and a word takes as
/// many bytes as it needs: keep it near zero (a signed number as [`signed`](super::signed) does). A state without a tail is
/// changed where it lies, in compressed memory; one with a tail is written again with its neighbours.
///
/// The laws, for any order and any grouping of the rows:
/// 1. A state that was started and updated by the rows of two parts is the one that `merge` makes of the states of the parts.
/// 2. `merge` is commutative and associative, also in the bytes of its result: answers do not depend on the number of threads.
/// 3. Nothing depends on anything but the arguments, and nothing panics.
///
/// ```
/// use overbank::aggregate::{Aggregate, Groups, GroupsOptions, Row, State, StateMut};
///
/// /// In which of 64 hours a key was seen.
/// struct Hours;
///
/// impl Aggregate for Hours {
///     fn row_words(&self) -> usize {
///         1
///     }
///     fn state_words(&self) -> usize {
///         1
///     }
///     fn update(&self, state: StateMut<'_>, row: Row<'_>) {
///         state.words[0] |= 1 << (row.words[0] % 64);
///     }
///     fn merge(&self, state: StateMut<'_>, other: State<'_>) {
///         state.words[0] |= other.words[0];
///     }
/// }
///
/// let hours = Groups::new(Hours, GroupsOptions::new())?;
/// hours.insert_many(&["ada", "grace", "ada"], &[7, 7, 9])?;
/// assert_eq!(hours.get(b"ada")?.map(|state| state.words), Some(vec![1 << 7 | 1 << 9]));
/// # Ok::<(), overbank::Error>(())
/// ```
pub trait Aggregate: Send + Sync + 'static {
    /// What it is called in files: states of one name are never taken for those of another. The same for aggregates that compute the same,
    /// in every build, and another one where what it computes changes; options that change it belong to it.
    fn name(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }

    /// Words that a row brings, at most [`WORDS_MAX`].
    fn row_words(&self) -> usize;

    /// Words of a state, at most [`WORDS_MAX`].
    fn state_words(&self) -> usize;

    /// Whether states have a tail, and rows bytes.
    fn has_tail(&self) -> bool {
        false
    }

    /// Makes `state`, all zeros and no tail, that of a group of no rows.
    fn start(&self, state: StateMut<'_>) {
        let _ = state;
    }

    /// Takes a row into a state.
    fn update(&self, state: StateMut<'_>, row: Row<'_>);

    /// Takes several rows of the group into its state: the same as [`Aggregate::update`] of each, which it is unless it is told otherwise.
    /// What has to go through a whole tail for a row may do that once for all of them.
    fn update_all(&self, state: StateMut<'_>, rows: &[Row<'_>]) {
        let StateMut { words, tail } = state;
        rows.iter().for_each(|&row| self.update(StateMut { words, tail }, row));
    }

    /// Takes what another state says of the same group into this one.
    fn merge(&self, state: StateMut<'_>, other: State<'_>);
}

/// How often each key came. Rows bring nothing but their key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count;

impl Aggregate for Count {
    fn name(&self) -> String {
        "count".to_owned()
    }

    #[inline]
    fn row_words(&self) -> usize {
        0
    }

    #[inline]
    fn state_words(&self) -> usize {
        1
    }

    #[inline]
    fn update(&self, state: StateMut<'_>, _row: Row<'_>) {
        state.words[0] = state.words[0].saturating_add(1);
    }

    #[inline]
    fn merge(&self, state: StateMut<'_>, other: State<'_>) {
        state.words[0] = state.words[0].saturating_add(other.words[0]);
    }
}

/// What rows and states of an aggregate look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) row_words: usize,
    pub(super) state_words: usize,
    pub(super) has_tail: bool,
}

impl Shape {
    /// That of an aggregate: constants, where its functions are.
    #[inline(always)]
    pub(super) fn of(aggregate: &(impl Aggregate + ?Sized)) -> Shape {
        Shape {
            row_words: aggregate.row_words(),
            state_words: aggregate.state_words(),
            has_tail: aggregate.has_tail(),
        }
    }
}
