//! What the reads of a repair cost: time on devices, or money.

use kiln_pool::RepairReport;
use kiln_store::device::Devices;
use serde::Serialize;

use crate::setup::{Folders, Prices};

/// What reads cost.
pub enum Costs {
    /// Time, on devices, where they are known.
    Of(Option<Devices>),
    /// Money.
    Paid(Prices),
}

impl Costs {
    /// For the read planner.
    pub fn devices(&self, folders: &Folders) -> Option<Devices> {
        match self {
            Costs::Of(devices) => devices.clone(),
            Costs::Paid(prices) => Some(prices.as_device(folders.nodes())),
        }
    }
}

/// What reads cost where they are paid for, in the currency of the table: those that were planned,
/// and what the other ways would cost.
#[derive(Serialize)]
pub struct Price {
    pub currency: String,
    pub planned: f64,
    pub as_runs: f64,
    pub whole_chunks: f64,
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
    Some(Price {
        currency: prices.currency().to_owned(),
        planned: reads.expected_seconds,
        as_runs: reads.expected_seconds_as_runs,
        whole_chunks: reads.expected_seconds_whole_chunks,
    })
}
