//! Operations of a NameNode alone: each a request or two.

use crate::random;
use kiln_store::{Operation, Result, StoreError};
use serde::Deserialize;

use crate::hdfs::client::{Ask, Client};
use crate::hdfs::reply::Reply;

/// A file as the NameNode knows it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(default)]
    pub path_suffix: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub length: u64,
    /// In ms since 1970, by the NameNode's clock or as somebody set it.
    pub modification_time: u64,
    /// No other file of this HDFS ever had or has it.
    pub file_id: u64,
}

impl Status {
    pub(crate) fn is_file(&self) -> bool {
        self.kind == "FILE"
    }
}

/// The path by which a file is found as long as it lives, whatever it is called.
pub(crate) fn by_id(file_id: u64) -> String {
    format!("/.reserved/.inodes/{file_id}")
}

/// A name that nobody has, of a file that is soon part of another one.
pub(crate) fn passing_name() -> String {
    format!(".kiln-{:016x}.part", random())
}

#[derive(Deserialize)]
struct Found {
    #[serde(rename = "FileStatus")]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listing {
    directory_listing: Page,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    partial_listing: Part,
    remaining_entries: u64,
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "FileStatuses")]
    statuses: Statuses,
}

#[derive(Deserialize)]
struct Statuses {
    #[serde(rename = "FileStatus")]
    list: Vec<Status>,
}

fn absent(reply: &Reply) -> bool {
    reply.is_absent()
}

impl Client {
    fn parsed<'a, T: Deserialize<'a>>(
        &self,
        op: Operation,
        name: &str,
        reply: &'a Reply,
    ) -> Result<T> {
        serde_json::from_str(&reply.text).map_err(|error| {
            self.fail(op, name, &format!("the NameNode's answer cannot be read: {error}"))
        })
    }

    /// Returns the status of a file by its path.
    pub(crate) fn status(&self, op: Operation, name: &str, path: &str) -> Result<Status> {
        let action = "GETFILESTATUS";
        let ask = Ask { op, name, method: "GET", path, action, query: &[] };
        let reply = self.ask(&ask, |_| false)?;
        Ok(self.parsed::<Found>(op, name, &reply)?.status)
    }

    /// A page of the folder's listing: what comes behind `after`, and whether there is more.
    pub(crate) fn page(&self, after: &str) -> Result<(Vec<Status>, bool), StoreError> {
        let (op, action, path) = (Operation::List, "LISTSTATUS_BATCH", &self.place.path);
        let query = [("startAfter", after)];
        let query = if after.is_empty() { &[][..] } else { &query };
        let reply =
            self.ask(&Ask { op, name: "", method: "GET", path, action, query }, |_| false)?;
        let page = self.parsed::<Listing>(op, "", &reply)?.directory_listing;
        Ok((page.partial_listing.statuses.list, page.remaining_entries > 0))
    }

    /// Removes a file; one that is absent is success.
    pub(crate) fn delete(&self, name: &str, path: &str) -> Result<()> {
        let (op, action) = (Operation::Remove, "DELETE");
        let ask = Ask { op, name, method: "DELETE", path, action, query: &[] };
        self.ask(&ask, absent).map(drop)
    }

    /// Gives a file another name, over what has it or only where nothing has.
    pub(crate) fn rename(&self, from: &str, to: &str, over: bool) -> Result<()> {
        let (op, action, path) = (Operation::Rename, "RENAME", self.path(from));
        let destination = self.path(to);
        let how = if over { "OVERWRITE" } else { "NONE" };
        let query = [("destination", &destination[..]), ("renameoptions", how)];
        let ask = Ask { op, name: from, method: "PUT", path: &path, action, query: &query };
        let reply = self.ask(&ask, |reply| reply.tried && reply.is_absent())?;
        match reply.is_success() {
            true => Ok(()),
            // An earlier try was not answered, and nobody else renames this file.
            false => self.status(op, from, &destination).map(drop),
        }
    }

    /// Sets a file's time of modification, in ms since 1970; whether the file was there.
    pub(crate) fn touch(&self, name: &str, path: &str, time: u64) -> Result<bool> {
        let (op, action, time) = (Operation::Lock, "SETTIMES", time.to_string());
        let query = [("modificationtime", &time[..])];
        let ask = Ask { op, name, method: "PUT", path, action, query: &query };
        Ok(self.ask(&ask, absent)?.is_success())
    }

    /// Appends a whole file to another one, atomically; it is gone afterwards.
    pub(crate) fn concat(&self, name: &str, more: &str) -> Result<()> {
        let (op, action, path) = (Operation::Write, "CONCAT", self.path(name));
        let sources = self.path(more);
        let query = [("sources", &sources[..])];
        let ask = Ask { op, name, method: "POST", path: &path, action, query: &query };
        let reply = self.ask(&ask, |reply| reply.tried && reply.is_absent())?;
        match reply.is_success() {
            true => Ok(()),
            // An earlier try was not answered; where the source is gone it did its work.
            false => self.status(op, name, &path).map(drop),
        }
    }

    /// Cuts a file; `false`: it is being done.
    pub(crate) fn truncate(&self, name: &str, length: u64) -> Result<bool> {
        let (op, action, path) = (Operation::Cut, "TRUNCATE", self.path(name));
        let length = length.to_string();
        let query = [("newlength", &length[..])];
        let ask = Ask { op, name, method: "POST", path: &path, action, query: &query };
        Ok(self.ask(&ask, |_| false)?.text.contains("true"))
    }
}
