//! include/sluicegate.h is what the sources say. `SLUICEGATE_WRITE_HEADER=1` writes it.

use std::path::Path;
use std::{env, fs};

/// In the order in which the header is read.
const SOURCES: [&str; 12] = [
    "options", "event", "limiter", "limit", "permit", "queue", "http", "address", "status", "clock",
    "decision", "result",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(format!("src/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().expect("the sources are understood").write(&mut header);
    String::from_utf8(header).expect("the header is text")
}

#[test]
fn the_header_is_up_to_date() {
    let header = generate();
    let file = root().join("include/sluicegate.h");
    if env::var_os("SLUICEGATE_WRITE_HEADER").is_some() {
        fs::write(&file, &header).expect("the header can be written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == header, "include/sluicegate.h is out of date; run `make -C bindings-c header`");
}

#[test]
fn every_exported_function_is_in_the_header() {
    let header = generate();
    let mut functions = 0;
    for entry in fs::read_dir(root().join("src")).expect("the sources are there") {
        let source = fs::read_to_string(entry.expect("an entry").path()).expect("a source is text");
        for line in source.lines().filter(|line| line.contains("extern \"C\" fn sg_")) {
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).expect("a name");
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            functions += 1;
        }
    }
    assert!(functions > 20, "only {functions} functions were found");
}
