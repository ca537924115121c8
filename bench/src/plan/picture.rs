//! Pictures: figure 5 of the paper, the traffic of one repair, recoveries against their bounds.

use super::codes::found;
use super::recovery::{ALONE, Recovery};
use super::{BLOCK_MIB, Report, problem};
use kiln_code::Codec;
use kiln_plan::{Bound, Dot, Effort, PlanError};
use kiln_plan::{frontier_picture, plan_picture, spectrum, strategy};
use std::fmt::Write;

/// All pictures, with the names of their files.
pub(super) fn all(report: &Report) -> Result<Vec<(&'static str, String)>, PlanError> {
    let codec = Codec::new(&"clay:10+4".parse()?)?;
    let traffic = strategy("hub")?.plan(&problem(&codec, 0)?, &mut Effort::default())?;
    Ok(vec![
        ("plan-frontier-clay.svg", small("clay:2+2")?),
        ("plan-frontier-butterfly.svg", small("butterfly:4+2")?),
        ("plan-traffic.svg", plan_picture(&traffic, 1 << 20)),
        ("plan-recovery.svg", recoveries(&report.recoveries)),
    ])
}

/// Figure 5: all placements of a small repair, with what the strategies find.
fn small(spec: &str) -> Result<String, PlanError> {
    let codec = Codec::new(&spec.parse()?)?;
    let (problem, shape) = (problem(&codec, 0)?, codec.shape());
    let unit = BLOCK_MIB / shape.alpha as f64;
    let all = spectrum(&problem, &mut Effort::default()).unwrap_or_default();
    let all: Vec<(f64, f64)> =
        all.into_iter().map(|(l, b)| (f64::from(l) * unit, f64::from(b) * unit)).collect();
    let k = shape.k as f64;
    let mut dots = vec![
        Dot { load: k * BLOCK_MIB, bandwidth: k * BLOCK_MIB, name: "RS central".into() },
        Dot { load: BLOCK_MIB, bandwidth: k * BLOCK_MIB, name: "RS pipeline".into() },
    ];
    for name in ["central", "brute", "best"] {
        let plan = strategy(name)?.plan(&problem, &mut Effort::default())?;
        plan.check()?;
        let found = found(&plan, name, 0.0);
        dots.push(Dot { load: found.load_mib, bandwidth: found.bandwidth_mib, name: found.name });
    }
    let title = format!("{spec}, block 0 of 256 MiB: all placements (grey), bound (red), in MiB");
    let bound = Bound::of(&problem).map(|bound| (bound, unit));
    Ok(frontier_picture(&title, &dots, &all, bound))
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 250.0;
const BAR: f64 = 11.0;
/// A bar that is longer than this many bounds is cut.
const MOST: f64 = 8.0;
const COLOURS: [&str; 4] = ["#1f77b4", "#7f7f7f", "#ff7f0e", "#c5b0d5"];

/// Makespans over their bounds: planned together, and alone by each strategy.
fn recoveries(list: &[Recovery]) -> String {
    let row = BAR * (1 + ALONE.len()) as f64 + 10.0;
    let height = 70.0 + row * list.len() as f64 + 24.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"14\">Recovery of a lost machine: busiest link over \
         what no plan can beat (counted from plans)</text>\n"
    );
    let scale = |ratio: f64| (WIDTH - LEFT - 70.0) * ratio.min(MOST) / MOST;
    let names = std::iter::once("planned together").chain(ALONE.map(|_| ""));
    for (index, (together, colour)) in names.zip(COLOURS).enumerate() {
        let name = match index {
            0 => together.to_owned(),
            _ => format!("alone: {}", ALONE[index - 1]),
        };
        let x = LEFT + 150.0 * index as f64;
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"36\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"45\">{name}</text>",
            x + 14.0
        );
    }
    for (index, recovery) in list.iter().enumerate() {
        let _ = bars(&mut svg, recovery, 60.0 + row * index as f64, scale);
    }
    let (x, bottom) = (LEFT + scale(1.0), height - 24.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"54\" x2=\"{x:.1}\" y2=\"{bottom:.0}\" stroke=\"#d62728\" \
         stroke-dasharray=\"5 3\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">\
         bound</text>",
        bottom + 14.0
    );
    svg + "</svg>\n"
}

fn bars(
    svg: &mut String,
    recovery: &Recovery,
    top: f64,
    scale: impl Fn(f64) -> f64,
) -> std::fmt::Result {
    let name = format!(
        "{}, {} stripes, {} to {}",
        recovery.code,
        recovery.stripes,
        recovery.survivors,
        recovery.to()
    );
    writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
        LEFT - 8.0,
        top + 2.4 * BAR
    )?;
    let alone = recovery.alone_mib.iter().map(|alone| alone.1);
    let all = std::iter::once(recovery.makespan_mib).chain(alone);
    for (index, (makespan, colour)) in all.zip(COLOURS).enumerate() {
        let (ratio, y) = (makespan / recovery.bound_mib, top + BAR * index as f64);
        let width = scale(ratio);
        writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
             fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{ratio:.2}</text>",
            BAR - 1.0,
            LEFT + width + 4.0,
            y + BAR - 2.5
        )?;
    }
    Ok(())
}
