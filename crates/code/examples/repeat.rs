//! Codes a stripe so many times: for tools that count what that takes.
//!
//! `repeat SPEC CHUNK encode|repair|decode TIMES`, with the kernel that `KILN_KERNEL` names. One
//! chunk is lost; a repair reads as little as the code allows, a decode the first k others.

use kiln_code::{CodeSpec, Codec};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spec, chunk, operation, times] = &arguments[..] else {
        return Err("usage: repeat SPEC CHUNK encode|repair|decode TIMES".into());
    };
    let codec = Codec::new(&spec.parse::<CodeSpec>()?)?;
    let shape = codec.shape();
    let chunk = chunk.parse::<usize>()?.next_multiple_of(64 * shape.alpha);
    let times: usize = times.parse()?;
    let byte = |j: usize, i: usize| (i * 7 + i / 256 * 11 + j * 13) as u8;
    let mut chunks: Vec<Vec<u8>> =
        (0..shape.n()).map(|j| (0..chunk).map(|i| byte(j, i)).collect()).collect();
    let (data, parity) = chunks.split_at_mut(shape.k);
    let data: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(|chunk| &mut chunk[..]).collect();
    let encodes = if operation == "encode" { times } else { 1 };
    for _ in 0..encodes {
        codec.encode(&data, &mut parity)?;
    }
    if operation == "encode" {
        println!("{}", shape.k * chunk);
        return Ok(());
    }
    let others: Vec<usize> = match &operation[..] {
        "repair" => (1..shape.n()).collect(),
        "decode" => (1..=shape.k).collect(),
        _ => return Err("encode, repair or decode".into()),
    };
    let plan = codec.repair_plan(&[0], &others)?;
    let sub_chunk = chunk / shape.alpha;
    let parts: Vec<Vec<u8>> = (plan.helpers().iter())
        .map(|helper| {
            let bytes = |run: &std::ops::Range<u32>| {
                run.start as usize * sub_chunk..run.end as usize * sub_chunk
            };
            helper.runs.iter().flat_map(|run| chunks[helper.chunk][bytes(run)].to_vec()).collect()
        })
        .collect();
    let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
    let mut rebuilt = vec![0; chunk];
    for _ in 0..times {
        plan.run(&parts, &mut [&mut rebuilt])?;
    }
    if rebuilt != chunks[0] {
        return Err("what was rebuilt is not what was lost".into());
    }
    println!("{chunk}");
    Ok(())
}
