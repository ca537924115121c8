//! `kiln plan --recover`: the recovery of whole machines, many stripes at once.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs::File, sync::Arc};

use clap::Args;
use kiln_code::Codec;
use kiln_plan::{Cluster, Destination, Layout, RecoveryOptions, RecoveryPlan};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::{print::fields, setup::Setup};

/// The longest line of a layout file: 256 node names of 64 bytes.
const LINE_MAX: usize = 20_000;

/// Flags of a recovery plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recovery of lost machines")]
pub struct Recover {
    /// Plan the repair of many stripes together, instead of one
    #[arg(long, group = "on_machines", requires = "stripe_source",
          conflicts_with_all = ["lost", "average"])]
    recover: bool,
    /// Machines n0, n1, ... on equal links of 10 Gbit/s, instead of a cluster file
    #[arg(long, value_name = "N", requires = "recover", conflicts_with = "cluster")]
    nodes: Option<usize>,
    /// Machines that are gone, by name; what they stored is to be rebuilt [default: the first]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "recover")]
    failed: Vec<String>,
    /// This many random stripes that had a chunk on a lost machine (with --seed)
    #[arg(long, value_name = "N", requires = "recover", group = "stripe_source")]
    stripes: Option<usize>,
    /// Stripes from a file: a line each, the names of the nodes of chunks 0 to n-1, - for a lost
    /// one
    #[arg(long, value_name = "FILE", requires = "recover", group = "stripe_source")]
    layout: Option<PathBuf>,
    /// Place rebuilt chunks there: `spread` over the machines left, or the names of new ones
    #[arg(
        long,
        value_name = "NODES",
        value_delimiter = ',',
        requires = "recover",
        default_value = "spread"
    )]
    to: Vec<String>,
    /// Strategies to choose from, e.g. central,hub [default: all that help]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "recover")]
    menu: Vec<String>,
    /// Plan every stripe by itself: the first of the strategies, a random new node
    #[arg(long, requires = "recover")]
    alone: bool,
}

impl Recover {
    /// Returns whether a recovery is to be planned.
    pub fn is_asked(&self) -> bool {
        self.recover
    }
}

/// Plans and reports.
pub fn run(
    flags: &Recover,
    codec: &Codec,
    chunk: u64,
    cluster: Option<&Path>,
    setup: &Setup,
) -> Result<Exit> {
    let cluster = match (cluster, flags.nodes) {
        (Some(path), _) => super::place::read(path)?,
        (None, Some(nodes)) => Arc::new(Cluster::uniform(nodes)?),
        (None, None) => {
            let problem = "no machines given; give --nodes N or --cluster FILE".into();
            return Err(Failure::Flag { flag: "--recover", problem });
        }
    };
    let failed = match &flags.failed[..] {
        [] => vec![0],
        names => indices(&cluster, names, "--failed")?,
    };
    let to = match &flags.to[..] {
        [word] if word == "spread" => Destination::Spread,
        names => Destination::Nodes(indices(&cluster, names, "--to")?),
    };
    let layout = match &flags.layout {
        Some(path) => layout(path, codec, &cluster, &failed)?,
        None => {
            // New machines have nothing yet.
            let new = |node: &usize| {
                matches!(&to, Destination::Nodes(list) if list.contains(node))
                    && !failed.contains(node)
            };
            let on = (0..cluster.nodes().len()).filter(|node| !new(node));
            let stripes = flags.stripes.unwrap_or(0);
            Layout::random(
                codec.shape(),
                &|lost| codec.tolerates(lost),
                on,
                &failed,
                stripes,
                setup.seed,
            )?
        }
    };
    let mut options = RecoveryOptions { seed: setup.seed, ..RecoveryOptions::default() };
    if !flags.menu.is_empty() {
        let rows = flags.menu.iter().map(|name| Ok(kiln_plan::strategy(name)?.name));
        options.strategies = rows.collect::<Result<_>>()?;
    }
    if flags.alone {
        options.sweeps = 0;
    }
    let names = |list: &[usize]| -> Vec<String> {
        list.iter().map(|&node| cluster.nodes()[node].name.clone()).collect()
    };
    let (failed, new) = match &to {
        Destination::Spread => (names(&failed), vec!["spread".into()]),
        Destination::Nodes(list) => (names(&failed), names(list)),
    };
    let emit = |lost: &[usize], available: &[usize]| Ok(codec.repair_dag(lost, available)?.1);
    let before = setup.seconds();
    let plan = RecoveryPlan::new(cluster, layout, &emit, to, &options)?;
    let seconds = setup.seconds() - before;
    let report = report(&plan, codec, chunk, (failed, new), (seconds, setup.seed));
    setup.show("plan of machines", &report, context! {})
}

