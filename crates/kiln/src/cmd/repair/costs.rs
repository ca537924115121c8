//! Costs of the reads of a repair: time on devices, or money.

use kiln_pool::repair::ExpectedReads;
use kiln_store::device::Devices;
use kiln_stripe::RepairReport;
use serde::Serialize;

use crate::exit::Result;
use crate::print::fields;
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

/// The report of a repair, with prices where its reads were planned by them.
pub fn priced(mut report: RepairReport, costs: &Costs) -> impl Serialize + use<> {
    let price = match (costs, &report.reads) {
        (Costs::Paid(prices), Some(reads)) => Some(prices.priced(ExpectedReads::of(reads))),
        _ => None,
    };
    if price.is_some() {
        // Its seconds are money here.
        report.reads = None;
    }
    fields! {
        #[serde(flatten)]
        report: report,
        price or none: price,
    }
}
