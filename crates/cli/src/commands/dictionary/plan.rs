//! `overbank dict plan --items N`: what a dictionary will cost, before it is built.

use super::session;
use crate::arguments::DictionaryPlanArguments;
use crate::commands::stream::default_threads;
use crate::failure::{CommandResult, Outcome};
use crate::page::{Page, print_json};
use crate::units;
use overbank::dictionary::DictionaryPlan;
use serde_json::json;

pub(super) fn run(arguments: &DictionaryPlanArguments) -> CommandResult {
    let options = session::shaped(session::options(arguments.memory)?, &arguments.shape);
    let (items, key, value) = (arguments.items, arguments.key_bytes, arguments.value_bytes);
    let plan = options.plan(items, key, value, default_threads())?;
    if arguments.json {
        print_json(&json!({
            "items": items,
            "key_bytes": key,
            "value_bytes": value,
            "memory_bytes": arguments.memory,
            "dictionary_memory_bytes": options.chosen_memory_bytes(),
            "memory_bytes_min": plan.memory_bytes_min,
            "flash_bytes": plan.flash_bytes,
            "flash_bytes_max": plan.flash_peak_bytes,
            "index_bytes": plan.index_bytes,
            "index_bits_an_item": plan.index_bits_an_item,
            "memtable_items": plan.memtable_items,
            "load_runs": plan.load_runs,
            "load_writes": plan.load_writes,
        }))?;
    } else {
        as_page(arguments, options.chosen_memory_bytes(), &plan).print()?;
    }
    Ok(Outcome::Found)
}

fn as_page(arguments: &DictionaryPlanArguments, memory_bytes: usize, plan: &DictionaryPlan) -> Page {
    let mut page = Page::new();
    let each = arguments.key_bytes + arguments.value_bytes;
    let title = format!("A dictionary of {} keys", units::count(arguments.items));
    page.heading(&title, &format!("{} each with their values", units::bytes(each as u64)));

    page.heading("RAM", "");
    let share = format!("the dictionary's part of {}", units::bytes(arguments.memory));
    page.fact("dictionary", &units::bytes(memory_bytes as u64), &share);
    page.fact("at least", &units::bytes(plan.memory_bytes_min), "such a part serves so many keys");
    let index = format!("{} bits a key", units::small(plan.index_bits_an_item));
    page.fact("index", &units::bytes(plan.index_bytes), &index);
    page.fact("buffered", &units::count(plan.memtable_items), "keys between two writes");

    page.heading("Flash", "");
    let each = plan.flash_bytes as f64 / arguments.items.max(1) as f64;
    page.fact("dictionary", &units::bytes(plan.flash_bytes), &format!("{} bytes a key", units::small(each)));
    page.fact("at most", &units::bytes(plan.flash_peak_bytes), "while it is built");

    page.heading("I/O", "");
    page.fact("a lookup reads", "1", "page; those of a batch together");
    let runs = format!("times what it is; {} runs at first", units::count(plan.load_runs));
    page.fact("a build writes", &units::small(plan.load_writes), &runs);
    page
}
