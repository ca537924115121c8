//! Places as users write them: `hdfs://namenode:9870/path?datanode=host3&user=kiln`.

use crate::{is_plain_path, options, patience};
use kiln_store::{Location, Result};
use std::{path::PathBuf, time::Duration};

/// Default port of HTTP of a NameNode.
const NAMENODE_PORT: u16 = 9870;
/// Default port of HTTP of a DataNode.
const DATANODE_PORT: u16 = 9864;
/// Longest path of a folder in bytes.
const MAX_PATH: usize = 4000;
/// Patience with a silent server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server's host and port of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub host: String,
    pub port: u16,
}

impl Server {
    /// As URLs have it.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn of(text: &str, port: u16) -> Option<Server> {
        let (host, port) = match text.rsplit_once(':') {
            None => (text, port),
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let good = !host.is_empty() && host.len() <= 253 && host.bytes().all(plain);
        good.then(|| Server { host: host.to_owned(), port })
    }
}

/// A place, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// As it was written.
    pub text: String,
    pub namenode: Server,
    /// Another NameNode of the same HDFS, of which one is active at a time.
    pub standby: Option<Server>,
    /// The folder, with a slash before and none behind it; of the root empty.
    pub path: String,
    /// The one DataNode that the files are to be on.
    pub datanode: Option<Server>,
    /// Folder of that DataNode's blocks, if it is this machine.
    pub blocks: Option<PathBuf>,
    /// The user that asks.
    pub user: Option<String>,
    /// Patience with a silent server before a request is tried again.
    pub patience: Duration,
}

impl Place {
    pub(crate) fn of(location: &Location<'_>) -> Result<Place> {
        let text = location.rest.to_str().ok_or_else(|| location.bad("it is not UTF-8"))?;
        let (rest, query) = text.split_once('?').unwrap_or((text, ""));
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let namenode = Server::of(server, NAMENODE_PORT).ok_or_else(|| {
            location.bad(
                "it names no NameNode; write hdfs://namenode/path, or hdfs://namenode:port/path \
                 with the NameNode's port of HTTP, 9870 unless set otherwise",
            )
        })?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.len() > MAX_PATH || !is_plain_path(path, b"=+") {
            return Err(location.bad(
                "it names no folder below the root: a path has characters of a-z, A-Z, 0-9, '-', \
                 '_', '.', '=', '+', with single '/' between its parts",
            ));
        }
        let mut place = Place {
            text: location.text.display().to_string(),
            namenode,
            standby: None,
            path: format!("/{path}"),
            datanode: None,
            blocks: None,
            user: None,
            patience: PATIENCE,
        };
        options(location, query, |name, value| place.set(name, value))?;
        if place.blocks.is_some() && place.datanode.is_none() {
            return Err(location.bad("blocks= is of a DataNode: give datanode= too"));
        }
        Ok(place)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let no_server = || format!("{name}={value}: give host or host:port");
        match name {
            "datanode" => {
                self.datanode = Some(Server::of(value, DATANODE_PORT).ok_or_else(no_server)?);
            }
            "standby" => {
                self.standby = Some(Server::of(value, NAMENODE_PORT).ok_or_else(no_server)?);
            }
            "blocks" => self.blocks = Some(value.into()),
            "user" => {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if !value.bytes().all(plain) {
                    return Err(format!("user={value}: a name has a-z, 0-9, '-', '_', '.'"));
                }
                self.user = Some(value.to_owned());
            }
            "timeout" => self.patience = patience(value)?,
            _ => {
                let known = "datanode, standby, blocks, user, timeout";
                return Err(format!("{name:?} is no option of hdfs:// places; known: {known}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place> {
        Place::of(&Location::of(text.as_ref()))
    }

    #[test]
    fn places_are_taken_apart() {
        let found = place("hdfs://nn/a/b?datanode=d3:1234&user=me&timeout=5&blocks=/x").unwrap();
        assert_eq!(found.namenode.authority(), "nn:9870");
        assert_eq!((&found.path[..], found.user.as_deref()), ("/a/b", Some("me")));
        assert_eq!(found.datanode.unwrap().authority(), "d3:1234");
        assert_eq!(found.patience, Duration::from_secs(5));
        let found = place("hdfs://nn.example.org:50070/a/?datanode=d&standby=nn2").unwrap();
        assert_eq!(found.standby.unwrap().authority(), "nn2:9870");
        assert_eq!(found.namenode.authority(), "nn.example.org:50070");
        assert_eq!(found.datanode.unwrap().authority(), "d:9864");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for wrong in [
            "hdfs://", "hdfs:///x", "hdfs://nn", "hdfs://nn/", "hdfs://nn:0/x", "hdfs://nn:port/x",
            "hdfs://n n/x", "hdfs://nn/a//b", "hdfs://nn/a/../b", "hdfs://nn/a b",
            "hdfs://nn/x?datanode", "hdfs://nn/x?datanode=a:b:c", "hdfs://nn/x?user=a/b",
            "hdfs://nn/x?standby=a:b:c", "hdfs://nn/x?timeout=0", "hdfs://nn/x?blocks=/y",
            "hdfs://nn/x?pasword=1",
        ] {
            assert!(place(wrong).unwrap_err().is_usage(), "{wrong}");
        }
    }
}
