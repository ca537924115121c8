//! Cost of a repair by agents, by a table of prices.

use std::path::Path;

use crate::exit::Result;
use kiln_recovery::{Price, Prices as NodePrices};
use serde::Serialize;

use crate::setup::Prices;

/// The table of `--price`, and what it says of the nodes.
pub struct Paid {
    pub nodes: NodePrices,
    currency: String,
}

/// Cost of the executed plans, in the currency of the table.
#[derive(Debug, Serialize)]
pub struct PriceReport {
    currency: String,
    #[serde(flatten)]
    price: Price,
}

impl Paid {
    /// Reads the table, if there is one, for these nodes.
    /// Errors: it cannot be read, or has nodes that there are not.
    pub fn read<'a>(
        path: Option<&Path>,
        nodes: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Paid>> {
        let Some(path) = path else { return Ok(None) };
        let prices = Prices::of_nodes(path)?;
        let currency = prices.currency().to_owned();
        Ok(Some(Paid { nodes: prices.as_nodes(nodes)?, currency }))
    }

    /// With what it came to.
    pub fn report(&self, price: Option<Price>) -> PriceReport {
        PriceReport { currency: self.currency.clone(), price: price.unwrap_or_default() }
    }
}
