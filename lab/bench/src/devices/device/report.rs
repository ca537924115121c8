//! The measurements, and how they stand to the bars.

use kiln_store::device::DeviceModel;
use serde::Serialize;

use crate::page::size;

use super::whole::Whole;
use super::{AGAIN, DEVICES, Device, GRAY, NATURAL, PLANNED, Row, Section, WHOLE, WINDOWS};

pub(super) fn section(
    name: &str,
    title: &str,
    devices: &[(&Device, DeviceModel)],
    rows: &[Row],
    whole: &[Whole],
) -> Section {
    let models: Vec<_> = devices
        .iter()
        .map(|(d, model)| serde_json::json!({ "device": d.name, "about": d.about, "model": model }))
        .collect();
    Section {
        name: name.into(),
        title: title.into(),
        json: serde_json::json!({
            "bars": bars(rows), "devices": models, "rows": rows, "whole": whole
        }),
    }
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

fn bars(rows: &[Row]) -> serde_json::Value {
    let reduction = rows
        .iter()
        .find(|r| r.way == GRAY.name && r.device == "seek" && (r.k, r.chunk) == (16, 2 << 20))
        .and_then(|gray| {
            find(rows, gray, NATURAL.name).map(|natural| 1.0 - gray.overall / natural.overall)
        });
    let same = rows.iter().filter(|r| r.issued_reads == r.counted_reads).count();
    let bytes = rows.iter().filter(|r| r.issued_bytes == r.counted_bytes).count();
    let mut worst = Vec::new();
    for name in DEVICES.iter().map(|device| device.name) {
        let planned = rows.iter().filter(|r| r.way == PLANNED.name && r.device == name);
        let mut cells: Vec<(Ratio, &Row)> =
            planned.filter_map(|row| Some((over_best(rows, row)?, row))).collect();
        cells.sort_by(|a, b| b.0.middle.total_cmp(&a.0.middle));
        let of_noise = cells.iter().filter_map(|(_, row)| Some(noise(rows, row)?.middle));
        let most = of_noise.fold(0.0, f64::max);
        for gray in [false, true] {
            let alike: Vec<_> =
                cells.iter().filter(|(_, row)| is_gray(rows, row) == gray).collect();
            let Some((ratio, row)) = alike.first() else { continue };
            let above = alike.iter().filter(|(ratio, _)| ratio.middle > 1.0).count();
            let beyond = alike.iter().filter(|(ratio, _)| ratio.least > most.max(1.0)).count();
            worst.push(serde_json::json!({
                "device": name, "reads_of_gray": gray, "ratio": ratio,
                "cell": format!("{}+{}, {}", row.k, row.m, size(row.chunk)),
                "gray_over_gray": noise(rows, row), "cells": alike.len(),
                "above_one": above, "above_noise_in_all": beyond,
            }));
        }
    }
    serde_json::json!({
        "gray_reduction_seek_2mib": reduction,
        "planned_over_best_worst": worst,
        "reads_equal": { "same": same, "cells": rows.len() },
        "bytes_equal": { "same": bytes, "cells": rows.len() },
    })
}
