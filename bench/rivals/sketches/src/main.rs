//! Sketches of the crate `asap_sketchlib` behind one command line: what `bench monitor_speed` calls for a sample.
//!
//! ```text
//!   NAME end_to_end KEYS   its runtime: keys are handed to one worker's thread, which sends to the aggregator's; time of the process
//!   NAME worker KEYS       what its worker does with each key, and nobody takes what it sends; time of the thread
//! ```
//!
//! NAME, under which the program is called, is the sketch: count_min, count_sketch, hyperloglog, ddsketch, coco, elastic or univ_mon, in
//! the shapes of the paper. KEYS is a file of 8-byte keys. The last line is what it took, as the bench reads it.

use asap_sketchlib::{
    CocoOctoPlan, CountMinSketchWithHeapOctoPlan, CountSketchWithHeapOctoPlan, DataInput, DdOctoPlan, ElasticOctoPlan,
    HllOctoPlan, OctoAggregator, OctoConfig, OctoPlan, OctoRuntime, OctoWorker, UnivMonOctoPlan,
};
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::time::Instant;

/// The result of a step; a program's error is any error.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROWS: usize = 3;
const COLUMNS: usize = 1 << 16;
const HEAVY_KEYS: usize = 1023;
const LEVELS: usize = 6;
/// The published code's: 1023 keys and a half more, four in a bucket.
const BUCKETS: i32 = 767;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [program, step, keys] = words.as_slice() else { return Err("which step, and which keys?".into()) };
    let name = program.rsplit('/').next().unwrap_or(program);
    let bytes = std::fs::read(keys)?;
    let keys: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|&key| u64::from_le_bytes(key)).collect();
    let job = Job { step, keys: &keys };
    match name {
        "count_min" => {
            let plan = CountMinSketchWithHeapOctoPlan::new(ROWS, COLUMNS);
            let total = plan.aggregator(HEAVY_KEYS);
            job.run(plan, total, DataInput::U64)
        }
        "count_sketch" => {
            let plan = CountSketchWithHeapOctoPlan::new(ROWS, COLUMNS);
            let total = plan.aggregator(HEAVY_KEYS);
            job.run(plan, total, DataInput::U64)
        }
        "hyperloglog" => {
            let plan = HllOctoPlan::new();
            let total = plan.aggregator();
            job.run(plan, total, DataInput::U64)
        }
        "ddsketch" => {
            let plan = DdOctoPlan::new(0.01);
            let total = plan.aggregator();
            // Values over six decades.
            job.run(plan, total, |key| DataInput::F64(1.0 + (key % 1_000_000) as f64))
        }
        "coco" => {
            let plan = CocoOctoPlan::new(2, COLUMNS);
            let total = plan.aggregator();
            job.run(plan, total, DataInput::U64)
        }
        "elastic" => {
            let plan = ElasticOctoPlan::new(BUCKETS, 1, ROWS * COLUMNS);
            let total = plan.aggregator();
            job.run(plan, total, DataInput::U64)
        }
        "univ_mon" => {
            let plan = UnivMonOctoPlan::new(ROWS, COLUMNS, LEVELS);
            let total = plan.aggregator(HEAVY_KEYS);
            job.run(plan, total, DataInput::U64)
        }
        _ => Err(format!("there is no sketch {name:?}").into()),
    }
}

struct Job<'j> {
    step: &'j str,
    keys: &'j [u64],
}

impl Job<'_> {
    fn run<L, P>(&self, plan: L, total: P, input: impl Fn(u64) -> DataInput<'static>) -> Result<()>
    where
        L: OctoPlan,
        P: OctoAggregator<Delta = <L::Worker as OctoWorker>::Delta> + Send + Sync + 'static,
    {
        let (wall_ns, cpu_ns) = match self.step {
            "end_to_end" => {
                let config = OctoConfig { num_workers: 1, pin_cores: false, ..OctoConfig::default() };
                let mut runtime = OctoRuntime::new(&config, plan, || total);
                time(ClockId::ProcessCPUTime, || {
                    self.keys.iter().for_each(|&key| runtime.update(input(key)));
                    runtime.finish()
                })
            }
            "worker" => {
                let (mut worker, mut sent) = (plan.worker(0), 0u64);
                time(ClockId::ThreadCPUTime, || {
                    for &key in self.keys {
                        worker.process(&plan.prepare(&input(key)), &mut |_| sent += 1);
                    }
                    sent
                })
            }
            step => return Err(format!("there is no step {step:?}").into()),
        };
        println!("{{\"wall_ns\":{wall_ns},\"cpu_ns\":{cpu_ns},\"ops\":{}}}", self.keys.len());
        Ok(())
    }
}

/// What it takes: wall time, and by this clock.
fn time<T>(clock: ClockId, work: impl FnOnce() -> T) -> (u64, u64) {
    let cpu_ns = || {
        let now = clock_gettime(clock);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let (begun, before) = (Instant::now(), cpu_ns());
    std::hint::black_box(work());
    (begun.elapsed().as_nanos() as u64, cpu_ns() - before)
}
