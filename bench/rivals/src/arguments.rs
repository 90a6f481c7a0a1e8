//! The command line behind engine and step: a folder, and numbers by name.

use crate::Result;
use items::Items;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What a step is told.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    folder: Option<PathBuf>,
    named: HashMap<String, String>,
}

impl Arguments {
    /// Reads `NAME=VALUE`; a word without `=` is the folder.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self::default();
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => {
                    arguments.named.insert(name.to_owned(), value.to_owned());
                }
                None if arguments.folder.is_none() => arguments.folder = Some(word.into()),
                None => return Err(format!("{word:?} is not NAME=VALUE").into()),
            }
        }
        Ok(arguments)
    }

    /// Where the store is.
    pub(crate) fn folder(&self) -> Result<&Path> {
        Ok(self.folder.as_deref().ok_or("which folder?")?)
    }

    /// The number of that name.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let text = self.named.get(name).ok_or_else(|| format!("{name}= is missing"))?;
        Ok(text.parse().map_err(|_| format!("{name}={text} is no number"))?)
    }

    /// The workload.
    pub(crate) fn items(&self) -> Result<Items> {
        let name = self.named.get("items").map_or("", String::as_str);
        Ok(Items::from_name(name).ok_or_else(|| format!("there are no items {name:?}"))?)
    }

    /// The memory that buffers and caches share.
    pub(crate) fn memory_bytes(&self) -> Result<usize> {
        Ok(usize::try_from(self.number("memory_bytes")?)?)
    }
}
