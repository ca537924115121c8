//! Tables and pictures of the measurements.

use std::fmt::Write;

use kiln_pool::reads::{Combine, DeviceModel};

use super::super::chart::{self, Series};
use super::{DEVICES, Device, GRAY, NATURAL, PLANNED, Row, Section, WHOLE};

pub(super) fn section(
    name: &str,
    title: &str,
    devices: &[(&Device, DeviceModel)],
    rows: &[Row],
) -> Section {
    let mut text = intro(devices);
    let (bars, json_bars) = bars(rows);
    text += &bars;
    let mut pictures = Vec::new();
    for (device, _) in devices {
        text += &sizes(device.name, rows);
        pictures.extend(pictures_of(device, rows));
    }
    text += &orders(rows);
    text += &three_parities(rows);
    text += &by_k(rows);
    let models: Vec<_> = devices
        .iter()
        .map(|(d, model)| serde_json::json!({ "device": d.name, "about": d.about, "model": model }))
        .collect();
    Section {
        name: name.into(),
        title: title.into(),
        markdown: text,
        json: serde_json::json!({ "bars": json_bars, "devices": models, "rows": rows }),
        pictures,
    }
}

fn intro(devices: &[(&Device, DeviceModel)]) -> String {
    let mut text = String::from(
        "What one helper reads, from a loop device past the page cache, its runs submitted \
         together; all helpers do the same on devices of their own, so this is the disk-read time \
         of the repair. *Overall* is the sum over all lost chunks, as in the paper.\n\n\
         The devices are **emulated**: loop devices over memory, limited by the kernel's block \
         controller in reads and in bytes a second, whichever binds. That is how volumes of clouds \
         behave. A disk adds both up and depends on how far its head moves, which is not modelled; \
         a gap between runs of one chunk costs a real disk less than a full seek. Times are given \
         as of the device that is emulated.\n\n\
         | device | what it is | a read | a MiB | costs | in pieces | together | fit \
         within |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    // Writing to a string does not fail.
    for (device, model) in devices {
        let combine = match model.combine {
            Combine::Sum => "add up",
            Combine::Larger => "the larger counts",
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} ms | {:.3} ms | {combine} | {} | {:.1}x | {:.0}% |",
            device.name,
            device.about,
            model.read_seconds * device.scale * 1e3,
            model.byte_seconds * device.scale * f64::from(1 << 20) * 1e3,
            model.piece_bytes.map_or("no".to_owned(), size),
            model.parallelism,
            model.worst_fit * 100.0
        );
    }
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

/// Time of a planned cell divided by the best of the simple ways there.
fn over_best(rows: &[Row], planned: &Row) -> Option<f64> {
    let simple = [NATURAL, GRAY, WHOLE].map(|way| find(rows, planned, way.name));
    let best = simple.iter().flatten().map(|r| r.overall).fold(f64::INFINITY, f64::min);
    best.is_finite().then(|| planned.overall / best)
}

fn bars(rows: &[Row]) -> (String, serde_json::Value) {
    let reduction = rows
        .iter()
        .find(|r| r.way == GRAY.name && r.device == "seek" && (r.k, r.chunk) == (16, 2 << 20))
        .and_then(|gray| {
            find(rows, gray, NATURAL.name).map(|natural| 1.0 - gray.overall / natural.overall)
        });
    // Where the planner asks for just what is asked without it, a difference is noise.
    let alike = |row: &Row| {
        find(rows, row, GRAY.name).is_some_and(|gray| {
            (gray.reads_per_stripe, gray.read_amplification)
                == (row.reads_per_stripe, row.read_amplification)
        })
    };
    let worst_of = |noise: bool, device: &str| {
        rows.iter()
            .filter(|r| r.way == PLANNED.name && r.device.contains(device) && alike(r) == noise)
            .filter_map(|row| over_best(rows, row).map(|ratio| (ratio, row)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let worst = worst_of(false, "");
    let same = rows.iter().filter(|r| r.issued_reads == r.counted_reads).count();
    let bytes = rows.iter().filter(|r| r.issued_bytes == r.counted_bytes).count();
    let mut text = String::from("\n| bar | wanted | measured |\n|---|---|---|\n");
    if let Some(reduction) = reduction {
        let _ = writeln!(
            text,
            "| overall read time of gray against natural, seek-bound, 16+2, 2 MiB | at least 40% \
             lower | {:.1}% lower |",
            100.0 * reduction
        );
    }
    for name in DEVICES.iter().map(|device| device.name) {
        for noise in [false, true] {
            let Some((ratio, row)) = worst_of(noise, name) else { continue };
            let what = match noise {
                false => "read planner over the best of natural, gray, RS whole chunk",
                true => "the same where it asks for the very reads of gray: noise",
            };
            let _ = writeln!(
                text,
                "| {name}: {what}: worst cell | {} | {ratio:.3} ({}+{}, {}) |",
                if noise { "1" } else { "at most 1" },
                row.k,
                row.m,
                size(row.chunk)
            );
        }
    }
    let _ = writeln!(
        text,
        "| reads issued = reads the device counted | all cells | {same} of {} |\n\
         | bytes asked for = bytes the device counted | all cells | {bytes} of {} |",
        rows.len(),
        rows.len()
    );
    let json = serde_json::json!({
        "gray_reduction_seek_2mib": reduction,
        "planned_over_best_worst": worst.map(|(ratio, _)| ratio),
        "reads_equal": { "same": same, "cells": rows.len() },
        "bytes_equal": { "same": bytes, "cells": rows.len() },
    });
    (text, json)
}

/// Experiments 1, 2 and 7: chunk sizes of 16+2 on one device.
fn sizes(device: &str, rows: &[Row]) -> String {
    let cells: Vec<&Row> =
        rows.iter().filter(|r| r.experiment == "7" && r.device == device).collect();
    let (ways, chunks) = axes(&cells);
    let Some(first) = cells.first() else { return String::new() };
    let mut text = format!(
        "\n### {device}: {}+{}, overall seconds by chunk size (experiments 1, 2, 7)\n\n\
         | chunk | {} | gray saves | planned / best | planned reads, amplification |\n|---|{}\n",
        first.k,
        first.m,
        ways.join(" | "),
        "---|".repeat(ways.len() + 3)
    );
    for chunk in chunks {
        let at = |way: &str| cells.iter().find(|r| r.chunk == chunk && r.way == way);
        let _ = write!(text, "| {} |", size(chunk));
        for way in &ways {
            let _ = write!(text, " {} |", at(way).map_or(String::new(), |r| seconds(r.overall)));
        }
        if let (Some(natural), Some(gray), Some(planned)) =
            (at(NATURAL.name), at(GRAY.name), at(PLANNED.name))
        {
            let _ = writeln!(
                text,
                " {:.1}% | {:.2} | {:.1} of {:.0}, {:.2}x |",
                100.0 * (1.0 - gray.overall / natural.overall),
                over_best(rows, planned).unwrap_or(f64::NAN),
                planned.reads_per_stripe,
                gray.reads_per_stripe,
                planned.read_amplification
            );
        }
    }
    text
}

/// Experiment 3: other orders.
fn orders(rows: &[Row]) -> String {
    let cells: Vec<&Row> = rows.iter().filter(|r| r.experiment == "3").collect();
    if cells.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n### Other Gray codes, 16+2 (experiment 3)\n\nOverall seconds, and the slowest lost \
         chunk.\n\n| device | chunk | order | runs | overall | against natural | slowest |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in cells {
        let natural = find(rows, row, NATURAL.name).map_or(row.overall, |r| r.overall);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.0} | {} | {:+.1}% | {} |",
            row.device,
            size(row.chunk),
            row.way,
            row.reads_per_stripe,
            seconds(row.overall),
            100.0 * (row.overall / natural - 1.0),
            seconds(row.seconds.iter().copied().fold(0.0, f64::max))
        );
    }
    text
}

/// Experiment 4: 9+3.
fn three_parities(rows: &[Row]) -> String {
    let cells: Vec<&Row> = rows.iter().filter(|r| r.experiment == "4").collect();
    if cells.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n### 9+3, sub-chunks of 4 KiB (experiment 4)\n\nThe paper: 30% fewer reads, 26.5% less \
         time.\n\n| device | way | reads a stripe | overall | against natural |\n\
         |---|---|---|---|---|\n",
    );
    for row in cells {
        let natural = find(rows, row, NATURAL.name).map_or(row.overall, |r| r.overall);
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {} | {:+.1}% |",
            row.device,
            row.way,
            row.reads_per_stripe,
            seconds(row.overall),
            100.0 * (row.overall / natural - 1.0)
        );
    }
    text
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
    let head: Vec<String> = subs.iter().map(|&s| size(s)).collect();
    let mut text = format!(
        "\n### k+2 by size of a sub-chunk (experiment 5)\n\nOverall read time saved by gray, and \
         (in brackets) by gray with planned reads, against natural.\n\n| device | k | {} |\n\
         |---|---|{}\n",
        head.join(" | "),
        "---|".repeat(subs.len())
    );
    let mut places: Vec<(&str, usize)> = cells.iter().map(|r| (r.device, r.k)).collect();
    places.dedup();
    for (device, k) in places {
        let _ = write!(text, "| {device} | {k} |");
        for &wanted in &subs {
            let gray = cells.iter().find(|r| (r.device, r.k, sub(r)) == (device, k, wanted));
            let saved = |row: &Row| {
                let natural = find(rows, row, NATURAL.name).map_or(row.overall, |r| r.overall);
                100.0 * (1.0 - row.overall / natural)
            };
            let planned = gray.and_then(|row| find(rows, row, PLANNED.name));
            if let (Some(gray), Some(planned)) = (gray, planned) {
                let _ = write!(text, " {:.1}% ({:.1}%) |", saved(gray), saved(planned));
            }
        }
        text.push('\n');
    }
    text
}

