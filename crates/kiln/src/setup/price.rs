//! What requests and bytes cost where shards are, as a person wrote it down.

use std::collections::BTreeMap;
use std::path::Path;

use kiln_pool::Node;
use kiln_store::device::{Combine, DeviceModel, Devices};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

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

/// Where other prices hold: for the chunks of these indices.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    pub chunks: Vec<usize>,
    pub gets_1000: Option<f64>,
    pub gigabyte: Option<f64>,
}

impl Prices {
    /// Reads a table.
    ///
    /// # Errors
    /// The file cannot be read, or is no table of prices.
    pub fn read(path: &Path) -> Result<Prices, Failure> {
        let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(failed)?.len() > MAX_TABLE {
            return Err(bad(path, "it is too long for a price table"));
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

    /// As [`Prices::read`], for reads of shards of which nobody knows the chunk before.
    ///
    /// # Errors
    /// As [`Prices::read`]; prices that differ by zone.
    pub fn of_all(path: &Path) -> Result<Prices, Failure> {
        let prices = Prices::read(path)?;
        match prices.zone.is_empty() {
            true => Ok(prices),
            false => Err(bad(
                path,
                "a repair wants one price for all shards; kiln plan --price weighs zones",
            )),
        }
    }

    /// For one read, and for one byte, of a chunk.
    pub fn of(&self, chunk: usize) -> (f64, f64) {
        let zone = self.zone.values().find(|zone| zone.chunks.contains(&chunk));
        let get = zone.and_then(|zone| zone.gets_1000).unwrap_or(self.gets_1000);
        let byte = zone.and_then(|zone| zone.gigabyte).unwrap_or(self.gigabyte);
        (get / 1000.0, byte / GB)
    }

    /// In what is paid.
    pub fn currency(&self) -> &str {
        match &self.currency[..] {
            "" => "money",
            named => named,
        }
    }

    /// The prices as the cost of reads from one device that all nodes share, since all are paid
    /// from one purse: what the read planner takes for seconds is money.
    pub fn as_device(&self, nodes: &[Node]) -> Devices {
        let (get, byte) = (self.gets_1000 / 1000.0, self.gigabyte / GB);
        // Models divide by what a byte costs.
        let model = DeviceModel::new(get, byte.max(f64::MIN_POSITIVE), Combine::Sum);
        let mut devices = Devices::default();
        let device = devices.add(model);
        nodes.iter().for_each(|node| devices.place(&node.name[..], device));
        devices
    }
}

fn bad(path: &Path, why: &str) -> Failure {
    let why = why.lines().last().unwrap_or("").to_owned();
    Failure::Flag { flag: "--price", problem: format!("{}: {why}", path.display()) }
}
