//! How several fields make one key.
//!
//! The fields are joined by tabs; a tab within a field becomes `\t` and a backslash `\\`. So different tuples never
//! give the same key, and the key reads as a person would write it. The key of one field is the field as it is.

use crate::batch::{Span, resolve};
use memchr::memchr2_iter;

/// The key of a row with these key fields, as a batch has it: for queries.
///
/// ```
/// assert_eq!(overbank_ingest::join_key(&[b"GET", b"/index"]), b"GET\t/index");
/// assert_eq!(overbank_ingest::join_key(&[b"a\tb", b"c"]), b"a\\tb\tc");
/// assert_eq!(overbank_ingest::join_key(&[b"a\tb"]), b"a\tb");
/// ```
pub fn join_key(fields: &[&[u8]]) -> Vec<u8> {
    if let [field] = fields {
        return field.to_vec();
    }
    let mut key = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            key.push(b'\t');
        }
        append_field(Span::text(0, field.len()), field, &mut key);
    }
    key
}

/// Appends a field to the arena that it may lie in itself.
pub(crate) fn append_field(field: Span, text: &[u8], arena: &mut Vec<u8>) {
    let plain = {
        let bytes = resolve(field, text, arena);
        memchr2_iter(b'\t', b'\\', bytes).next().is_none()
    };
    match (plain, field.arena_range()) {
        (true, Some(range)) => arena.extend_from_within(range),
        (true, None) => arena.extend_from_slice(resolve(field, text, &[])),
        (false, _) => {
            let bytes = resolve(field, text, arena).to_vec();
            for byte in bytes {
                match byte {
                    b'\t' => arena.extend(b"\\t"),
                    b'\\' => arena.extend(b"\\\\"),
                    _ => arena.push(byte),
                }
            }
        }
    }
}
