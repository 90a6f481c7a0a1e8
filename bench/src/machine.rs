//! What the figures were measured on, as one line that goes into every figure's parameters.

use std::fs;

/// "AMD EPYC 7R13, 2 cores, 24 GiB, Linux 6.1.0".
pub fn machine() -> String {
    let cpu =
        field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_kib: u64 = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|total| total.split_whitespace().next()?.parse().ok())
        .unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cpu}, {cores} cores, {} GiB, Linux {}", memory_kib.div_ceil(1 << 20), kernel.trim())
}

/// The value of the first line `name : value`.
pub(crate) fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t: 1\nmodel name\t: Some CPU\nVmHWM:\t  120 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU"));
        assert_eq!(field(text, "VmHWM").as_deref(), Some("120 kB"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn the_line_names_cores_and_kernel() {
        let line = machine();
        assert!(line.contains(" cores, ") && line.contains("Linux "), "{line}");
    }
}
