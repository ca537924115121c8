//! Tables of the measurements.

use kiln_store::device::{Combine, DeviceModel};
use serde::Serialize;

use crate::figures::size;
use crate::page::{self, table};

use super::whole::{self, Whole};
use super::{AGAIN, DEVICES, Device, GRAY, NATURAL, PLANNED, Row, Section, WHOLE, WINDOWS};

pub(super) fn section(
    name: &str,
    title: &str,
    devices: &[(&Device, DeviceModel)],
    rows: &[Row],
    whole: &[Whole],
) -> Section {
    let mut text = intro(devices);
    let (bars, json_bars) = bars(rows);
    text += &bars;
    for (device, _) in devices {
        text += &sizes(device.name, rows);
    }
    text += &orders(rows);
    text += &three_parities(rows);
    text += &by_k(rows);
    text += &whole::page(whole);
    let models: Vec<_> = devices
        .iter()
        .map(|(d, model)| serde_json::json!({ "device": d.name, "about": d.about, "model": model }))
        .collect();
    Section {
        name: name.into(),
        title: title.into(),
        markdown: text,
        json: serde_json::json!({
            "bars": json_bars, "devices": models, "rows": rows, "whole": whole
        }),
    }
}

fn intro(devices: &[(&Device, DeviceModel)]) -> String {
    let mut text = String::from(
        "What one helper reads, from a loop device past the page cache, its runs submitted \
         together; all helpers do the same on devices of their own, so this is the disk-read time \
         of the repair. *Overall* is the sum over all lost chunks, as in the paper, each read \
         again and again by itself as a repair of many stripes does: limits are granted in slices \
         of 0.1 s, and where chunks follow each other the next uses what one leaves of its share. \
         Medians of repetitions in which all ways take turns; in brackets the least and the most \
         of them.\n\n\
         The devices are **emulated**: loop devices over memory, limited by the kernel's block \
         controller in reads and in bytes a second, whichever binds. That is how volumes of clouds \
         behave. A disk adds both up and depends on how far its head moves, which is not modelled; \
         a gap between runs of one chunk costs a real disk less than a full seek. Times are given \
         as of the device that is emulated.\n",
    );
    let row = |(device, model): &(&Device, DeviceModel)| {
        let combine = match model.combine {
            Combine::Sum => "add up",
            Combine::Larger => "the larger counts",
        };
        format!(
            "{} | {} | {:.3} ms | {:.3} ms | {combine} | {} | {:.1}x | {:.0}%, {:.0}% | \
             {:.0}% | {}",
            device.name,
            device.about,
            model.read_seconds * device.scale * 1e3,
            model.byte_seconds * device.scale * f64::from(1 << 20) * 1e3,
            model.piece_bytes.map_or("no".to_owned(), size),
            model.parallelism,
            model.uncertainty.error * 100.0,
            model.worst_fit * 100.0,
            model.uncertainty.spread * 100.0,
            model.uncertainty.alternatives.len()
        )
    };
    let head = "device | what it is | a read | a MiB | costs | in pieces | together | fit: in the \
                mean, at most | repetitions apart | other models";
    text += &table(head, devices.iter().map(row));
    text + "\nkiln asks for long reads in pieces that the block layer takes as they are (448 KiB \
            on a loop device), so that what is asked for is what the device counts. *In pieces*: \
            the probe found that every piece is charged as a read. Costs are what a probe \
            measured, as `kiln probe` does; the read planner knows nothing else of the devices.\n"
}

/// The cell of a way among those of one place.
fn find<'a>(rows: &'a [Row], like: &Row, way: &str) -> Option<&'a Row> {
    rows.iter().find(|r| {
        r.way == way
            && (r.experiment, r.device, r.k, r.m, r.chunk)
                == (like.experiment, like.device, like.k, like.m, like.chunk)
    })
}

/// How one way compares to another, repetition by repetition.
#[derive(Clone, Copy, Serialize)]
struct Ratio {
    middle: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    fn of(row: &Row, other: &Row) -> Option<Ratio> {
        let pairs = row.repetitions.iter().zip(&other.repetitions);
        let mut ratios: Vec<f64> = pairs.map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (*ratios.first()?, *ratios.last()?);
        Some(Ratio { middle: row.overall / other.overall, least, most })
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3}-{:.3})", self.middle, self.least, self.most)
    }
}

/// A planned cell against the best of the simple ways there: by stripes as in the paper, and in the
/// windows that the planner has.
fn over_best(rows: &[Row], planned: &Row) -> Option<Ratio> {
    let ways = [NATURAL, GRAY, WHOLE].into_iter().chain(WINDOWS);
    let simple = ways.map(|way| find(rows, planned, way.name));
    let best = simple.flatten().min_by(|a, b| a.overall.total_cmp(&b.overall));
    Ratio::of(planned, best?)
}

