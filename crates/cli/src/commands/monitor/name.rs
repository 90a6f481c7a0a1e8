//! Flow keys as messages carry them: of one length, whatever the kind and the family.
//!
//! ```text
//!   key's bytes, up to 37 │ zeros │ how many they are
//! ```

use overbank_ingest::capture::{FlowKey, FlowKind};

/// A flow's key in a message.
pub(super) type Name = [u8; NAME_BYTES];
const NAME_BYTES: usize = 38;

/// A key as messages carry it.
pub(super) fn name_of(key: &FlowKey) -> Name {
    let bytes = key.as_bytes();
    let mut name = [0; NAME_BYTES];
    name[..bytes.len()].copy_from_slice(bytes);
    name[NAME_BYTES - 1] = bytes.len() as u8;
    name
}

/// The key that a message carried.
pub(super) fn key_of(kind: FlowKind, name: &Name) -> Option<FlowKey> {
    FlowKey::from_bytes(kind, bytes_of(name))
}

/// The key's bytes that a message carried.
pub(super) fn bytes_of(name: &Name) -> &[u8] {
    name.get(..usize::from(name[NAME_BYTES - 1])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let v4 = FlowKey::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 80, 443, 6);
        let v6 = FlowKey::v6([255; 16].into(), [0; 16].into(), u16::MAX, 0, u8::MAX);
        for kind in ["five-tuple", "src-dst", "src", "dst-dport", "proto"] {
            let kind = kind.parse().expect("a kind");
            for key in [v4, v6] {
                let key = key.project(kind).expect("all fields");
                assert_eq!(key_of(kind, &name_of(&key)), Some(key));
            }
        }
        assert_eq!(key_of(FlowKind::SOURCE, &[0xff; NAME_BYTES]), None, "bytes of anything");
    }
}
