//! In-memory sketches: one file or folder each.
