//! A Rust file with its comments and literals blanked out, so that rules look at code alone.

use std::ops::Range;

/// One Rust file.
pub(crate) struct Source<'t> {
    /// Path from the root.
    pub(crate) path: &'t str,
    /// As written.
    pub(crate) text: &'t str,
    /// The text with comments and the insides of literals as blanks; the same bytes and lines otherwise.
    pub(crate) code: String,
    /// The bytes of inline `#[cfg(test)] mod … { … }`.
    tests: Vec<Range<usize>>,
}

impl<'t> Source<'t> {
    pub(crate) fn new(path: &'t str, text: &'t str) -> Self {
        let code = blank(text);
        let tests = inline_tests(&code);
        Self { path, text, code, tests }
    }

    /// Where `word` stands as a whole word, as byte offsets.
    pub(crate) fn words<'s>(&'s self, word: &'s str) -> impl Iterator<Item = usize> + 's {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let before = self.code[..at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    }

    /// The first names of all paths that start with `prefix` (`crate::`): one each, or all of a `{…}` group.
    pub(crate) fn heads(&self, prefix: &str) -> Vec<(usize, &str)> {
        let mut heads = Vec::new();
        for (at, _) in self.code.match_indices(prefix) {
            if self.code[..at].chars().next_back().is_some_and(|c| is_word(c) || c == ':') {
                continue;
            }
            self.heads_at(at + prefix.len(), &mut heads);
        }
        heads
    }

    /// The names that follow a `::` at byte `at`.
    pub(crate) fn heads_at<'s>(&'s self, at: usize, heads: &mut Vec<(usize, &'s str)>) {
        let rest = &self.code[at..];
        if !rest.starts_with('{') {
            heads.push((at, word_at(rest)));
            return;
        }
        let mut depth = 0;
        for (i, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && (c == '{' || c == ',') {
                let name = rest[i + 1..].trim_start();
                let name_at = at + rest.len() - name.len();
                if name.starts_with(is_word) {
                    heads.push((name_at, word_at(name)));
                }
            }
        }
    }

    /// The line of a byte, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Whether a byte is inside an inline test module.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word at the start of `text`; may be empty.
pub(crate) fn word_at(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// Replaces comments and the insides of string and character literals by blanks, byte for byte.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(text, at);
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    // Blanks replace whole characters, so this is UTF-8 still.
    String::from_utf8_lossy(&code).into_owned()
}

/// The end of the comment or literal that starts at byte `at`, or `at` when none does.
fn literal_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let until = |pattern: &str, from: usize| {
        text.get(from..)
            .and_then(|tail| tail.find(pattern))
            .map_or(text.len(), |found| from + found + pattern.len())
    };
    match rest[0] {
        b'/' if rest.starts_with(b"//") => text[at..].find('\n').map_or(text.len(), |found| at + found),
        b'/' if rest.starts_with(b"/*") => block_comment_end(bytes, at),
        b'"' => string_end(bytes, at),
        b'r' | b'b' | b'c' if !after_word => {
            let letters = rest.iter().take_while(|byte| b"rbc".contains(byte)).count();
            let hashes = rest[letters..].iter().take_while(|byte| **byte == b'#').count();
            let raw = rest[..letters].contains(&b'r');
            match rest.get(letters + hashes) {
                Some(b'"') if raw && letters <= 2 => {
                    until(&format!("\"{}", "#".repeat(hashes)), at + letters + hashes + 1)
                }
                _ => at,
            }
        }
        b'\'' => character_end(text, at),
        _ => at,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A character literal, or `at` when the quote starts a lifetime.
fn character_end(text: &str, at: usize) -> usize {
    let mut chars = text[at + 1..].char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some(_)) => text[at + 3..].find('\'').map_or(at, |found| at + 3 + found + 1),
        (Some(_), Some((i, '\''))) => at + 1 + i + 1,
        _ => at,
    }
}

/// The bytes of each `#[cfg(test)]` item with a `{…}` body.
fn inline_tests(code: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let body = &code[at + attribute.len()..];
        let Some(open) = body.find(['{', ';']).filter(|&open| body[open..].starts_with('{')) else {
            continue;
        };
        let mut depth = 0i32;
        let close = body[open..].find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let end = close.map_or(code.len(), |close| at + attribute.len() + open + close + 1);
        ranges.push(at..end);
    }
    ranges
}
