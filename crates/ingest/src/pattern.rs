//! Patterns of file names, over bytes: a name need not be UTF-8.
//!
//! `*` stands for any part of a name, `?` for one character, `[a-c]` and `[!a-c]` for one of a set or none of it, and a name that is
//! `**` for any number of directories, links to directories left out. A byte that is no UTF-8 is a character of its own.

use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The characters that make a name a pattern.
const SPECIAL: &[u8] = b"*?[";

/// Whether a path is a pattern.
pub(crate) fn is_pattern(path: &Path) -> bool {
    has_special(path.as_os_str().as_encoded_bytes())
}

fn has_special(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| SPECIAL.contains(byte))
}

/// All paths that match, in any order.
///
/// # Errors
/// A bracket that is not closed, or a directory that cannot be listed.
pub(crate) fn matches(pattern: &Path) -> Result<Vec<PathBuf>> {
    let (roots, parts): (Vec<_>, Vec<_>) =
        pattern.components().partition(|part| matches!(part, Component::Prefix(_) | Component::RootDir));
    let mut found = vec![roots.into_iter().collect::<PathBuf>()];
    let mut parts = parts.into_iter().map(Component::as_os_str).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let bytes = part.as_encoded_bytes();
        let mut next = Vec::new();
        if bytes == b"**" {
            found.iter().try_for_each(|directory| descend(directory, &mut next))?;
            if is_last {
                next = list_all(&next)?;
            }
        } else if has_special(bytes) {
            let tokens = tokens(bytes).ok_or_else(|| Error::InvalidOption {
                name: "input",
                value: pattern.display().to_string(),
                why: "the pattern has a '[' that is not closed".to_owned(),
            })?;
            for directory in &found {
                let names = names(directory)?;
                let names =
                    names.into_iter().filter(|name| fits(&tokens, &characters(name.as_encoded_bytes())));
                next.extend(names.map(|name| directory.join(name)));
            }
        } else {
            let paths = found.iter().map(|directory| directory.join(part));
            next.extend(paths.filter(|path| path.symlink_metadata().is_ok()));
        }
        found = next;
        if !is_last {
            found.retain(|path| path.as_os_str().is_empty() || path.is_dir());
        }
    }
    Ok(found)
}

/// The names in a directory; none where it is none.
fn names(directory: &Path) -> Result<Vec<OsString>> {
    let listed = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let failed = |source| Error::Open { path: listed.to_path_buf(), source };
    let entries = listed.read_dir().map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
}

/// A directory and all below it.
fn descend(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    found.push(directory.to_path_buf());
    for name in names(directory)? {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            descend(&path, found)?;
        }
    }
    Ok(())
}

fn list_all(directories: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for directory in directories {
        all.extend(names(directory)?.into_iter().map(|name| directory.join(name)));
    }
    Ok(all)
}

/// What stands for characters.
enum Token {
    Any,
    One,
    Is(u32),
    Set { ranges: Vec<(u32, u32)>, is_negated: bool },
}

/// The characters of a name; bytes that are no UTF-8 lie beyond Unicode.
fn characters(name: &[u8]) -> Vec<u32> {
    const BEYOND: u32 = 0x11_0000;
    let chunks = name.utf8_chunks();
    chunks
        .flat_map(|chunk| {
            let invalid = chunk.invalid().iter().map(|&byte| BEYOND + u32::from(byte));
            chunk.valid().chars().map(u32::from).chain(invalid).collect::<Vec<_>>()
        })
        .collect()
}

/// `None` where a bracket is not closed.
fn tokens(part: &[u8]) -> Option<Vec<Token>> {
    let part = characters(part);
    let [any, one, open, close, dash] = ['*', '?', '[', ']', '-'].map(u32::from);
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&character) = part.get(at) {
        at += 1;
        tokens.push(match character {
            _ if character == any => Token::Any,
            _ if character == one => Token::One,
            _ if character == open => {
                let is_negated = part.get(at) == Some(&'!'.into());
                at += usize::from(is_negated);
                // A bracket that comes first stands for itself.
                let length = 1 + part.get(at + 1..)?.iter().position(|&character| character == close)?;
                let mut set = &part[at..at + length];
                at += length + 1;
                let mut ranges = Vec::new();
                while let [first, rest @ ..] = set {
                    let (last, behind) = match rest {
                        [middle, last, behind @ ..] if *middle == dash => (last, behind),
                        _ => (first, rest),
                    };
                    ranges.push((*first, *last));
                    set = behind;
                }
                Token::Set { ranges, is_negated }
            }
            _ => Token::Is(character),
        });
    }
    Some(tokens)
}

