//! What all measurements share: alternating rounds, medians, a table of ratios.

pub mod door;
pub mod gcra;
pub mod server;

use std::{hint::black_box, sync::Barrier, thread};

/// The median of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// One contestant: a name and what it does for the `i`-th key.
pub struct Contestant<'a> {
    /// The name in the table.
    pub name: &'a str,
    /// Decides about key number `i`; answers whether it passes.
    pub decide: Box<dyn Fn(&String) -> bool + Sync + 'a>,
}

/// Nanoseconds per decision of each contestant: medians of alternating rounds over the same keys in the same order.
/// The keys' texts lie in the order of the calls, since a server has just read the key that it asks about;
/// the keys were first seen in the order of `fill`.
pub fn alternate(
    contestants: &[Contestant<'_>],
    fill: impl Iterator<Item = String>,
    calls: &[String],
    threads: usize,
    rounds: usize,
) -> Vec<f64> {
    for key in fill {
        for contestant in contestants {
            black_box((contestant.decide)(&key));
        }
    }
    let mut figures = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (contestant, figures) in contestants.iter().zip(&mut figures) {
            figures.push(one_round(contestant, calls, threads));
        }
    }
    figures.into_iter().map(median).collect()
}

/// Processor time, not wall time: what else runs on the machine matters less, and with one thread per core a thread
/// that waits for another's cache line is busy all the same.
fn one_round(contestant: &Contestant<'_>, calls: &[String], threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let (front, back) = calls.split_at(thread * calls.len() / threads);
        if threads > 1 {
            stay_on(thread);
        }
        barrier.wait();
        let begin = thread_nanos();
        for key in back.iter().chain(front) {
            black_box((contestant.decide)(key));
        }
        (thread_nanos() - begin) as f64 / calls.len() as f64
    };
    let run = &run;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let slowest = handles.into_iter().map(|handle| handle.join().unwrap());
        slowest.fold(0.0, f64::max)
    })
}

/// Keeps this thread on one processor: two threads that share one never meet at a cache line.
fn stay_on(processor: usize) {
    // SAFETY: the set is plain memory of this frame, and all zeroes is an empty one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// A fixed shuffle, the same in every run.
pub struct Shuffle(u64);

impl Shuffle {
    /// Begins at a fixed seed.
    pub fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    /// An even number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

impl Default for Shuffle {
    fn default() -> Self {
        Self::new()
    }
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Processor time of this thread in nanoseconds: what other work on the machine does not lengthen.
pub fn thread_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of all threads of a process in nanoseconds.
pub fn process_nanos(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = |task: std::fs::DirEntry| -> u64 {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    tasks.map(|task| nanos(task.unwrap())).sum()
}
