//! A directory of named summaries that commits as one.
