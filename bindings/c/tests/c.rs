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

/// Compilers and their flags under which the example must build without a warning.
const COMPILERS: [(&str, &[&str]); 2] = [
    ("cc", &["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]),
    ("c++", &["-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"]),
];

/// Runs a program that must succeed; what it printed.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{command:?}: {text}{errors}");
    text.into_owned()
}

/// Builds the example with what `link` adds and runs it, where it may need `libraries`.
fn build_and_run(compiler: (&str, &[&str]), link: &[String], libraries: &Path) {
    let out = tempfile::tempdir().unwrap();
    let program = out.path().join("example");
    let source = folder().join("tests/example.c");
    let build = &mut Command::new(compiler.0);
    let build = build.args(compiler.1).arg(source).args(["-x", "none", "-o"]).arg(&program);
    // Flags may name the header's folder: they go after the source, as people write them.
    run(build.args(link));
    let text = run(Command::new(&program).env("LD_LIBRARY_PATH", libraries));
    assert_eq!(text.lines().last(), Some("13 helpers read 832 of 3584 sub-chunks: same bytes"));
}

#[test]
fn the_example_in_c_builds_without_a_warning_and_runs() {
    let include = format!("-I{}", folder().join("include").display());
    let library = library().display().to_string();
    let link = [include, library, "-lpthread".into(), "-ldl".into(), "-lm".into()];
    for compiler in COMPILERS {
        build_and_run(compiler, &link, Path::new("/nowhere"));
    }
}

/// Returns the functions that the header declares.
fn declared() -> Vec<String> {
    let header = std::fs::read_to_string(folder().join("include/kiln.h")).unwrap();
    let mut names: Vec<String> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}', 't']))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn the_installed_shared_library_serves_the_example_and_exports_the_header_alone() {
    let out = tempfile::tempdir().unwrap();
    let prefix = out.path().join("prefix");
    run(Command::new("sh").arg(folder().join("install.sh")).arg(library()).arg(&prefix));
    let lib = prefix.join("lib");

    let symbols =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(lib.join("libkiln.so")));
    let mut exported: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|symbol| !["KILN_1", "KILN_2"].contains(symbol))
        .map(|symbol| symbol.split_once("@@KILN_").map_or(symbol, |(name, _)| name).to_owned())
        .collect();
    exported.sort();
    assert_eq!(exported, declared());
    assert!(exported.len() >= 13 && symbols.contains("kiln_encode@@KILN_1"), "{symbols}");
    assert!(symbols.contains("kiln_codec_packet@@KILN_2"), "{symbols}");

    let link = match Command::new("pkg-config").arg("--version").output() {
        Ok(_) => run(Command::new("pkg-config")
            .args(["--cflags", "--libs", "kiln"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))),
        Err(_) => {
            eprintln!("SKIPPED: no pkg-config here, so kiln.pc was not tried");
            format!("-I{} -L{} -lkiln", prefix.join("include").display(), lib.display())
        }
    };
    let link: Vec<String> = link.split_whitespace().map(str::to_owned).collect();
    for compiler in COMPILERS {
        build_and_run(compiler, &link, &lib);
    }
    // Programs ask for the interface's version, so that a later one can stand beside.
    let needed = run(Command::new("readelf").arg("-d").arg(lib.join("libkiln.so")));
    assert!(needed.contains("[libkiln.so.1]"), "{needed}");
}
