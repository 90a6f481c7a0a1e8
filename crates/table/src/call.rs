//! Functions as people write them: `count`, `sum(price)`, `quantile(ms, 0.999) as slow`.
//!
//! ```text
//!   calls   call { "," call }
//!   call    name [ "(" [ column { "," number } ] ")" ] [ "as" name ]
//!   column  a name, in double quotes where it has blanks, commas, brackets or quotes; "" is a quote within
//! ```

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A function of a column, and the name of its results.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// What is computed.
    pub function: CallFunction,
    /// Of which column; `None` for [`CallFunction::CountRows`] alone.
    pub column: Option<String>,
    /// The name of the column of results.
    pub name: String,
}

/// What is computed of a group's rows. NULLs take part in nothing but [`CallFunction::CountRows`]; of no values at all, counts are 0 and
/// everything else is NULL.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum CallFunction {
    /// Rows: `count`, `count(*)`.
    CountRows,
    /// Values that are not NULL: `count(x)`.
    Count,
    /// Their sum: `sum(x)`.
    Sum,
    /// Their mean, a float: `mean(x)`, `avg(x)`.
    Mean,
    /// The least: `min(x)`.
    Min,
    /// The greatest: `max(x)`.
    Max,
    /// Their variance as that of a sample: `var(x)`; NULL of one value.
    Variance,
    /// The root of that: `stddev(x)`.
    Deviation,
    /// The value of the first row that has one: `first(x)`.
    First,
    /// The value of the last row that has one: `last(x)`.
    Last,
    /// One of them, the same for any order of rows: `any(x)`.
    Any,
    /// The values of so many of the first rows that have one, in their order: `list(x, 10)`.
    List(usize),
    /// The values that come most often, about, each with its count and how far that may be off: `topk(x, 5)`.
    TopK(usize),
    /// How many different values there are, about: `distinct(x)`.
    Distinct,
    /// The value that this share of all is not greater than, about: `median(x)`, `p99(x)`, `quantile(x, 0.999)`.
    Quantile(f64),
    /// The set of small whole numbers that came, as bits from the lowest: `bitmap(x)`.
    Bitmap,
}

/// How functions are written, and what they take beside a column.
const NAMES: [(&str, Takes); 18] = [
    ("count", Takes::PerhapsColumn),
    ("sum", Takes::Column(CallFunction::Sum)),
    ("mean", Takes::Column(CallFunction::Mean)),
    ("avg", Takes::Column(CallFunction::Mean)),
    ("min", Takes::Column(CallFunction::Min)),
    ("max", Takes::Column(CallFunction::Max)),
    ("var", Takes::Column(CallFunction::Variance)),
    ("variance", Takes::Column(CallFunction::Variance)),
    ("stddev", Takes::Column(CallFunction::Deviation)),
    ("first", Takes::Column(CallFunction::First)),
    ("last", Takes::Column(CallFunction::Last)),
    ("any", Takes::Column(CallFunction::Any)),
    ("list", Takes::Length(CallFunction::List)),
    ("topk", Takes::Length(CallFunction::TopK)),
    ("distinct", Takes::Column(CallFunction::Distinct)),
    ("median", Takes::Column(CallFunction::Quantile(0.5))),
    ("quantile", Takes::Rank),
    ("bitmap", Takes::Column(CallFunction::Bitmap)),
];

/// What a function takes.
#[derive(Clone, Copy)]
enum Takes {
    PerhapsColumn,
    Column(CallFunction),
    /// A column and how many values.
    Length(fn(usize) -> CallFunction),
    /// A column and a number from 0 to 1.
    Rank,
}

impl Call {
    /// All calls of a list with commas between them.
    ///
    /// ```
    /// use overbank_table::{Call, CallFunction};
    /// let calls = Call::parse_list("count, p99(ms), sum(\"a, b\") as total")?;
    /// assert_eq!(calls[1].function, CallFunction::Quantile(0.99));
    /// assert_eq!(calls[1].name, "p99(ms)");
    /// assert_eq!((calls[2].column.as_deref(), &calls[2].name[..]), (Some("a, b"), "total"));
    /// # Ok::<(), overbank_table::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Call` for what is no list of known functions.
    pub fn parse_list(text: &str) -> Result<Vec<Call>> {
        let mut rest = Rest { text };
        let mut calls = Vec::new();
        loop {
            calls.push(rest.call().map_err(|why| Error::Call { text: text.to_owned(), why })?);
            rest.blanks();
            if rest.text.is_empty() {
                return Ok(calls);
            }
            if !rest.take(',') {
                let why = format!("a comma or the end is missing before {:?}", rest.text);
                return Err(Error::Call { text: text.to_owned(), why });
            }
        }
    }
}

impl FromStr for Call {
    type Err = Error;

    fn from_str(text: &str) -> Result<Call> {
        let mut calls = Call::parse_list(text)?;
        match (calls.pop(), calls.is_empty()) {
            (Some(call), true) => Ok(call),
            _ => Err(Error::Call { text: text.to_owned(), why: "it is more than one function".to_owned() }),
        }
    }
}

