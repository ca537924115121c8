//! The paper's figures: bandwidth over the size of packets, one panel a code.

use super::Report;
use super::codes::{CODES, PACKETS};
use super::contest::{Point, Who};
use super::ground::Place;
use super::page::{short, size};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
/// A panel: its frame and the room around it.
const PANEL: (f64, f64) = (360.0, 210.0);
const STEP: (f64, f64) = (440.0, 290.0);
const HEAD: f64 = 92.0;

fn style(who: Who) -> (&'static str, &'static str) {
    match who {
        Who::TraditionalWords => ("#7fb2dc", "5 3"),
        Who::ByWordWords => ("#1f77b4", "5 3"),
        Who::TraditionalVectors => ("#98df8a", ""),
        Who::ByWordVectors => ("#2ca02c", ""),
        Who::Kiln => ("#d62728", ""),
        Who::JerasureDumb => ("#bbbbbb", ""),
        Who::JerasureSmart => ("#555555", ""),
    }
}

/// Draws all codes for one operation and place.
pub fn draw(report: &Report, operation: &str, place: Place) -> String {
    let of = |spec: &str| -> Vec<&Point> {
        let points = report.points.iter();
        let here = |p: &&Point| p.code == spec && p.operation == operation && p.place == place;
        points.filter(here).collect()
    };
    let panels: Vec<_> = CODES
        .iter()
        .map(|code| (short(code.spec), code.figure, of(code.spec)))
        .filter(|(_, _, points)| !points.is_empty())
        .collect();
    let height = HEAD + STEP.1 * panels.len().div_ceil(2) as f64;
    let machine = &report.machine;
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = legend(&mut body);
    for (i, (name, figure, points)) in panels.iter().enumerate() {
        let (x, y) = (60.0 + STEP.0 * (i % 2) as f64, HEAD + STEP.1 * (i / 2) as f64);
        let _ = panel(&mut body, &format!("{name} ({figure})"), points, x, y);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"22\" font-size=\"14\">{operation}, {}: GB/s of data over bytes of a \
         packet. {}, {}</text>\n{body}</svg>\n",
        place.name(),
        machine.cpu,
        machine.commit
    )
}

fn legend(out: &mut String) -> std::fmt::Result {
    for (i, who) in Who::ALL.into_iter().enumerate() {
        let (colour, dash) = style(who);
        let (x, y) = (20.0 + 220.0 * (i % 4) as f64, 42.0 + 18.0 * (i / 4) as f64);
        writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" \
             stroke-width=\"2.5\" stroke-dasharray=\"{dash}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            x + 28.0,
            x + 34.0,
            y + 4.0,
            who.name()
        )?;
    }
    Ok(())
}

fn panel(out: &mut String, title: &str, points: &[&Point], x: f64, y: f64) -> std::fmt::Result {
    let top = points.iter().map(|p| p.rate.median).fold(1.0, f64::max) * 1.05;
    let last = PACKETS.len().saturating_sub(1).max(1) as f64;
    let at_x = |packet: usize| {
        let index = PACKETS.iter().position(|&p| p == packet).unwrap_or(0);
        x + PANEL.0 * index as f64 / last
    };
    let at_y = |rate: f64| y + 24.0 + PANEL.1 * (1.0 - rate / top);
    writeln!(out, "<text x=\"{x}\" y=\"{}\" font-weight=\"bold\">{title}</text>", y + 12.0)?;
    for share in 0..=4 {
        let rate = top * f64::from(share) / 4.0;
        writeln!(
            out,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\" fill=\"#666\">{rate:.0}</text>",
            x + PANEL.0,
            at_y(rate),
            x - 6.0,
            at_y(rate) + 4.0
        )?;
    }
    for &packet in PACKETS.iter().step_by(2) {
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#666\">{}</text>",
            at_x(packet),
            y + PANEL.1 + 42.0,
            size(packet)
        )?;
    }
    for who in Who::ALL {
        let (colour, dash) = style(who);
        let mine: Vec<&&Point> = points.iter().filter(|p| p.who == who).collect();
        let line: Vec<String> = mine
            .iter()
            .map(|p| format!("{:.1},{:.1}", at_x(p.packet), at_y(p.rate.median)))
            .collect();
        writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" \
             stroke-dasharray=\"{dash}\"/>",
            line.join(" ")
        )?;
        for p in mine {
            writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}, {}: \
                 {:.1} GB/s</title></circle>",
                at_x(p.packet),
                at_y(p.rate.median),
                who.name(),
                size(p.packet),
                p.rate.median
            )?;
        }
    }
    Ok(())
}
