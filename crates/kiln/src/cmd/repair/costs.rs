//! Costs of the reads of a repair: time on devices, or money.

use kiln_pool::repair::ExpectedReads;
use kiln_store::device::Devices;
use kiln_stripe::RepairReport;
use serde::Serialize;

use crate::exit::Result;
use crate::setup::{Folders, Prices};

/// Costs of reads.
pub enum Costs {
    /// Time, on devices, where they are known.
    Of(Option<Devices>),
    /// Money.
    Paid(Prices),
}

impl Costs {
    /// For the read planner.
    /// Errors: the table of prices has nodes that there are not.
    pub fn devices(&self, folders: &Folders) -> Result<Option<Devices>> {
        match self {
            Costs::Of(devices) => Ok(devices.clone()),
            Costs::Paid(prices) => {
                prices.as_devices(folders.nodes().iter().map(|node| &node.name[..])).map(Some)
            }
        }
    }
}

/// Prices of reads, in the currency of the table: those that were planned,
/// and what the other ways would cost.
#[derive(Serialize)]
pub struct Price {
    pub currency: String,
    #[serde(flatten)]
    pub expected: ExpectedReads,
}

impl Price {
    /// Expected cost of reads that were planned by a table.
    pub fn of(prices: &Prices, expected: ExpectedReads) -> Price {
        Price { currency: prices.currency().to_owned(), expected }
    }
}

/// A report with prices, if there are any.
#[derive(Serialize)]
pub struct Priced {
    #[serde(flatten)]
    report: RepairReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Price>,
}

impl Priced {
    /// The report as JSON has it.
    pub fn of(mut report: RepairReport, costs: &Costs) -> Priced {
        let price = price(&report, costs);
        if price.is_some() {
            // What it has as seconds is money.
            report.reads = None;
        }
        Priced { report, price }
    }
}

/// The prices of a repair whose reads were planned by prices.
pub fn price(report: &RepairReport, costs: &Costs) -> Option<Price> {
    let (Costs::Paid(prices), Some(reads)) = (costs, &report.reads) else { return None };
    Some(Price::of(prices, ExpectedReads::of(reads)))
}
