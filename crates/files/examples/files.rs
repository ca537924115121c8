//! Speed of the four operations on real files, one folder for each shard.
//!
//! `cargo run --release -p kiln-pool --example files -- [MIB] [SPEC...]`; the files go where the
//! system puts temporary ones (`TMPDIR`).

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use kiln_code::Codec;
use kiln_files::{EncodeRequest, RepairRequest, decode, discover, encode, repair, verify};
use kiln_store::FileBackend;
use kiln_stripe::{Depth, FileSource, Node, Settings, Silent};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mib: u64 = args.next().map_or(Ok(64), |arg| arg.parse())?;
    let mut specs: Vec<String> = args.collect();
    if specs.is_empty() {
        specs = vec!["rs:10+4".into(), "clay:10+4".into()];
    }
    let folder = tempfile::tempdir()?;
    let input = folder.path().join("input");
    let mut file = std::fs::File::create(&input)?;
    for block in 0..mib {
        let words =
            (0..1u64 << 17).map(|i| (i + (block << 17)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        file.write_all(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())?;
    }
    for spec in &specs {
        measure(spec, mib, &input, folder.path())?;
    }
    Ok(())
}

fn measure(
    spec: &str,
    mib: u64,
    input: &std::path::Path,
    folder: &std::path::Path,
) -> Result<(), Box<dyn Error>> {
    let settings = Settings::new(&Silent);
    let codec = Codec::new(&spec.parse()?)?;
    let mut nodes = Vec::new();
    for index in 0..codec.shape().n() {
        let store = FileBackend::create(folder.join(format!("{spec}-{index}")))?;
        nodes.push(Node::new(format!("n{index}"), Arc::new(store)));
    }
    let told = |what: &str, start: Instant| {
        let seconds = start.elapsed().as_secs_f64();
        println!("{spec:10} {what:8} {seconds:8.3} s {:8.0} MiB/s", mib as f64 / seconds);
    };
    let (object, run) = ("object", [1; 16]);
    let req = EncodeRequest { codec: &codec, object, run, sub_chunk: None, replace: false };
    let start = Instant::now();
    encode(&req, &mut FileSource::open(input)?, &nodes, &settings)?;
    told("encode", start);
    let start = Instant::now();
    verify(&discover(&nodes, None)?, Depth::Parity, &settings)?;
    told("verify", start);
    let start = Instant::now();
    decode(&discover(&nodes, None)?, &mut std::io::sink(), &settings)?;
    told("decode", start);
    nodes[0].store.remove("object.00.kiln")?;
    let start = Instant::now();
    repair(&discover(&nodes, None)?, &RepairRequest::default(), &settings)?;
    told("repair", start);
    Ok(())
}
