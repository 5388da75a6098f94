//! Processes whose wall clock is turned; their monotonic clock is the machine's.

use std::{fs, path::Path, process::Command};

/// `libfaketime` (Debian: `faketime`), where the loader looks for it. The C library comes before `jemalloc`, whose start
/// asks for the time before the time can be told.
const LIBRARIES: &str = "/usr/$LIB/faketime/libfaketime.so.1 libc.so.6";

/// Lets a process believe that it is that many seconds later.
pub fn turn(command: &mut Command, ahead_s: i64) {
    preload(command).env("FAKETIME", offset(ahead_s));
}

/// Lets a process believe what a file says at each moment; see [`set`].
pub fn follow(command: &mut Command, file: &Path) {
    preload(command).env("FAKETIME_TIMESTAMP_FILE", file).env("FAKETIME_NO_CACHE", "1");
}

/// Says in a file how many seconds later it is to be.
pub fn set(file: &Path, ahead_s: i64) {
    // Renamed into place: a process must not read half a number.
    let written = file.with_extension("new");
    fs::write(&written, offset(ahead_s)).expect("a clock written");
    fs::rename(written, file).expect("a clock set");
}

fn preload(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", LIBRARIES).env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
}

fn offset(ahead_s: i64) -> String {
    format!("{ahead_s:+}s")
}
