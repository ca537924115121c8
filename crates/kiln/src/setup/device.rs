//! Device models of folders: the files that `kiln probe` writes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::exit::Result;
use kiln_store::Location;
use kiln_store::device::{DeviceModel, Devices};

use crate::{exit::Failure, names::DEVICE_MODEL};

/// No model is longer.
const MODEL_BYTES_MAX: u64 = 1 << 16;

/// Reads a model from a file, or from where a folder keeps it.
pub fn load(path: &Path) -> Result<DeviceModel> {
    let kept = path.join(DEVICE_MODEL);
    let path = if path.is_dir() { &kept } else { path };
    let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    let wrong = |problem| Failure::NotUsable { path: path.to_owned(), problem };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MODEL_BYTES_MAX {
        return Err(wrong(format!("{size} bytes are too many for a device model")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let model: DeviceModel = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("invalid device model ({error}); run kiln probe")))?;
    let checked = model
        .check()
        .map_err(|what| wrong(format!("unusable device model: {what}; run kiln probe again")));
    checked.map(|()| model)
}

/// The devices of folders: all as `model` says, or each as its own file says. Folders of one file
/// system share a device.
///
/// `None` when a folder that is there has no model.
pub fn devices(folders: &[PathBuf], model: Option<&DeviceModel>) -> Result<Option<Devices>> {
    let mut devices = Devices::default();
    let mut known: Vec<(u64, usize)> = Vec::new();
    let local = folders.iter().filter_map(|folder| Location::of(folder).local().ok());
    for folder in local.filter(|folder| folder.exists()) {
        let own = folder.join(DEVICE_MODEL);
        let model = match model {
            Some(model) => model.clone(),
            None if own.exists() => load(&own)?,
            None => return Ok(None),
        };
        let system = std::fs::metadata(folder).map_or(u64::MAX, |kind| kind.dev());
        let device = match known.iter().find(|(other, _)| *other == system) {
            Some((_, device)) => *device,
            None => devices.add(model),
        };
        known.push((system, device));
        devices.place(folder.display().to_string(), device);
    }
    Ok(Some(devices).filter(|_| !known.is_empty()))
}