/// Gray against gray, measured at the same place: what is noise there.
fn noise(rows: &[Row], like: &Row) -> Option<Ratio> {
    Ratio::of(find(rows, like, AGAIN.name)?, find(rows, like, GRAY.name)?)
}

/// Whether a planned cell asks for just what is asked without a planner.
fn is_gray(rows: &[Row], row: &Row) -> bool {
    find(rows, row, GRAY.name).is_some_and(|gray| {
        (gray.reads_per_stripe, gray.read_amplification)
            == (row.reads_per_stripe, row.read_amplification)
    })
}

fn bars(rows: &[Row]) -> (String, serde_json::Value) {
    let reduction = rows
        .iter()
        .find(|r| r.way == GRAY.name && r.device == "seek" && (r.k, r.chunk) == (16, 2 << 20))
        .and_then(|gray| {
            find(rows, gray, NATURAL.name).map(|natural| 1.0 - gray.overall / natural.overall)
        });
    let same = rows.iter().filter(|r| r.issued_reads == r.counted_reads).count();
    let bytes = rows.iter().filter(|r| r.issued_bytes == r.counted_bytes).count();
    let mut lines: Vec<String> = Vec::new();
    lines.extend(reduction.map(|reduction| {
        format!(
            "overall read time of gray against natural, seek-bound, 16+2, 2 MiB | at least 40% \
             lower | {:.1}% lower",
            100.0 * reduction
        )
    }));
    let mut worst = Vec::new();
    for name in DEVICES.iter().map(|device| device.name) {
        let planned = rows.iter().filter(|r| r.way == PLANNED.name && r.device == name);
        let mut cells: Vec<(Ratio, &Row)> =
            planned.filter_map(|row| Some((over_best(rows, row)?, row))).collect();
        cells.sort_by(|a, b| b.0.middle.total_cmp(&a.0.middle));
        let of_noise: Vec<f64> =
            cells.iter().filter_map(|(_, row)| Some(noise(rows, row)?.middle)).collect();
        let most = of_noise.iter().copied().fold(0.0, f64::max);
        for gray in [false, true] {
            let mut alike = cells.iter().filter(|(_, row)| is_gray(rows, row) == gray).peekable();
            let Some((ratio, row)) = alike.peek() else { continue };
            let what = match gray {
                false => "read planner over the best of natural, gray, RS, also in its windows",
                true => "the same where it asks for the very reads of gray",
            };
            let place = format!("{}+{}, {}", row.k, row.m, size(row.chunk));
            lines.push(format!(
                "{name}: {what}: worst cell | at most 1 | {ratio} ({place}; there gray over gray \
                {})",
                noise(rows, row).map_or(String::new(), |ratio| ratio.to_string())
            ));
            worst.push(serde_json::json!({
                "device": name, "reads_of_gray": gray, "cell": place, "ratio": ratio
            }));
            let slower = alike.clone().filter(|(ratio, _)| ratio.middle > 1.0).count();
            let beyond = alike.clone().filter(|(ratio, _)| ratio.least > most.max(1.0)).count();
            lines.push(format!(
                "{name}: cells above 1; in every repetition above the worst of gray over gray \
                 ({most:.3}) | 0 | {slower}; {beyond} of {}",
                alike.count()
            ));
        }
    }
    let all = rows.len();
    lines.extend([
        format!("reads issued = reads the device counted | all cells | {same} of {all}"),
        format!("bytes asked for = bytes the device counted | all cells | {bytes} of {all}"),
    ]);
    let json = serde_json::json!({
        "gray_reduction_seek_2mib": reduction,
        "planned_over_best_worst": worst,
        "reads_equal": { "same": same, "cells": rows.len() },
        "bytes_equal": { "same": bytes, "cells": rows.len() },
    });
    (table("bar | wanted | measured", lines), json)
}

/// Experiments 1, 2 and 7: chunk sizes of 16+2 on one device.
fn sizes(device: &str, rows: &[Row]) -> String {
    let cells: Vec<&Row> =
        rows.iter().filter(|r| r.experiment == "7" && r.device == device).collect();
    let (ways, chunks) = axes(&cells);
    let Some(first) = cells.first() else { return String::new() };
    let row = |chunk: u64| {
        let at = |way: &str| cells.iter().find(|r| r.chunk == chunk && r.way == way);
        let times = ways.iter().map(|way| at(way).map_or(String::new(), |r| seconds(r.overall)));
        let line = format!("{} | {}", size(chunk), page::cells(times));
        match (at(NATURAL.name), at(GRAY.name), at(PLANNED.name)) {
            (Some(natural), Some(gray), Some(planned)) => format!(
                "{line} | {:.1}% | {} | {:.1} of {:.0}, {:.2}x",
                100.0 * (1.0 - gray.overall / natural.overall),
                over_best(rows, planned).map_or(String::new(), |ratio| ratio.to_string()),
                planned.reads_per_stripe,
                gray.reads_per_stripe,
                planned.read_amplification
            ),
            _ => line,
        }
    };
    let head = format!(
        "chunk | {} | gray saves | planned / best | planned reads, amplification",
        page::cells(&ways)
    );
    format!(
        "\n### {device}: {}+{}, overall seconds by chunk size (experiments 1, 2, 7)\n{}",
        first.k,
        first.m,
        table(&head, chunks.into_iter().map(row))
    )
}