/// Nodes by their names.
fn indices(cluster: &Cluster, names: &[String], flag: &'static str) -> Result<Vec<usize>> {
    let find = |name: &String| {
        let found = cluster.nodes().iter().position(|node| node.name == *name);
        found.ok_or_else(|| Failure::Flag { flag, problem: unknown(cluster, name) })
    };
    names.iter().map(find).collect()
}

fn unknown(cluster: &Cluster, name: &str) -> String {
    let (first, last) = (cluster.nodes().first(), cluster.nodes().last());
    let name_of = |node: Option<&kiln_plan::Node>| node.map_or("-".into(), |n| n.name.clone());
    format!("no node '{name}'; there are {} to {}", name_of(first), name_of(last))
}

/// Stripes from a file, line by line.
fn layout(path: &Path, codec: &Codec, cluster: &Cluster, failed: &[usize]) -> Result<Layout> {
    let io = |source| Failure::Io { action: "read", path: path.into(), source };
    let names: BTreeMap<&str, usize> =
        cluster.nodes().iter().enumerate().map(|(index, node)| (&node.name[..], index)).collect();
    let mut layout = Layout::new(codec.shape());
    let mut reader = BufReader::new(File::open(path).map_err(io)?);
    for number in 1_u64.. {
        let mut line = String::new();
        let limit = LINE_MAX as u64 + 1;
        if reader.by_ref().take(limit).read_line(&mut line).map_err(io)? == 0 {
            break;
        }
        let wrong = |problem: String| Failure::NotUsable {
            path: path.into(),
            problem: format!("line {number}: {problem}"),
        };
        if line.len() > LINE_MAX {
            return Err(wrong(format!("line exceeds {LINE_MAX} bytes")));
        }
        let words = line.split('#').next().unwrap_or_default();
        let words = words.split([' ', '\t', ',', '\r', '\n']).filter(|word| !word.is_empty());
        let home = |word: &str| match (word, names.get(word)) {
            ("-", _) => Ok(None),
            (_, Some(&node)) => Ok((!failed.contains(&node)).then_some(node as u16)),
            (_, None) => Err(wrong(unknown(cluster, word))),
        };
        let homes = words.map(home).collect::<Result<Vec<_>, _>>()?;
        if !homes.is_empty() {
            layout.push(&homes).map_err(|error| wrong(error.to_string()))?;
        }
    }
    Ok(layout)
}

fn report(
    plan: &RecoveryPlan,
    codec: &Codec,
    chunk: u64,
    (failed, to): (Vec<String>, Vec<String>),
    (seconds, seed): (f64, u64),
) -> impl Serialize {
    let bytes = |chunks: f64| (chunks * chunk as f64).round() as u64;
    let nodes = plan.cluster().nodes();
    let loads = nodes.iter().zip(plan.sent()).zip(plan.received());
    let load = |((node, sent), received): ((&kiln_plan::Node, f64), f64)| {
        fields! { node: node.name.clone(), sent: bytes(sent), received: bytes(received) }
    };
    let class = |class: &kiln_plan::RiskClass| {
        fields! { lost: class.lost, stripes: class.stripes, makespan: bytes(class.makespan) }
    };
    fields! {
        code: codec.spec().to_string(),
        stripes: plan.jobs().len(),
        chunk: chunk,
        nodes: nodes.len(),
        failed: failed,
        to: to,
        seed: seed,
        // Bytes on the busiest link when all is done; with unequal links as if on the mean link.
        makespan: bytes(plan.makespan()),
        bound_makespan: bytes(plan.bound()),
        ratio: if plan.bound() > 0.0 { plan.makespan() / plan.bound() } else { 1.0 },
        // Time of the busiest link.
        estimated_seconds: plan.seconds(chunk),
        bandwidth: plan.sent().map(bytes).sum::<u64>(),
        plan_seconds: seconds,
        // Rebuilt chunks that share a failure domain with another chunk of their stripe.
        crowded: plan.crowded(),
        strategies: plan.strategies(),
        classes: plan.classes().iter().map(class).collect::<Vec<_>>(),
        table: loads.map(load).collect::<Vec<_>>(),
    }
}
