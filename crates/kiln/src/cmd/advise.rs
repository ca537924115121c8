//! `kiln advise`

mod costs;
mod report;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kiln_code::{CODES, CodeSpec, Codec};
use kiln_store::device::{Combine, DeviceModel};
use minijinja::context;

use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::print::fields;
use crate::setup::{Setup, device};
use costs::{Advice, Site, durable, on_disks};

/// Numbers of data chunks that are looked at.
const DATA_CHUNKS: &[usize] = &[1, 2, 3, 4, 6, 8, 10, 12, 16];
/// The most parity chunks that are looked at.
const PARITY_MAX: usize = 4;

/// A kind of disk, with the numbers that stand for it where nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Class {
    /// A hard disk: 8 ms a read, 200 MB/s; 1.4% fail in a year
    Hdd,
    /// An SSD at SATA: 60 us a read, 500 MB/s; 0.9% fail in a year
    Ssd,
    /// An NVMe drive: 10 us a read, 3 GB/s; 0.9% fail in a year
    Nvme,
}

impl Class {
    fn model(self) -> DeviceModel {
        match self {
            Class::Hdd => DeviceModel::new(8e-3, 1.0 / 200e6, Combine::Sum),
            Class::Ssd => DeviceModel::new(60e-6, 1.0 / 500e6, Combine::Larger),
            Class::Nvme => DeviceModel::new(10e-6, 1.0 / 3e9, Combine::Larger),
        }
    }

    fn failures(self) -> f64 {
        if self == Class::Hdd { 1.4 } else { 0.9 }
    }

    /// Unreadable bits among those read, as data sheets promise them.
    fn bad_bits(self) -> f64 {
        if self == Class::Hdd { 1e-15 } else { 1e-17 }
    }
}

/// Say which codes suit machines and data
///
/// Looks at every family of codes with many numbers of data and parity chunks, computes what each
/// stores, reads for a repair, how long a lost node takes to rebuild and how likely a year loses
/// data, and shows those that no other beats in all of that. The first is the recommendation: of
/// those that meet the wishes, the one that stores least.
#[derive(Debug, Args)]
#[command(after_help = help("advise"))]
pub struct Advise {
    /// Nodes that fail alone: disks, or machines, whichever holds one shard of an object
    #[arg(long, value_name = "N")]
    nodes: usize,
    /// Bytes of data, before redundancy
    #[arg(long, value_name = "SIZE", value_parser = size)]
    data: u64,
    /// Bytes that a node can hold [default: whatever it takes]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    node_size: Option<u64>,
    /// Bytes of a typical object
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    object: u64,
    /// Kind of disk, where no model was measured
    #[arg(long, value_enum, default_value = "hdd")]
    class: Class,
    /// Model that kiln probe measured of such a disk, instead of its class
    #[arg(long, value_name = "FILE")]
    device_model: Option<PathBuf>,
    /// Bytes a second of a node's link, each way; 1250MB is 10 Gbit/s
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1250MB")]
    link: u64,
    /// Percent of the nodes that fail in a year and lose what they hold [default: of the class]
    #[arg(long, value_name = "PERCENT")]
    failures: Option<f64>,
    /// Hours from a failure until its repair begins
    #[arg(long, value_name = "HOURS", default_value_t = 1.0)]
    detection: f64,
    /// Nodes of a host or a rack that fails at once; each holds one shard of an object
    #[arg(long, value_name = "N", default_value_t = 1, requires = "domain_failures")]
    domain: usize,
    /// Percent of these that fail in a year with all that their nodes hold
    #[arg(long, value_name = "PERCENT", requires = "domain")]
    domain_failures: Option<f64>,
    /// Money for a TB stored for a month, and for a TB that repairs read
    #[arg(long, value_name = "STORED,READ", value_delimiter = ',', num_args = 1)]
    price: Vec<f64>,
    /// Draw what codes store and their nines, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Wish: at least so many nines, e.g. 11: a year loses data with a chance of 1e-11
    #[arg(long, value_name = "N", default_value_t = 9.0)]
    nines: f64,
    /// Wish: any so many nodes may be lost at once
    #[arg(long, value_name = "N", default_value_t = 2)]
    lose: usize,
    /// Wish: at most so many bytes stored for each byte of data
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0)]
    overhead: f64,
    /// Look at these codes alone, e.g. clay:10+4
    #[arg(long = "code", value_name = "SPEC")]
    codes: Vec<String>,
    /// Play the recommended code event by event, too
    #[arg(long)]
    simulate: bool,
}

