//! What a packet costs in each program beside the empty one, by the kernel's own clock (`BPF_PROG_TEST_RUN`). Needs root.
//!
//! cargo run --release -p overbank-xdp --example cost

#[cfg(target_os = "linux")]
fn main() -> Result<(), overbank_xdp::Error> {
    use overbank_xdp::{Options, Sketch, XdpWorker};
    const ROUNDS: usize = 15;
    const REPEAT: u32 = 100_000;
    let mut v4 = vec![2; 12];
    v4.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 99]);
    v4.resize(60, 0);
    let mut v6 = vec![2; 12];
    v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64]);
    v6.extend([0xfd; 32]);
    v6.extend([0, 53, 0, 99]);
    v6.resize(74, 0);
    println!("nanoseconds a packet beyond the empty program, median of {ROUNDS} rounds of {REPEAT}");
    println!("{:<14} {:>5} {:>8} {:>8}", "sketch", "tau", "IPv4", "IPv6");
    for sketch in Sketch::ALL.into_iter().filter(|&sketch| sketch != Sketch::Empty) {
        for tau in [127, 20, 1] {
            let mut worker = XdpWorker::load(sketch, &Options { tau, ..Options::default() })?;
            let mut medians = Vec::new();
            for packet in [&v4, &v6] {
                let mut extra = Vec::new();
                for _ in 0..ROUNDS {
                    // In slices, so that the ring has room.
                    let mut taken = 0;
                    for _ in 0..REPEAT / 5000 {
                        taken += worker.run(packet, 5000)?.nanoseconds;
                        worker.poll();
                    }
                    let empty = XdpWorker::run_empty(packet, REPEAT)?.nanoseconds;
                    extra.push(i64::from(taken / (REPEAT / 5000)) - i64::from(empty));
                }
                extra.sort_unstable();
                medians.push(extra[ROUNDS / 2]);
            }
            println!("{:<14} {tau:>5} {:>8} {:>8}", format!("{sketch:?}"), medians[0], medians[1]);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
