//! What a command prints: headings, aligned facts and tables that fit 80 columns, all through one writer that notices a
//! closed pipe. Names of files and keys are other people's text: on a page and in a message, control characters stand escaped.

use crate::escape::escaped;
use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table};
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// The widest line: what a terminal shows by default.
const COLUMNS: u16 = 80;
/// What a table's numbers leave to its text at least; else its lines are as long as they must be.
const TEXT_COLUMNS_MIN: usize = 16;

/// Text for standard output, written in one piece so that a failure leaves nothing half-said.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
}

/// How a table's column is aligned.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A bold line with an empty one before it, unless it is the first.
    pub(crate) fn heading(&mut self, title: &str, note: &str) {
        let title = escaped(title.as_bytes());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&format!("{BOLD}{title}{BOLD:#}"));
        if !note.is_empty() {
            self.text.push_str(&format!("  {DIM}{note}{DIM:#}"));
        }
        self.text.push('\n');
    }

    /// One fact: its name, its value, and a remark.
    pub(crate) fn fact(&mut self, name: &str, value: &str, remark: &str) {
        let (value, remark) = (escaped(value.as_bytes()), escaped(remark.as_bytes()));
        self.text.push_str(&format!("  {name:<18} {value:>16}"));
        if !remark.is_empty() {
            self.text.push_str(&format!("  {DIM}{remark}{DIM:#}"));
        }
        self.text.push('\n');
    }

    /// A line without style.
    pub(crate) fn line(&mut self, text: &str) {
        self.text.push_str(&escaped(text.as_bytes()));
        self.text.push('\n');
    }

    /// A table with a header row, at most 80 columns wide where its numbers allow that: text is broken over lines, numbers never.
    pub(crate) fn table(&mut self, header: &[(&str, Align)], rows: &[Vec<String>]) {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        let width = |column: usize| {
            let texts = rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
            texts.chain([header[column].0]).map(|text| text.width() + 2).max().unwrap_or(0)
        };
        let is_number = |column: &usize| matches!(header[*column].1, Align::Right);
        let numbers: usize = (0..header.len()).filter(is_number).map(width).sum();
        let has_text = !(0..header.len()).all(|column| is_number(&column));
        let text_min = if has_text { TEXT_COLUMNS_MIN } else { 0 };
        let has_room = numbers + text_min <= usize::from(COLUMNS);
        let arrangement = if has_room { ContentArrangement::Dynamic } else { ContentArrangement::Disabled };
        table.set_content_arrangement(arrangement).set_width(COLUMNS - 2);
        let cell = |text: &str, align: Align| {
            Cell::new(escaped(text.as_bytes())).set_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            })
        };
        table.set_header(header.iter().map(|(name, align)| cell(name, *align)));
        for row in rows {
            table.add_row(row.iter().zip(header).map(|(text, (_, align))| cell(text, *align)));
        }
        for (column, (_, align)) in table.column_iter_mut().zip(header) {
            if matches!(align, Align::Right) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        for (i, line) in table.lines().enumerate() {
            let line = line.trim_end();
            match i {
                0 => self.text.push_str(&format!("{DIM} {line}{DIM:#}\n")),
                _ => self.text.push_str(&format!(" {line}\n")),
            }
        }
    }

    /// Numbers with their names: side by side where they fit, else one a line.
    pub(crate) fn figures(&mut self, names: &[String], numbers: &[String]) {
        const BETWEEN: usize = 2;
        let widths =
            names.iter().zip(numbers).map(|(name, number)| name.width().max(number.width()) + BETWEEN);
        if widths.sum::<usize>() < usize::from(COLUMNS) {
            let header: Vec<(&str, Align)> = names.iter().map(|name| (name.as_str(), Align::Right)).collect();
            return self.table(&header, &[numbers.to_vec()]);
        }
        let name_columns = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let number_columns = numbers.iter().map(|number| number.width()).max().unwrap_or(0);
        for (name, number) in names.iter().zip(numbers) {
            self.line(&format!("  {name:<name_columns$}  {number:>number_columns$}"));
        }
    }

    /// The page as text with its colours.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Writes the page to standard output. Colour only on a terminal, and never with `NO_COLOR`.
    pub(crate) fn print(self) -> Result<(), Failure> {
        let mut out = anstream::AutoStream::auto(io::stdout().lock());
        out.write_all(self.text.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}

/// Prints a JSON value on one line, or indented when standard output is a terminal.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    use std::io::IsTerminal;
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { format!("{value:#}\n") } else { format!("{value}\n") };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A key as text of at most `columns` columns of a terminal: what is not printable UTF-8 is escaped, and a long key is cut with `…`.
pub(crate) fn key_text(key: &[u8], columns: usize) -> String {
    let text = escaped(key);
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    if text.width() <= columns {
        return text;
    }
    let mut kept = String::new();
    for character in text.chars() {
        if kept.width() + character.width().unwrap_or(0) + 1 > columns {
            break;
        }
        kept.push(character);
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_and_cut() {
        assert_eq!(key_text(b"plain", 10), "plain");
        assert_eq!(key_text(b"tab\there", 20), "tab\\there");
        assert_eq!(key_text(b"\xff\x00", 20), "\\xff\\u{0}");
        assert_eq!(key_text(b"abcdefghij", 5), "abcd…");
        assert_eq!(key_text(b"", 5), "(empty)");
        assert_eq!(key_text("日本語のキー".as_bytes(), 7), "日本語…", "a wide character takes two columns");
    }

    #[test]
    fn numbers_are_never_broken_over_lines() {
        let long = ["-4,000,000,000,500,000".to_owned(), "1.80000e308".to_owned()];
        let names: Vec<String> = (0..9).map(|i| format!("p{i}")).collect();
        for columns in 2..=9 {
            let numbers: Vec<String> = long.iter().cycle().take(columns).cloned().collect();
            let mut page = Page::new();
            page.figures(&names[..columns], &numbers);
            page.table(
                &[("at most", Align::Right), ("key", Align::Left)],
                &[vec![long[0].clone(), "k".repeat(90)]],
            );
            for number in &numbers {
                assert!(page.text.contains(number.as_str()), "{number} in {}", page.text);
            }
        }
    }

    #[test]
    fn no_name_reaches_the_terminal_with_control_characters() {
        let name = "a\u{1b}[31mred\n\u{9b}b";
        let mut page = Page::new();
        page.heading(name, "");
        page.fact("file", name, name);
        page.line(name);
        page.table(&[("name", Align::Left)], &[vec![name.to_owned()]]);
        let plain = anstream::adapter::strip_str(&page.text).to_string();
        assert!(!plain.chars().any(|character| character.is_control() && character != '\n'), "{plain:?}");
        assert_eq!((plain.matches("red").count(), plain.matches("\\u{1b}[31m").count()), (5, 5), "{plain}");
    }

    #[test]
    fn wide_characters_keep_columns_aligned() {
        let mut page = Page::new();
        let row = |key: &str| vec![key.to_owned(), "7".to_owned()];
        page.table(&[("key", Align::Left), ("count", Align::Right)], &[row("日本"), row("abcd"), row("é")]);
        let plain = anstream::adapter::strip_str(&page.text).to_string();
        let widths: Vec<usize> = plain.lines().map(UnicodeWidthStr::width).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{plain}");
    }

    #[test]
    fn numbers_are_never_broken() {
        let mut page = Page::new();
        let number = "18,446,744,073,709,551,615".to_owned();
        let header = [("count", Align::Right), ("at least", Align::Right), ("at most", Align::Right)];
        let key = ("key", Align::Left);
        page.table(
            &[&header[..], &[key]].concat(),
            &[[vec![number.clone(); 3], vec!["a key".into()]].concat()],
        );
        let plain = anstream::adapter::strip_str(&page.text).to_string();
        assert_eq!(plain.matches(&number).count(), 3, "{plain}");
        assert!(plain.contains("  a key"), "{plain}");
    }

    #[test]
    fn tables_fit_eighty_columns() {
        let mut page = Page::new();
        let long = "x".repeat(200);
        page.table(&[("count", Align::Right), ("key", Align::Left)], &[vec!["12".into(), long]]);
        let plain = anstream::adapter::strip_str(&page.text).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= COLUMNS as usize), "{plain}");
    }
}
