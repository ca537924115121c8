//! `kiln plan --device-model`: how a repair would read on a device that was probed.

use std::path::PathBuf;

use clap::Args;
use kiln_code::Codec;
use kiln_store::device::DeviceModel;
use kiln_stripe::{Advice, BreakEven, sub_chunk_sizes};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::setup::{Setup, device};
use crate::{print::fields, sizes};

// Flags of `kiln plan` that are about reads. No doc comment: clap would print it.
#[derive(Debug, Args)]
pub struct DeviceFlags {
    /// Costs of reads on the helpers' devices, as kiln probe measured them: a file, or the folder
    /// that was probed. Says which gaps are read through, how long that takes, and from which size
    /// of chunks on the code beats reading whole chunks
    #[arg(
        long,
        value_name = "FILE|DIR",
        conflicts_with_all = ["orders", "average", "strategy", "recover", "picture"]
    )]
    device_model: Option<PathBuf>,
}

impl DeviceFlags {
    /// The model, if one is named.
    pub fn model(&self) -> Result<Option<DeviceModel>> {
        self.device_model.as_deref().map(device::load).transpose()
    }
}

/// Says how one loss, or every single one, would be read.
pub fn run(
    codec: &Codec,
    lost: Option<&[usize]>,
    sub_chunk: u64,
    model: &DeviceModel,
    setup: &Setup,
) -> Result<Exit> {
    let n = codec.shape().n();
    let losses: Vec<Vec<usize>> = match lost {
        Some(lost) => vec![lost.to_vec()],
        None => (0..n).map(|index| vec![index]).collect(),
    };
    let advice = |lost: &[usize], sub_chunk| -> Result<Advice> {
        let available: Vec<usize> = (0..n).filter(|index| !lost.contains(index)).collect();
        let repair = codec.repair_plan(lost, &available)?;
        let decode = codec.decode_plan(lost, &available)?;
        Ok(Advice::of(&repair, &decode, sub_chunk, codec.shape(), model))
    };
    let loss = |lost: &Vec<usize>| advice(lost, sub_chunk).map(|advice| judged(lost, advice));
    let told: Vec<_> = losses.iter().map(loss).collect::<Result<_, _>>()?;
    let mut sizes = Vec::new();
    for size in sub_chunk_sizes(codec.shape().alpha) {
        let each = losses.iter().map(|lost| advice(lost, size));
        sizes.extend(Advice::sum(&each.collect::<Result<Vec<_>, _>>()?));
    }
    let turns = BreakEven::of(&sizes);
    let size = |advice: Advice| {
        fields! {
            // The repair keeps the devices busy for less time than a decode from whole chunks.
            pays: advice.pays(),
            #[serde(flatten)]
            advice: advice,
        }
    };
    let report = fields! {
        code: codec.spec().to_string(),
        order: codec.order(),
        model: model,
        // Bytes that take as long to transfer as one more read takes.
        gap_bytes: model.gap_bytes(),
        losses: told,
        // The sum over these losses, for chunks of growing size.
        sizes: sizes.into_iter().map(size).collect::<Vec<_>>(),
        #[serde(flatten)]
        turns: turns,
    };
    setup.show("plan of reads", &report, context! {})
}

/// Repair of a loss and its reasons, as `kiln repair` decides it.
fn judged(lost: &[usize], advice: Advice) -> impl Serialize + use<> {
    let (planned, decode) = (&advice.planned, &advice.decode);
    let (chosen, why) = match () {
        () if advice.whole_chunks() => {
            let (few, many) = (decode.helpers, planned.helpers);
            let why = format!("{few} whole chunks take as long as the runs of {many} helpers");
            ("decode", why + " and keep the devices busy for less time")
        }
        () if planned.widest_gap > 0 => {
            let gap = sizes::show(planned.widest_gap);
            ("gaps", format!("gaps up to {gap} cost less than the reads that they save"))
        }
        () => ("runs", "no gap is worth reading".to_owned()),
    };
    fields! {
        lost: lost.to_vec(),
        // `runs`, `gaps` or `decode`: what reads in the least time with the fewest devices.
        chosen: chosen,
        why: why,
        #[serde(flatten)]
        advice: advice,
    }
}