/// Experiments 3 and 4 (other orders; 9+3): a row for each cell, as `row` says, given how much it
/// took above natural order, in percent.
fn against_natural(
    rows: &[Row],
    experiment: &str,
    title: &str,
    head: &str,
    row: impl Fn(&Row, f64) -> String,
) -> String {
    let cells = rows.iter().filter(|r| r.experiment == experiment);
    let natural = |r: &Row| find(rows, r, NATURAL.name).map_or(r.overall, |r| r.overall);
    let lines = cells.map(|r| row(r, 100.0 * (r.overall / natural(r) - 1.0)));
    match table(head, lines) {
        table if table.is_empty() => table,
        table => format!("\n### {title}\n{table}"),
    }
}

fn orders(rows: &[Row]) -> String {
    let title = "Other Gray codes, 16+2 (experiment 3)\n\nOverall seconds, and the slowest lost \
                 chunk.";
    let head = "device | chunk | order | runs | overall | against natural | slowest";
    against_natural(rows, "3", title, head, |row, against| {
        let slowest = row.seconds.iter().copied().fold(0.0, f64::max);
        let (chunk, runs) = (size(row.chunk), row.reads_per_stripe);
        let times = format!("{} | {against:+.1}% | {}", seconds(row.overall), seconds(slowest));
        format!("{} | {chunk} | {} | {runs:.0} | {times}", row.device, row.way)
    })
}

fn three_parities(rows: &[Row]) -> String {
    let title = "9+3, sub-chunks of 4 KiB (experiment 4)\n\nThe paper: 30% fewer reads, 26.5% \
                 less time.";
    let head = "device | way | reads a stripe | overall | against natural";
    against_natural(rows, "4", title, head, |row, against| {
        let overall = seconds(row.overall);
        let place = format!("{} | {}", row.device, row.way);
        format!("{place} | {:.1} | {overall} | {against:+.1}%", row.reads_per_stripe)
    })
}

/// Experiment 5: how much gray saves, by k and sub-chunk.
fn by_k(rows: &[Row]) -> String {
    let cells: Vec<&Row> =
        rows.iter().filter(|r| r.experiment == "5" && r.way == GRAY.name).collect();
    let sub = |r: &Row| r.chunk >> (r.k / 2 + 1);
    let mut subs: Vec<u64> = cells.iter().map(|r| sub(r)).collect();
    subs.sort_unstable();
    subs.dedup();
    if cells.is_empty() {
        return String::new();
    }
    let mut places: Vec<(&str, usize)> = cells.iter().map(|r| (r.device, r.k)).collect();
    places.dedup();
    let row = |(device, k): (&str, usize)| {
        let cell = |wanted: &u64| {
            let gray = cells.iter().find(|r| (r.device, r.k, sub(r)) == (device, k, *wanted))?;
            let saved = |row: &Row| {
                let natural = find(rows, row, NATURAL.name).map_or(row.overall, |r| r.overall);
                100.0 * (1.0 - row.overall / natural)
            };
            let planned = find(rows, gray, PLANNED.name)?;
            Some(format!("{:.1}% ({:.1}%)", saved(gray), saved(planned)))
        };
        let saved = subs.iter().map(|sub| cell(sub).unwrap_or_default());
        format!("{device} | {k} | {}", page::cells(saved))
    };
    let head = format!("device | k | {}", page::cells(subs.iter().map(|&sub| size(sub))));
    format!(
        "\n### k+2 by size of a sub-chunk (experiment 5)\n\nOverall read time saved by gray, and \
         (in brackets) by gray with planned reads, against natural; all lost chunks.\n{}",
        table(&head, places.into_iter().map(row))
    )
}

/// Ways and chunk sizes of cells, in order of first appearance.
fn axes(cells: &[&Row]) -> (Vec<&'static str>, Vec<u64>) {
    let (mut ways, mut chunks) = (Vec::new(), Vec::new());
    for cell in cells {
        if !ways.contains(&cell.way) {
            ways.push(cell.way);
        }
        if !chunks.contains(&cell.chunk) {
            chunks.push(cell.chunk);
        }
    }
    (ways, chunks)
}

fn seconds(s: f64) -> String {
    match s {
        s if s >= 10.0 => format!("{s:.1}"),
        s if s >= 0.1 => format!("{s:.2}"),
        s => format!("{s:.4}"),
    }
}