/// Whether the whole name fits. At a mismatch the last `*` takes one character more, and none before it needs another look.
fn fits(tokens: &[Token], name: &[u32]) -> bool {
    let (mut token, mut at, mut retry) = (0, 0, None);
    loop {
        let fits_here = match tokens.get(token) {
            Some(Token::Any) => {
                retry = Some((token + 1, at));
                token += 1;
                continue;
            }
            None if at == name.len() => return true,
            None => false,
            Some(one) => name.get(at).is_some_and(|&character| match one {
                Token::Any | Token::One => true,
                Token::Is(wanted) => *wanted == character,
                Token::Set { ranges, is_negated } => {
                    let is_in = |&(first, last): &(u32, u32)| (first..=last).contains(&character);
                    ranges.iter().any(is_in) != *is_negated
                }
            }),
        };
        if fits_here {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        match retry {
            Some((back, from)) if from < name.len() => {
                retry = Some((back, from + 1));
                (token, at) = (back, from + 1);
            }
            _ => return false,
        }
    }
}

/// The paths as bytes sort.
pub(crate) fn sort(paths: &mut [PathBuf]) {
    paths.sort_by(|one, other| one.as_os_str().as_encoded_bytes().cmp(other.as_os_str().as_encoded_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn fits_name(pattern: &[u8], name: &[u8]) -> bool {
        fits(&tokens(pattern).expect("a pattern"), &characters(name))
    }

    #[test]
    fn patterns_fit_names_of_any_bytes() {
        for (pattern, name, expected) in [
            (&b"*.log"[..], &b"a.log"[..], true),
            (b"*.log", b"\xff\xfe.log", true),
            (b"*.log", b"a.log.gz", false),
            (b"?.log", b"\xff.log", true),
            (b"?.log", "ü.log".as_bytes(), true),
            (b"?.log", b"ab.log", false),
            (b"[a-c]x", b"bx", true),
            (b"[!a-c]x", b"bx", false),
            (b"[!a-c]x", b"\xffx", true),
            (b"[]]x", b"]x", true),
            (b"[a-]x", b"-x", true),
            (b"[\xfe-\xff]x", b"\xffx", true),
            (b"*a*b*c", b"xaybzabc", true),
            (b"*a*b*c", b"xaybzab", false),
            (b"**", b"anything", true),
            (b"a*", b"a", true),
            (b"*", b"", true),
        ] {
            assert_eq!(
                fits_name(pattern, name),
                expected,
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
        }
        assert!(tokens(b"a[b").is_none() && tokens(b"[").is_none() && tokens(b"[]").is_none());
    }

    #[test]
    fn paths_are_found_through_directories() {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/b")).expect("directories");
        let odd = OsString::from_vec(b"\xff.txt".to_vec());
        for path in [root.join("1.txt"), root.join("a/2.txt"), root.join("a/b").join(&odd)] {
            std::fs::write(path, "x").expect("a file");
        }
        let find = |pattern: &str| {
            let mut found = matches(&root.join(pattern)).expect("found");
            sort(&mut found);
            found
                .into_iter()
                .map(|path| path.strip_prefix(root).expect("below").to_path_buf())
                .collect::<Vec<_>>()
        };
        assert_eq!(find("*.txt"), [Path::new("1.txt")]);
        assert_eq!(find("*/*.txt"), [Path::new("a/2.txt")]);
        assert_eq!(
            find("**/*.txt"),
            [Path::new("1.txt"), Path::new("a/2.txt"), &Path::new("a/b").join(&odd)]
        );
        assert_eq!(find("a/[b]/?.txt"), [Path::new("a/b").join(&odd)]);
        assert!(find("none/*").is_empty());
    }
}