/// As it is read back.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        write!(f, "{}", self.function)?;
        if let Some(column) = &self.column {
            write!(f, "({}", quoted(column))?;
            match self.function {
                CallFunction::List(most) | CallFunction::TopK(most) => write!(f, ", {most}")?,
                CallFunction::Quantile(rank) => write!(f, ", {rank}")?,
                _ => {}
            }
            f.write_str(")")?;
        }
        write!(f, " as {}", quoted(&self.name))
    }
}

impl CallFunction {
    /// Whether it takes numbers, dates and times alone.
    pub fn needs_numbers(self) -> bool {
        matches!(
            self,
            CallFunction::Sum
                | CallFunction::Mean
                | CallFunction::Variance
                | CallFunction::Deviation
                | CallFunction::Quantile(_)
                | CallFunction::Bitmap
        )
    }

    /// Whether the order of values means something to it: then it matters whether `10` is a number or a text.
    pub fn orders(self) -> bool {
        self.needs_numbers() || matches!(self, CallFunction::Min | CallFunction::Max)
    }
}

impl fmt::Display for CallFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallFunction::CountRows | CallFunction::Count => "count",
            CallFunction::Sum => "sum",
            CallFunction::Mean => "mean",
            CallFunction::Min => "min",
            CallFunction::Max => "max",
            CallFunction::Variance => "var",
            CallFunction::Deviation => "stddev",
            CallFunction::First => "first",
            CallFunction::Last => "last",
            CallFunction::Any => "any",
            CallFunction::List(_) => "list",
            CallFunction::TopK(_) => "topk",
            CallFunction::Distinct => "distinct",
            CallFunction::Quantile(_) => "quantile",
            CallFunction::Bitmap => "bitmap",
        })
    }
}

/// What is still to be read.
struct Rest<'t> {
    text: &'t str,
}

impl<'t> Rest<'t> {
    fn blanks(&mut self) {
        self.text = self.text.trim_start();
    }

    fn take(&mut self, sign: char) -> bool {
        self.blanks();
        let behind = self.text.strip_prefix(sign);
        self.text = behind.unwrap_or(self.text);
        behind.is_some()
    }

    fn call(&mut self) -> std::result::Result<Call, String> {
        self.blanks();
        let begin = self.text;
        let name = self.word();
        if name.is_empty() {
            return Err(format!("a function is missing before {:?}; {}", self.text, choices()));
        }
        let mut arguments = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                arguments.push(self.argument()?);
                if self.take(')') {
                    break;
                }
                if !self.take(',') {
                    return Err(format!("a bracket of {name} is never closed"));
                }
            }
        }
        let written = begin[..begin.len() - self.text.len()].trim_end().to_owned();
        let (function, column) = function(name, arguments)?;
        let alias = self.alias()?;
        Ok(Call { function, column, name: alias.unwrap_or(written) })
    }

    fn word(&mut self) -> &'t str {
        let is_of_word = |sign: char| sign.is_alphanumeric() || sign == '_';
        let end = self.text.find(|sign| !is_of_word(sign)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }

    fn alias(&mut self) -> std::result::Result<Option<String>, String> {
        self.blanks();
        let is_alias = self.text.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("as"))
            && self.text[2..].starts_with([' ', '\t', '"']);
        if !is_alias {
            return Ok(None);
        }
        self.text = &self.text[2..];
        self.argument().map(Some)
    }

    /// A name, in quotes or up to a comma, a bracket or the end.
    fn argument(&mut self) -> std::result::Result<String, String> {
        self.blanks();
        let Some(mut quoted) = self.text.strip_prefix('"') else {
            let end = self.text.find([',', '(', ')', '"']).unwrap_or(self.text.len());
            let (name, rest) = self.text.split_at(end);
            self.text = rest;
            let name = name.trim_end();
            return if name.is_empty() { Err("a name is missing".to_owned()) } else { Ok(name.to_owned()) };
        };
        let mut name = String::new();
        loop {
            let (part, behind) = quoted.split_once('"').ok_or("a quote is never closed")?;
            name.push_str(part);
            match behind.strip_prefix('"') {
                Some(more) => {
                    name.push('"');
                    quoted = more;
                }
                None => {
                    self.text = behind;
                    return Ok(name);
                }
            }
        }
    }
}

fn choices() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    format!("functions are {} and p0 to p100", names.join(", "))
}

