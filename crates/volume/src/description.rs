//! Descriptions of volumes in the pool, read and replaced.

use crate::{NAMES, Result, Rim, VolumeError, descriptor::Descriptor};
use kiln_pool::{GetRequest, Key, PutRequest};
use kiln_stripe::{PoolError, Silent, StreamSource};

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
    let object = name_of(volume)?;
    let settings = rim.settings(&Silent);
    let found = rim.with(|pool| {
        loop {
            let manifest = pool.manifest(&object)?;
            let mut text = Vec::new();
            pool.get(&GetRequest { name: &object, range: None }, &mut text, &settings)?;
            // It may have been replaced between the two.
            if pool.manifest(&object)?.run == manifest.run {
                return Ok((manifest.run, text));
            }
        }
    });
    let (run, text) = match found {
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
    let object = name_of(volume)?;
    let text = new.to_text()?;
    let run = rim.id();
    let put = rim.with(|pool| {
        let req = PutRequest { name: &object, run, now_ms: rim.now_ms(), replace: true };
        let mut source = StreamSource::new(text.as_bytes()).with_size(text.len() as u64);
        pool.writer().put_over(&req, over, &mut source, &rim.settings(&Silent))
    });
    match put {
        Ok(_) => Ok(run),
        // It may be there all the same: then it is ours.
        Err(error @ (PoolError::Conflict { .. } | PoolError::UnderReplicated { .. })) => {
            match look_up(rim, volume) {
                Ok(held) if held.run == run => Ok(run),
                Ok(_) => Err(VolumeError::Deposed { name: volume.to_owned() }),
                Err(_) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
