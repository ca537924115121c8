//! What HDFS moved away from the one DataNode of a place: its balancer does, and who takes a
//! DataNode out of service. It is read from where it is; here it is seen, and brought back.

use std::sync::Arc;

use kiln_store::{Append, Operation, ReadAt, StoreError, Whereabouts};

use crate::client::Client;
use crate::operations::passing_name;
use crate::read::File;
use crate::write::{SMALL, Writer};

/// Where a file is.
pub(crate) fn whereabouts(client: &Client, name: &str) -> Result<Whereabouts, StoreError> {
    let Some(server) = &client.place.datanode else { return Ok(Whereabouts::Unasked) };
    let located = client.blocks(Operation::Open, name, &client.path(name))?;
    Ok(located.elsewhere(server).map_or(Whereabouts::Here, Whereabouts::Away))
}

/// Writes a file anew, on the place's DataNode, and puts it in the place of the one that is there.
pub(crate) fn bring_back(client: &Arc<Client>, name: &str) -> Result<(), StoreError> {
    let (file, passing) = (File::open(client, name)?, passing_name());
    let copy = || {
        let mut writer = Writer::new(client, &passing);
        let (mut at, mut piece) = (0, vec![0; SMALL]);
        while at < file.len() {
            let now = (file.len() - at).min(SMALL as u64) as usize;
            file.read_at(at, &mut piece[..now])?;
            writer.append(&piece[..now])?;
            at += now as u64;
        }
        writer.complete()?;
        client.rename(&passing, name, true)
    };
    copy().inspect_err(|_| {
        // The error is the one to tell; the file itself is as it was.
        let _ = client.delete(&passing, &client.path(&passing));
    })
}
