//! The interface as C sees it: the header is up to date, and a C program works with it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `BLESS=1 cargo test -p kiln-c` writes the header anew.
#[test]
fn the_header_is_what_cbindgen_makes() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(folder()).with_config(config).generate();
    let mut header = Vec::new();
    made.unwrap().write(&mut header);
    let path = folder().join("include/kiln.h");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let (made, kept) = (String::from_utf8(header).unwrap(), std::fs::read_to_string(path).unwrap());
    assert!(made == kept, "include/kiln.h is out of date; BLESS=1 cargo test -p kiln-c");
}

/// The static library that cargo built beside this test.
fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let mut found: Vec<_> = [deps, deps.parent().unwrap()]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("libkiln_c") && name.ends_with(".a")
        })
        .collect();
    found.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.pop().expect("cargo builds the static library with the tests")
}

#[test]
fn programs_in_c_are_built_without_a_warning_and_work() {
    let test = folder().join("tests/c_test.py");
    assert!(Command::new("python3").arg(test).arg(library()).status().unwrap().success());
}
