//! Rules of the house, as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Longer functions hide their parts.
const MAX_FUNCTION_LINES: usize = 70;
/// Longer files hold more than one noun.
const MAX_FILE_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The project's own files that end so, without what is built.
fn files(ending: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            if entry.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&entry, ending, found);
            } else if name.ends_with(ending) {
                found.push(entry);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), ending, &mut found);
    assert!(!found.is_empty(), "no file ends in {ending}");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// First lines and lengths of the functions of a formatted file: each ends at the first `}` in its own column.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_function =
            ["fn ", "pub fn ", "async fn ", "pub async fn ", "pub(super) fn ", "pub(crate) fn "]
                .iter()
                .any(|head| code.starts_with(head));
        if !is_function || code.ends_with(';') || code.ends_with('}') {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        if let Some(length) = lines[start..].iter().position(|line| *line == end) {
            found.push((code.to_owned(), length + 1));
        }
    }
    found
}

#[test]
fn functions_are_short() {
    for path in files(".rs") {
        for (head, length) in functions(&read(&path)) {
            assert!(length <= MAX_FUNCTION_LINES, "{}: `{head}` has {length} lines", path.display());
        }
    }
}

#[test]
fn files_hold_one_noun() {
    for path in files(".rs") {
        let length = read(&path).lines().count();
        assert!(length <= MAX_FILE_LINES, "{} has {length} lines", path.display());
    }
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file does not hold them itself.
    let marks = [
        ["to", "do!("].concat(),
        ["unimple", "mented!("].concat(),
        ["db", "g!("].concat(),
        ["FIX", "ME"].concat(),
    ];
    for path in files(".rs").into_iter().chain(files(".lua")) {
        let text = read(&path);
        for mark in &marks {
            assert!(!text.contains(mark.as_str()), "{} holds `{mark}`", path.display());
        }
        let ignored = ["#[ig", "nore"].concat();
        assert!(!text.contains(&ignored), "{} skips a test", path.display());
    }
}

#[test]
fn the_core_depends_on_no_runtime_clock_or_store() {
    let manifest = read(&root().join("crates/sluicegate-core/Cargo.toml"));
    for foreign in ["tokio", "redis", "quanta", "tracing", "hyper", "futures"] {
        assert!(!manifest.contains(foreign), "the core's manifest names `{foreign}`");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in files(".md") {
        let text = read(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || target.contains("://") {
                continue;
            }
            let file = page.parent().unwrap().join(path);
            assert!(file.exists(), "{} links to `{target}`, which does not exist", page.display());
        }
    }
}

/// A page that names a test which proves a claim must not outlive it.
#[test]
fn tests_that_pages_name_exist() {
    let code: String = files(".rs").iter().map(|path| read(path)).collect();
    let page = read(&root().join("docs/known-races.md"));
    let named: Vec<&str> =
        page.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() >= 4).collect();
    assert!(named.len() >= 10, "only {} tests are named", named.len());
    for name in named {
        assert!(code.contains(&format!("fn {name}(")), "no test is named `{name}`");
    }
}