impl Advise {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let site = self.site(setup)?;
        let mut found = Vec::new();
        for codec in self.candidates()? {
            found.push((on_disks(&site, &codec)?, codec));
        }
        if found.is_empty() {
            let (nodes, lose) = (self.nodes, self.lose);
            let problem = format!("{nodes} nodes are too few for any code that survives {lose}");
            return Err(Failure::Flag { flag: "--nodes", problem });
        }
        let all = !self.codes.is_empty() || setup.verbose;
        if !all {
            found = unbeaten(found, |(row, _)| {
                [row.stored, -(row.survives as f64), row.disk_hours, row.repair_chunks]
            });
        }
        let mut rows = Vec::new();
        for (mut row, codec) in found {
            durable(&site, &codec, &mut row, setup.seed)?;
            row.unmet = self.unmet(&row);
            rows.push(row);
        }
        // The recommendation stores least of those that meet the wishes; else it is the safest.
        rows.sort_by(|a, b| {
            let unmet = a.unmet.len().cmp(&b.unmet.len());
            let stored = a.stored.total_cmp(&b.stored);
            let repair = a.repair_hours.total_cmp(&b.repair_hours);
            let nines = b.nines.total_cmp(&a.nines);
            unmet.then(if a.unmet.is_empty() { stored.then(repair) } else { nines.then(stored) })
        });
        if !all {
            // With a code that meets the wishes, those that do not are no answer.
            let met = rows.first().is_some_and(|row| row.unmet.is_empty());
            rows.retain(|row| !met || row.unmet.is_empty());
            rows = unbeaten(rows, |row| [row.stored, -row.nines, row.repair_hours, 0.0]);
        }
        let played = self.simulate.then(|| site.play(&rows[0], setup.seed)).transpose()?;
        let recommended = rows.first().filter(|row| row.unmet.is_empty()).map(|row| &row.code[..]);
        if let Some(path) = &self.picture {
            crate::setup::write_file(path, report::picture(&rows, recommended).as_bytes())?;
        }
        let wishes = fields! { nines: self.nines, lose: self.lose, overhead: self.overhead };
        let report = report::report(&site, wishes, (&rows, recommended), played);
        setup.show("advise", &report, context! {})?;
        Ok(if recommended.is_some() { Exit::Done } else { Exit::Usage })
    }

    fn site(&self, setup: &Setup) -> Result<Site> {
        let flag = |flag, problem: &str| Err(Failure::Flag { flag, problem: problem.into() });
        let failures = self.failures.unwrap_or(self.class.failures());
        match () {
            () if !(2..=10_000).contains(&self.nodes) => flag("--nodes", "2 to 10000 nodes"),
            () if self.data == 0 || self.data > 1 << 62 => flag("--data", "data, at most 4 EiB"),
            () if !(4096..=1 << 40).contains(&self.object) => {
                flag("--object", "objects have 4 KiB to 1 TiB")
            }
            () if self.link < 1000 => flag("--link", "a link has at least 1000 bytes a second"),
            () if !(1e-6..=1000.0).contains(&failures) => {
                flag("--failures", "from 0.000001 to 1000 percent a year")
            }
            () if !(0.0..=10_000.0).contains(&self.detection) => {
                flag("--detection", "from 0 to 10000 hours")
            }
            () if self.domain == 0 || self.nodes / self.domain < 2 => {
                flag("--domain", "there must be two domains at least")
            }
            () if !(0.0..=1000.0).contains(&self.domain_failures.unwrap_or(0.0)) => {
                flag("--domain-failures", "from 0 to 1000 percent a year")
            }
            () if !matches!(self.price[..], [] | [_, _])
                || !self.price.iter().all(|price| (0.0..=1e9).contains(price)) =>
            {
                flag("--price", "two prices from 0 to 1e9, e.g. 20,1.5")
            }
            () => Ok(()),
        }?;
        Ok(Site {
            nodes: self.nodes,
            data: self.data,
            object: self.object,
            model: match &self.device_model {
                Some(path) => device::load(path)?,
                None => self.class.model(),
            },
            link: self.link,
            failures: failures / 100.0,
            domain: self.domain,
            domain_failures: self.domain_failures.unwrap_or(0.0) / 100.0,
            price: self.price.first().copied().zip(self.price.get(1).copied()),
            detection_hours: self.detection,
            bad_bits: self.class.bad_bits(),
            limit_rate: setup.limit_rate(),
        })
    }

    /// Returns the codes to look at: those asked for, or all of the table that could meet the
    /// wishes.
    fn candidates(&self) -> Result<Vec<Codec>> {
        if !self.codes.is_empty() {
            return self.codes.iter().map(|spec| crate::setup::codec(spec)).collect();
        }
        let mut found = Vec::new();
        for m in self.lose.max(1)..=self.lose.max(PARITY_MAX) {
            for &k in DATA_CHUNKS {
                let fits = k + m <= self.nodes && (k + m) as f64 / k as f64 <= self.overhead;
                for family in CODES.iter().filter(|_| fits) {
                    // A family that has no code of these numbers is no mistake of the user.
                    let Ok(spec) = CodeSpec::of_family(family.name, k, m) else { continue };
                    let Ok(codec) = Codec::new(&spec) else { continue };
                    if codec.margin(&[]) >= self.lose as i32 {
                        found.push(codec);
                    }
                }
            }
        }
        if found.is_empty() {
            return self.nearest();
        }
        Ok(found)
    }

    /// Returns codes that survive what is asked for on these nodes, whatever they store: the
    /// nearest to a wish that none meets.
    fn nearest(&self) -> Result<Vec<Codec>> {
        let mut found = Vec::new();
        for lose in (1..=self.lose).rev() {
            for &k in DATA_CHUNKS.iter().filter(|&&k| k + lose <= self.nodes) {
                for family in CODES {
                    let codec = CodeSpec::of_family(family.name, k, lose);
                    found.extend(codec.and_then(|spec| Codec::new(&spec)).ok());
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Names the wishes that a code does not meet.
    fn unmet(&self, row: &Advice) -> Vec<String> {
        let mut unmet = Vec::new();
        if row.nines < self.nines {
            unmet.push(format!("{:.1} nines for {}", row.nines, self.nines));
        }
        if row.survives < self.lose {
            unmet.push(format!("any {} may be lost, not {}", row.survives, self.lose));
        }
        if row.stored > self.overhead {
            unmet.push(format!("stores {:.2} for {}", row.stored, self.overhead));
        }
        if row.shards > self.nodes / self.domain {
            let what = if self.domain > 1 { "domains" } else { "nodes" };
            unmet.push(format!("needs {} {what}", row.shards));
        }
        if let Some(size) = self.node_size.filter(|&size| row.node_bytes > size) {
            let (needs, size) = (crate::sizes::show(row.node_bytes), crate::sizes::show(size));
            unmet.push(format!("needs {needs} a node for {size}"));
        }
        unmet
    }
}

/// Keeps the rows that no other beats, or equals within a twentieth while it stands before them, in
/// all costs; a cost below 0 is a gain.
fn unbeaten<T>(rows: Vec<T>, costs: impl Fn(&T) -> [f64; 4]) -> Vec<T> {
    let all: Vec<[f64; 4]> = rows.iter().map(&costs).collect();
    let beaten = |at: usize| {
        all.iter().enumerate().any(|(index, other)| {
            let pairs = || other.iter().zip(&all[at]);
            let alike = pairs().all(|(a, b)| *a <= b + 0.05 * b.abs());
            let better = pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b);
            index != at && (better || alike && index < at)
        })
    };
    let keep: Vec<bool> = (0..all.len()).map(|at| !beaten(at)).collect();
    rows.into_iter().zip(keep).filter_map(|(row, keep)| keep.then_some(row)).collect()
}
