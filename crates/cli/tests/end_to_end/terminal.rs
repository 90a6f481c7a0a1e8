//! What people see: pages that fit 80 columns, no colour where it does not belong, help, completions, manual pages.

use crate::command::overbank;
use crate::stream::{file, keys, lines, sample};
use std::process::{Command, Stdio};

const COMMANDS: [&str; 15] = [
    "profile",
    "count",
    "monitor",
    "dedup",
    "seen",
    "filter",
    "top",
    "estimate",
    "distinct",
    "quantile",
    "info",
    "verify",
    "plan",
    "completions",
    "man",
];

pub(crate) fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert!(!line.chars().any(|c| c.is_control()), "{line:?}");
    }
}

#[test]
fn pages_fit_eighty_columns() {
    let place = tempfile::tempdir().unwrap();
    let mut rows = keys(41, 30_000, 9_000);
    rows.extend((0..40_000u64).map(|i| format!("{:0>120}\u{fc}\u{7}", i % 20)));
    let input = file(place.path(), "keys", lines(&rows));
    let store = place.path().join("s");
    fits(&overbank("profile --memory 16MiB --store").with(&store).with(&input).run().text());
    fits(&overbank("profile").with(sample("hsts_hosts.txt.zst")).run().text());
    fits(&overbank("top -n 300").with(&store).run().text());
    for command in ["distinct", "quantile", "verify"] {
        fits(&overbank(command).with(&store).run().text());
    }
    let long = "k".repeat(300);
    fits(&overbank("estimate").with(&store).with(&long).with(&rows[0]).run().out);
    let counted = place.path().join("c");
    fits(&overbank("count --memory 16MiB --flash 1GiB --store").with(&counted).with(&input).run().text());
    fits(&overbank("info").with(&counted).run().out.replace(place.path().to_str().unwrap(), ""));
    fits(&overbank("verify").with(&counted).run().text());
    fits(&overbank("plan --rows 1e18 --epsilon 1e-9").run().text());
    fits(&overbank("profile --memory 8MiB").with(&input).run().text());
    let json: String = (0..500u32)
        .map(|i| format!("{{\"k\": \"\u{6f22}\u{5b57}{i}\", \"v\": {}}}\n", f64::from(i).powi(5) * 1e7))
        .collect();
    fits(&overbank("profile --format jsonl --key k --value v").fed(json).run().text());
}

#[test]
fn nothing_but_text_goes_where_no_terminal_is() {
    let input = lines(&keys(42, 5_000, 1_000));
    let plain = overbank("profile --seed 7").fed(input.clone()).run();
    assert!(!plain.out.contains('\u{1b}'));
    // No progress: standard error of a run that went well is empty, and `text` checks that.
    plain.text();
    overbank("profile --seed 7").variable("CLICOLOR_FORCE", "1").fed(input).run().text();
}

/// Runs the command on a pseudo-terminal; `None` where `script` is missing.
fn on_a_terminal(variables: &[(&str, &str)]) -> Option<String> {
    let command = format!(
        "{} profile --seed 7 {}",
        env!("CARGO_BIN_EXE_overbank"),
        sample("hsts_hosts.txt.zst").display()
    );
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]).stdin(Stdio::null());
    script.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let output = script.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_terminal_gets_colour_unless_it_is_unwanted() {
    let (Some(coloured), Some(plain)) = (on_a_terminal(&[]), on_a_terminal(&[("NO_COLOR", "1")])) else {
        println!("skipped: there is no `script` command here");
        return;
    };
    let page = |text: &str| text[text.find("Profile of").expect("the page")..].to_owned();
    assert!(page(&coloured).contains("\u{1b}["));
    assert!(!page(&plain).contains("\u{1b}["), "{plain:?}");
}

#[test]
fn every_command_explains_each_of_its_flags() {
    let main = overbank("--help").run().text();
    for command in COMMANDS {
        assert!(main.contains(command), "{command} is not in the help");
        let help = overbank(command).with("--help").run().text();
        let is_flag = |line: &&str| {
            line.trim_start().starts_with("--") || line.trim_start().starts_with("-") && !line.contains("- ")
        };
        for line in help.lines().filter(is_flag) {
            // A flag's line, or the one behind it, explains it.
            let at = help.find(line).unwrap() + line.len();
            let explained =
                line.trim_start().contains("  ") || help[at..].trim_start().starts_with(char::is_uppercase);
            assert!(explained, "{command}: {line}");
        }
    }
    let help = overbank("profile --help").run().text();
    for flag in
        "key weight value format delimiter no-header strict memory store resume append commit-every top json \
                 threads seed hash quiet"
            .split_whitespace()
    {
        assert!(help.contains(&format!("--{flag}")), "--{flag} is not in the help");
    }
    let shared = help;
    let help = overbank("count --help").run().text();
    for flag in "epsilon delta flash pending conservative resume append commit-every weight threads"
        .split_whitespace()
    {
        assert!(help.contains(&format!("--{flag}")), "--{flag} is not in the help");
    }
    assert!(shared.contains("--flash"));
    assert!(overbank("--version").run().text().starts_with("overbank "));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = overbank("completions").with(shell).run().text();
        for word in COMMANDS.iter().chain(&["commit-every"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let place = tempfile::tempdir().unwrap();
    let manual = place.path().join("new/man");
    overbank("man").with(&manual).run().text();
    for command in COMMANDS {
        let page = std::fs::read_to_string(manual.join(format!("overbank-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(command));
    }
    assert!(manual.join("overbank.1").exists());
}
