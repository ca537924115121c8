//! Prices of requests and bytes where shards are, as a person wrote them down.

use std::{collections::BTreeMap, path::Path};

use kiln_recovery::NodePrice;
use kiln_store::device::{Combine, DeviceModel, Devices};
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Result};
use crate::print::fields;

/// Longest price table that is read, in bytes.
const MAX_TABLE: u64 = 1 << 20;
pub const GB: f64 = 1e9;

/// A table of prices: those of the zones, and of what is in no zone.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// For messages only.
    #[serde(default)]
    pub currency: String,
    /// For 1000 reads.
    pub gets_1000: f64,
    /// For 10^9 bytes read.
    pub gigabyte: f64,
    #[serde(default)]
    pub zone: BTreeMap<String, Zone>,
}

/// A zone with other prices: for the chunks of these indices, to plan with, or on these nodes (of a
/// pool; else folders as they are given), to repair with.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    pub gets_1000: Option<f64>,
    pub gigabyte: Option<f64>,
}

impl Prices {
    /// Reads a table whose zones are of chunks.
    pub fn of_chunks(path: &Path) -> Result<Prices> {
        let prices = Prices::read(path)?;
        prices.zones_have(path, "chunks = [...]", |zone| !zone.chunks.is_empty())?;
        Ok(prices)
    }

    /// Reads a table whose zones are of nodes.
    pub fn of_nodes(path: &Path) -> Result<Prices> {
        let prices = Prices::read(path)?;
        prices.zones_have(path, "nodes = [...]", |zone| !zone.nodes.is_empty())?;
        Ok(prices)
    }

    fn zones_have(&self, path: &Path, what: &str, has: impl Fn(&Zone) -> bool) -> Result<()> {
        match self.zone.iter().find(|(_, zone)| !has(zone)) {
            Some((name, _)) => {
                Err(bad(path, &format!("zone {name:?} lacks {what}, which this command needs")))
            }
            None => Ok(()),
        }
    }

    fn read(path: &Path) -> Result<Prices> {
        let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > MAX_TABLE {
            return Err(bad(path, "too long for a price table"));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let prices: Prices =
            toml::from_str(&text).map_err(|error| bad(path, error.to_string().trim()))?;
        let zones = prices.zone.values().flat_map(|zone| [zone.gets_1000, zone.gigabyte]);
        let mut all = zones.flatten().chain([prices.gets_1000, prices.gigabyte]);
        match all.all(|price| price.is_finite() && price >= 0.0) {
            true => Ok(prices),
            false => Err(bad(path, "prices are numbers from 0 on")),
        }
    }

    /// For one read, and for one byte, of a chunk.
    pub fn of(&self, chunk: usize) -> (f64, f64) {
        self.in_zone(self.zone.values().find(|zone| zone.chunks.contains(&chunk)))
    }

    fn in_zone(&self, zone: Option<&Zone>) -> (f64, f64) {
        let get = zone.and_then(|zone| zone.gets_1000).unwrap_or(self.gets_1000);
        let byte = zone.and_then(|zone| zone.gigabyte).unwrap_or(self.gigabyte);
        (get / 1000.0, byte / GB)
    }

    /// A cost in the currency of the table, as reports have it.
    pub fn priced<T: Serialize>(&self, cost: T) -> impl Serialize + use<T> {
        fields! {
            currency: self.currency().to_owned(),
            #[serde(flatten)]
            cost: cost,
        }
    }

    /// In what is paid.
    pub fn currency(&self) -> &str {
        match &self.currency[..] {
            "" => "money",
            named => named,
        }
    }

    /// Refuses zones with nodes that there are not.
    fn know(&self, nodes: &[&str]) -> Result<()> {
        let all = self.zone.values().flat_map(|zone| &zone.nodes);
        match all.into_iter().find(|node| !nodes.contains(&&node[..])) {
            None => Ok(()),
            Some(node) => {
                let problem = format!("no node {node:?}; there are {}", nodes.join(", "));
                Err(Failure::Flag { flag: "--price", problem })
            }
        }
    }

    /// Returns the prices at each of these nodes, to plan what is sent between them.
    /// Errors: a zone has a node that is not among these.
    pub fn as_nodes<'a>(
        &self,
        nodes: impl Iterator<Item = &'a str>,
    ) -> Result<kiln_recovery::Prices> {
        let nodes: Vec<&str> = nodes.collect();
        self.know(&nodes)?;
        let price = |id: &&str| {
            let mut zones = self.zone.values();
            let zone = zones.position(|zone| zone.nodes.iter().any(|node| node == id));
            let (read, byte) = self.in_zone(zone.and_then(|at| self.zone.values().nth(at)));
            ((*id).to_owned(), NodePrice { zone, read, byte })
        };
        Ok(nodes.iter().map(price).collect())
    }

    /// The prices as costs of devices, one a zone: what the read planner takes for seconds is
    /// money, which adds up over zones.
    /// Errors: a zone has a node that is not among these.
    pub fn as_devices<'a>(&self, nodes: impl Iterator<Item = &'a str>) -> Result<Devices> {
        let nodes: Vec<&str> = nodes.collect();
        self.know(&nodes)?;
        let model = |zone: Option<&Zone>| {
            let (get, byte) = self.in_zone(zone);
            // Models divide by what a byte costs.
            DeviceModel::new(get, byte.max(f64::MIN_POSITIVE), Combine::Sum)
        };
        let mut devices = Devices::default().adding_up();
        let elsewhere = devices.add(model(None));
        let zones: Vec<(usize, &Zone)> =
            self.zone.values().map(|zone| (devices.add(model(Some(zone))), zone)).collect();
        for node in nodes {
            let zone = zones.iter().find(|(_, zone)| zone.nodes.iter().any(|one| one == node));
            devices.place(node, zone.map_or(elsewhere, |(device, _)| *device));
        }
        Ok(devices)
    }
}

fn bad(path: &Path, why: &str) -> Failure {
    let why = why.lines().last().unwrap_or("").to_owned();
    Failure::Flag { flag: "--price", problem: format!("{}: {why}", path.display()) }
}
