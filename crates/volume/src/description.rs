//! Descriptions of volumes in the pool, read and replaced.

use crate::{NAMES, Result, Rim, VolumeError, descriptor::Descriptor};
use kiln_pool::Key;
use kiln_stripe::PoolError;

/// Description of a volume in the pool, and its identity.
#[derive(Debug)]
pub(crate) struct Held {
    pub descriptor: Descriptor,
    pub run: [u8; 16],
}

impl Held {
    /// Takes over what others may change of a volume in use: which volumes were cloned from its
    /// snapshots. Whether that was all that has changed; else there is another writer.
    pub fn catch_up(&mut self, rim: &Rim, volume: &str) -> Result<bool> {
        let found = look_up(rim, volume)?;
        let plain = |held: &Held| {
            let mut plain = held.descriptor.clone();
            plain.snapshot.iter_mut().for_each(|entry| entry.clones.clear());
            plain
        };
        let same = found.run != self.run && plain(&found) == plain(self);
        if same {
            *self = found;
        }
        Ok(same)
    }
}

/// The name of the object that describes a volume.
pub(crate) fn name_of(volume: &str) -> Result<String> {
    let name = format!("{NAMES}/{volume}");
    if volume.contains('/') || Key::of(&name).is_err() {
        let what = format!("{volume:?} cannot be a volume's name: give one without slashes");
        return Err(VolumeError::Usage { what });
    }
    Ok(name)
}

/// Reads the description of a volume.
pub(crate) fn look_up(rim: &Rim, volume: &str) -> Result<Held> {
    let (run, text) = match rim.read(&name_of(volume)?, u64::MAX) {
        Err(PoolError::NoObject { .. }) => {
            return Err(VolumeError::NoVolume { name: volume.to_owned() });
        }
        found => found?,
    };
    let descriptor = Descriptor::parse(volume, &String::from_utf8_lossy(&text))?;
    Ok(Held { descriptor, run })
}

/// Replaces what the pool says of a volume, if it is what the caller knows (`None`: nothing); gives
/// the identity of what is there then.
/// Errors: [`VolumeError::Deposed`]: another writer changed it.
pub(crate) fn swap(
    rim: &Rim,
    volume: &str,
    over: Option<[u8; 16]>,
    new: &Descriptor,
) -> Result<[u8; 16]> {
    let run = rim.replace(&name_of(volume)?, over, &new.to_text()?)?;
    run.ok_or_else(|| VolumeError::Deposed { name: volume.to_owned() })
}
