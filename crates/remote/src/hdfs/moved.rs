//! Files that HDFS moved away from the one DataNode of a place: its balancer does, and who takes a
//! DataNode out of service. It is read from where it is; here it is seen, and copied back.

use crate::hdfs::write::{SMALL, Writer};
use crate::{hdfs::client::Client, hdfs::read::File};
use kiln_store::{Append, Located, Operation, ReadAt, Result, checksum};
use std::sync::Arc;

/// Returns the place of a file.
pub(crate) fn locality(client: &Client, name: &str) -> Result<Located> {
    let Some(server) = &client.place.datanode else { return Ok(Located::Unmanaged) };
    let located = client.blocks(Operation::Open, name, &client.path(name))?;
    Ok(located.elsewhere(server).map_or(Located::Here, Located::Away))
}

/// Writes a file anew on the place's DataNode, under another name, and reads it back from there.
pub(crate) fn copy_local(client: &Arc<Client>, from: &str, to: &str) -> Result<()> {
    let file = File::open(client, from)?;
    let copy = || {
        let (mut writer, mut sums) = (Writer::new(client, to), Vec::new());
        each_piece(&file, &mut |piece| {
            sums.push(checksum(piece));
            writer.append(piece)
        })?;
        writer.complete()?;
        let (copy, mut sums) = (File::open(client, to)?, sums.into_iter());
        let mut same = copy.len() == file.len();
        each_piece(&copy, &mut |piece| {
            same &= sums.next() == Some(checksum(piece));
            Ok(())
        })?;
        match same {
            true => Ok(()),
            false => Err(client.fail(Operation::Write, to, "the copy has other bytes")),
        }
    };
    copy().inspect_err(|_| {
        // The error is the one to tell; the file itself is as it was.
        let _ = client.delete(to, &client.path(to));
    })
}

/// Reads a file from its beginning, in pieces of at most [`SMALL`] bytes.
fn each_piece(file: &File, see: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut at, mut piece) = (0, vec![0; SMALL]);
    while at < file.len() {
        let now = (file.len() - at).min(SMALL as u64) as usize;
        file.read_at(at, &mut piece[..now])?;
        see(&piece[..now])?;
        at += now as u64;
    }
    Ok(())
}