/// The function of a name and its arguments.
fn function(
    name: &str,
    arguments: Vec<String>,
) -> std::result::Result<(CallFunction, Option<String>), String> {
    let lower = name.to_ascii_lowercase();
    let percent = lower.strip_prefix('p').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let takes = match (
        percent.and_then(|digits| digits.parse::<u32>().ok()),
        NAMES.iter().find(|(known, _)| *known == lower),
    ) {
        (Some(percent @ 0..=100), _) => Takes::Column(CallFunction::Quantile(f64::from(percent) / 100.0)),
        (_, Some((_, takes))) => *takes,
        _ => return Err(format!("there is no function {name}; {}", choices())),
    };
    let mut arguments = arguments.into_iter();
    let column = arguments.next();
    let (second, more) = (arguments.next(), arguments.next());
    let needs = |what: &str| Err(format!("{name} takes {what}"));
    if more.is_some() {
        return needs("no more than a column and a number");
    }
    match (takes, column, second) {
        (Takes::PerhapsColumn, None, None) => Ok((CallFunction::CountRows, None)),
        (Takes::PerhapsColumn, Some(column), None) if column == "*" => Ok((CallFunction::CountRows, None)),
        (Takes::PerhapsColumn, Some(column), None) => Ok((CallFunction::Count, Some(column))),
        (Takes::PerhapsColumn, ..) => needs("a column, or nothing"),
        (Takes::Column(function), Some(column), None) => Ok((function, Some(column))),
        (Takes::Column(_), ..) => needs("a column, such as ").map_err(|why| format!("{why}{name}(x)")),
        (Takes::Length(function), Some(column), Some(length)) => match length.parse() {
            Ok(length) if length > 0 => Ok((function(length), Some(column))),
            _ => needs("a column and a whole number from 1"),
        },
        (Takes::Length(_), ..) => {
            needs("a column and how many values, such as ").map_err(|why| format!("{why}{name}(x, 10)"))
        }
        (Takes::Rank, Some(column), Some(rank)) => match rank.parse() {
            Ok(rank) if (0.0..=1.0).contains(&rank) => Ok((CallFunction::Quantile(rank), Some(column))),
            _ => needs("a column and a number from 0 to 1"),
        },
        (Takes::Rank, ..) => needs("a column and a number from 0 to 1, such as quantile(x, 0.99)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Vec<(CallFunction, Option<String>, String)> {
        let calls = Call::parse_list(text).unwrap();
        calls.into_iter().map(|call| (call.function, call.column, call.name)).collect()
    }

    #[test]
    fn calls_are_read_as_they_are_written() {
        let x = || Some("x".to_owned());
        assert_eq!(
            calls("count,count(*) ,COUNT(x), Sum( x ),list(x,10),p99(x),median(x),quantile(x, 0.999)"),
            [
                (CallFunction::CountRows, None, "count".into()),
                (CallFunction::CountRows, None, "count(*)".into()),
                (CallFunction::Count, x(), "COUNT(x)".into()),
                (CallFunction::Sum, x(), "Sum( x )".into()),
                (CallFunction::List(10), x(), "list(x,10)".into()),
                (CallFunction::Quantile(0.99), x(), "p99(x)".into()),
                (CallFunction::Quantile(0.5), x(), "median(x)".into()),
                (CallFunction::Quantile(0.999), x(), "quantile(x, 0.999)".into()),
            ]
        );
        assert_eq!(
            calls(r#"max("a ""b"", (c)") as "the most",min(user.id) AS least,topk(as,3)"#),
            [
                (CallFunction::Max, Some(r#"a "b", (c)"#.into()), "the most".into()),
                (CallFunction::Min, Some("user.id".into()), "least".into()),
                (CallFunction::TopK(3), Some("as".into()), "topk(as,3)".into()),
            ]
        );
    }

    #[test]
    fn calls_that_are_written_are_read_back() {
        let text = r#"count, count(x), list("a, ""b""", 3), p99(x) as p, topk(x, 2), bitmap(x), stddev(x) as "a b", mean(x)"#;
        let calls = Call::parse_list(text).unwrap();
        let written: Vec<String> = calls.iter().map(Call::to_string).collect();
        assert_eq!(Call::parse_list(&written.join(",")).unwrap(), calls);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        for (text, why) in [
            ("", "a function is missing"),
            ("count,", "a function is missing"),
            ("summ(x)", "no function summ; functions are count, sum"),
            ("p101(x)", "no function p101"),
            ("p(x)", "no function p"),
            ("sum", "sum takes a column, such as sum(x)"),
            ("sum()", "sum takes a column"),
            ("sum(x,1)", "sum takes a column"),
            ("sum(x,1,2)", "no more than a column and a number"),
            ("list(x)", "list takes a column and how many values, such as list(x, 10)"),
            ("topk(x,0)", "a whole number from 1"),
            ("quantile(x,1.5)", "a number from 0 to 1"),
            ("quantile(x)", "quantile(x, 0.99)"),
            ("count(x,y)", "a column, or nothing"),
            ("sum(x", "a bracket of sum is never closed"),
            ("sum(\"x)", "a quote is never closed"),
            ("sum(x) max(y)", "a comma or the end is missing"),
            ("sum(,)", "a name is missing"),
        ] {
            let error = Call::parse_list(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!("count,sum(x)".parse::<Call>().unwrap_err().to_string().contains("more than one"));
    }
}
