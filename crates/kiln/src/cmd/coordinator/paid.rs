//! Cost of a repair by agents, by a table of prices.

use std::path::Path;

use crate::exit::Result;
use kiln_recovery::Prices as NodePrices;

use crate::setup::Prices;

/// The table of `--price`, and what it says of the nodes.
pub struct Paid {
    pub nodes: NodePrices,
    pub table: Prices,
}

impl Paid {
    /// Reads the table, if there is one, for these nodes.
    /// Errors: it cannot be read, or has nodes that there are not.
    pub fn read<'a>(
        path: Option<&Path>,
        nodes: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Paid>> {
        let Some(path) = path else { return Ok(None) };
        let table = Prices::of_nodes(path)?;
        Ok(Some(Paid { nodes: table.as_nodes(nodes)?, table }))
    }
}
