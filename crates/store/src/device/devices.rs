//! Devices of nodes.

use super::DeviceModel;
use std::collections::BTreeMap;

/// The devices of nodes. Nodes on one device wait for each other there, so whoever puts them on
/// one device here lets their costs add up.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    models: Vec<DeviceModel>,
    /// For each, all models that its probe allows.
    plausible: Vec<Vec<DeviceModel>>,
    of: BTreeMap<String, usize>,
    add_up: bool,
}

impl Devices {
    /// Adds a device; gives its number.
    pub fn add(&mut self, model: DeviceModel) -> usize {
        self.plausible.push(model.plausible());
        self.models.push(model);
        self.models.len() - 1
    }

    /// Says that the node of this name is on that device.
    pub fn place(&mut self, node: impl Into<String>, device: usize) {
        self.of.insert(node.into(), device);
    }

    /// Returns whether what reads cost adds up over devices: money does, which is paid from one
    /// purse. Of times the longest counts.
    pub fn add_up(&self) -> bool {
        self.add_up
    }

    /// The same; costs add up over devices.
    #[must_use]
    pub fn adding_up(self) -> Devices {
        Devices { add_up: true, ..self }
    }

    /// The device of a node.
    pub fn of(&self, node: &str) -> Option<usize> {
        self.of.get(node).copied().filter(|&device| device < self.models.len())
    }

    /// The costs of this device.
    ///
    /// # Panics
    /// When there is no device of this number.
    pub fn model(&self, device: usize) -> &DeviceModel {
        &self.models[device]
    }

    /// All models of this device that its probe allows.
    ///
    /// # Panics
    /// When there is no device of this number.
    pub fn plausible(&self, device: usize) -> &[DeviceModel] {
        &self.plausible[device]
    }

    /// Largest deviation of a device's probe from its model, root of the mean square.
    pub fn model_error(&self) -> f64 {
        self.models.iter().map(|model| model.uncertainty.error).fold(0.0, f64::max)
    }

    /// Returns whether some probe was too far off to be trusted.
    pub fn are_doubtful(&self) -> bool {
        self.models.iter().any(DeviceModel::is_doubtful)
    }
}