fn pictures_of(disk: &Device, rows: &[Row]) -> Vec<(String, String)> {
    let device = disk.name;
    let cells: Vec<&Row> =
        rows.iter().filter(|r| r.experiment == "7" && r.device == device).collect();
    let (ways, chunks) = axes(&cells);
    let Some(first) = cells.first() else { return Vec::new() };
    let code = format!("{}+{}", first.k, first.m);
    let series = |values: &dyn Fn(&str) -> Vec<f64>| -> Vec<Series> {
        ways.iter().map(|way| Series { name: (*way).into(), values: values(way) }).collect()
    };
    let by_size = series(&|way| cells.iter().filter(|r| r.way == way).map(|r| r.overall).collect());
    let places: Vec<String> = chunks.iter().map(|&chunk| size(chunk)).collect();
    let title = format!("{device}: {code}, overall disk-read time by chunk size");
    let mut pictures = vec![(
        format!("{device}-sizes"),
        chart::draw(&title, &places, "seconds, all lost chunks (log)", &by_size),
    )];
    let chunk = if chunks.contains(&(2 << 20)) { 2 << 20 } else { first.chunk };
    // Limits are granted in slices of time that are longer than most of these reads: there only
    // the sum can be measured, and what each chunk costs is the model's.
    let limited = disk.limits.is_some();
    let by_lost = series(&|way| {
        let row = cells.iter().find(|r| r.way == way && r.chunk == chunk);
        row.map_or(Vec::new(), |r| if limited { &r.expected_seconds } else { &r.seconds }.clone())
    });
    let places: Vec<String> = (0..first.seconds.len()).map(|lost| format!("c{lost}")).collect();
    let whose = if limited { " (the model's; sums are measured)" } else { "" };
    let title = format!("{device}: {code}, chunks of {}, by lost chunk{whose}", size(chunk));
    pictures.push((
        format!("{device}-lost"),
        chart::draw(&title, &places, "seconds of disk reads (log)", &by_lost),
    ));
    pictures
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

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b => format!("{} KiB", b >> 10),
    }
}

fn seconds(s: f64) -> String {
    match s {
        s if s >= 10.0 => format!("{s:.1}"),
        s if s >= 0.1 => format!("{s:.2}"),
        s => format!("{s:.4}"),
    }
}
