//! What the pool says of a volume, read and replaced.

use kiln_pool::{Key, PoolError, PutRequest, Silent, StreamSource};

use crate::descriptor::Descriptor;
use crate::{NAMES, Result, Rim, VolumeError};

/// What is written about a volume in the pool, and which version of that is in force.
#[derive(Debug)]
pub(crate) struct Held {
    pub descriptor: Descriptor,
    pub version: u64,
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

/// What the pool says of a volume now.
pub(crate) fn look_up(rim: &Rim, volume: &str) -> Result<Held> {
    let object = name_of(volume)?;
    let mut text = Vec::new();
    let req = kiln_pool::GetRequest { name: &object, range: None };
    let settings = rim.settings(&Silent);
    let text = std::cell::RefCell::new(&mut text);
    let got = rim.with(|pool| {
        let mut text = text.borrow_mut();
        text.clear();
        pool.get(&req, &mut **text, &settings)
    });
    let version = match got {
        Ok(report) => report.version,
        Err(PoolError::NoObject { .. }) => {
            return Err(VolumeError::NoVolume { name: volume.to_owned() });
        }
        Err(error) => return Err(error.into()),
    };
    let descriptor = Descriptor::parse(volume, &String::from_utf8_lossy(&text.borrow()))?;
    Ok(Held { descriptor, version })
}

/// Replaces what the pool says of a volume, if it is what the caller knows; 0: there was nothing.
///
/// # Errors
/// [`VolumeError::Deposed`]: somebody else changed it.
pub(crate) fn swap(rim: &Rim, volume: &str, version: u64, new: &Descriptor) -> Result<u64> {
    let object = name_of(volume)?;
    let text = new.to_text()?;
    let put = rim.with(|pool| {
        let (run, now_ms) = (rim.id(), rim.now_ms());
        let req = PutRequest { name: &object, run, now_ms, replace: true };
        let mut source = StreamSource::new(text.as_bytes()).with_size(text.len() as u64);
        pool.put_over(&req, version, &mut source, &rim.settings(&Silent))
    });
    match put {
        Ok(report) => Ok(report.version),
        // It may be there all the same: then it is ours, or of somebody who wants just this.
        Err(error @ (PoolError::Conflict { .. } | PoolError::UnderReplicated { .. })) => {
            match look_up(rim, volume) {
                Ok(held) if held.descriptor == *new => Ok(held.version),
                Ok(_) => Err(VolumeError::Deposed { name: volume.to_owned() }),
                Err(_) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
