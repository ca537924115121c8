//! `kiln plan --device-model`: how a repair would read on a device that was probed.

use std::path::PathBuf;

use clap::Args;
use kiln_code::Codec;
use kiln_store::device::DeviceModel;
use kiln_stripe::{Advice, BreakEven, ReadCosts, sub_chunk_sizes};
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::print::{brief, seconds, table};
use crate::setup::{Setup, device};
use crate::{lists, sizes};

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

#[derive(Serialize)]
struct Report {
    code: String,
    order: String,
    model: DeviceModel,
    /// Bytes that take as long to transfer as one more read takes.
    gap_bytes: u64,
    losses: Vec<Loss>,
    /// The sum over these losses, for chunks of growing size.
    sizes: Vec<Size>,
    #[serde(flatten)]
    turns: BreakEven,
}

#[derive(Serialize)]
struct Loss {
    lost: Vec<usize>,
    /// `runs`, `gaps` or `decode`: what reads in the least time with the fewest devices.
    chosen: &'static str,
    why: String,
    #[serde(flatten)]
    advice: Advice,
}

#[derive(Serialize)]
struct Size {
    /// The repair keeps the devices busy for less time than a decode from whole chunks.
    pays: bool,
    #[serde(flatten)]
    advice: Advice,
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
    let told: Vec<Loss> = losses.iter().map(loss).collect::<Result<_, _>>()?;
    let mut sizes = Vec::new();
    for size in sub_chunk_sizes(codec.shape().alpha) {
        let each = losses.iter().map(|lost| advice(lost, size));
        sizes.extend(Advice::sum(&each.collect::<Result<Vec<_>, _>>()?));
    }
    let report = Report {
        code: codec.spec().to_string(),
        order: codec.order().to_owned(),
        gap_bytes: model.gap_bytes(),
        model: model.clone(),
        losses: told,
        turns: BreakEven::of(&sizes),
        sizes: sizes.into_iter().map(|advice| Size { pays: advice.pays(), advice }).collect(),
    };
    setup.answer(&report, || text(&report))
}

/// Repair of a loss and its reasons, as `kiln repair` decides it.
fn judged(lost: &[usize], advice: Advice) -> Loss {
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
    Loss { lost: lost.to_vec(), chosen, why, advice }
}

fn text(report: &Report) -> String {
    let model = &report.model;
    let mut text = format!(
        "{}, order {}; a read costs {}, as much as {}{}\n",
        report.code,
        brief(&report.order),
        seconds(model.read_seconds),
        sizes::show(report.gap_bytes),
        model.piece_bytes.map_or(String::new(), |piece| {
            format!("; reads are charged in pieces of {}", sizes::show(piece))
        }),
    );
    if let Some(loss) = report.losses.first() {
        let (advice, window) = (&loss.advice, loss.advice.window_stripes);
        text += &format!(
            "chunks of {}, sub-chunks of {}, {window} adjacent stripes read at once; means of a \
             stripe\n\n",
            sizes::show(advice.chunk),
            sizes::show(advice.sub_chunk),
        );
    }
    text += &match &report.losses[..] {
        [one] => one_loss(one),
        all => all_losses(all),
    };
    text.push('\n');
    text += &by_size(report);
    text
}

fn one_loss(loss: &Loss) -> String {
    let row = |name: &str, way: &ReadCosts| {
        vec![
            name.to_owned(),
            way.helpers.to_string(),
            format!("{:.1}", way.reads),
            sizes::show(way.bytes as u64),
            seconds(way.seconds),
            seconds(way.device_seconds),
        ]
    };
    let advice = &loss.advice;
    let rows = [
        row("a read a run", &advice.as_runs),
        row("gaps read through", &advice.planned),
        row("k whole chunks", &advice.decode),
    ];
    let head = ["way", "helpers", "reads", "bytes", "slowest helper", "all devices"];
    let lost = lists::show(&loss.lost);
    table(&head, &rows) + &format!("lost {lost}: {}, since {}\n", loss.chosen, loss.why)
}

fn all_losses(losses: &[Loss]) -> String {
    let row = |loss: &Loss| {
        let advice = &loss.advice;
        let mut words = vec![lists::show(&loss.lost), loss.chosen.to_owned()];
        words.push(format!("{:.1} of {:.1}", advice.planned.reads, advice.as_runs.reads));
        words.push(match advice.planned.widest_gap {
            0 => "none".to_owned(),
            gap => sizes::show(gap),
        });
        let ways = [&advice.as_runs, &advice.planned, &advice.decode];
        words.extend(ways.map(|way| seconds(way.seconds)));
        words
    };
    let head = ["lost", "way", "reads", "widest gap", "a read a run", "planned", "whole chunks"];
    table(&head, &losses.iter().map(row).collect::<Vec<_>>())
}

fn by_size(report: &Report) -> String {
    let row = |size: &Size| {
        let advice = &size.advice;
        let ways = [&advice.as_runs, &advice.planned, &advice.decode];
        let mut words = vec![sizes::show(advice.chunk), sizes::show(advice.sub_chunk)];
        words.extend(ways.map(|way| seconds(way.seconds)));
        words.extend([&advice.planned, &advice.decode].map(|way| seconds(way.device_seconds)));
        words.push(if size.pays { "repair" } else { "whole chunks" }.to_owned());
        words
    };
    let head = [
        "chunk", "sub-chunk", "a read a run", "planned", "whole chunks", "all devices", "whole",
        "less work",
    ];
    let text = table(&head, &report.sizes.iter().map(row).collect::<Vec<_>>());
    let turns = &report.turns;
    let gaps = turns.gaps_until.map_or("no gap is read through in any size".to_owned(), |chunk| {
        format!("gaps are read through in chunks up to {}", sizes::show(chunk))
    });
    let pays = match turns.pays_from {
        Some(chunk) if report.sizes.first().is_some_and(|size| size.advice.chunk == chunk) => {
            "the repair pays in every size".to_owned()
        }
        Some(chunk) => format!(
            "from chunks of {} on the repair keeps devices busy for less time than reading k \
             whole chunks; below, plain decoding does, and so would Reed-Solomon",
            sizes::show(chunk)
        ),
        None => "reading k whole chunks, as Reed-Solomon does, costs the devices less in every \
                 size"
            .to_owned(),
    };
    format!("{text}{gaps}\n{pays}\n")
}
