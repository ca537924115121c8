//! Answers of servers, and the meaning of refusals for users.

use crate::io_error;
use kiln_store::{Operation, StoreError};
use std::io;

/// Faults that pass: the server has too much to do.
const BUSY: [&str; 3] = ["RetriableException", "StandbyException", "ServerTooBusyException"];
/// Faults that pass, too: a DataNode could not ask the NameNode.
const CUT_OFF: [&str; 5] = [
    "ConnectException", "SocketException", "SocketTimeoutException", "NoRouteToHostException",
    "EOFException",
];

/// An answer, without what was read into the caller's buffer.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub status: u16,
    /// Target of a redirect.
    pub location: Option<String>,
    /// The body, where it is text.
    pub text: String,
    /// An earlier try of the same request may have done its work.
    pub tried: bool,
}

impl Reply {
    /// Done, or sent on to a DataNode.
    pub(crate) fn is_success(&self) -> bool {
        (200..400).contains(&self.status)
    }

    /// Returns the server's code of the error; empty where it does not say.
    pub(crate) fn exception(&self) -> String {
        self.said("exception")
    }

    fn said(&self, field: &str) -> String {
        let found: serde_json::Value = serde_json::from_str(&self.text).unwrap_or_default();
        let text = found["RemoteException"][field].as_str().unwrap_or("");
        // A message may go on with where it is thrown.
        text.lines().next().unwrap_or("").chars().take(300).collect()
    }

    /// Returns whether another try may succeed: the server is overloaded, or just starts.
    pub(crate) fn is_passing(&self) -> bool {
        let exception = self.exception();
        match self.status {
            408 | 429 | 502 | 503 | 504 => true,
            // A fault of its own, not one of those that it names.
            500 => exception.is_empty(),
            _ => {
                BUSY.iter().chain(&CUT_OFF).any(|passing| *passing == exception)
                    || self.knows_no_datanode()
            }
        }
    }

    /// The NameNode is not the active one, and did nothing.
    pub(crate) fn is_standby(&self) -> bool {
        self.status == 403 && self.exception() == "StandbyException"
    }

    /// A NameNode that has just started has not heard of its DataNodes yet.
    fn knows_no_datanode(&self) -> bool {
        self.exception() == "IOException" && self.text.contains("Failed to find datanode")
    }

    /// There is no such file.
    pub(crate) fn is_absent(&self) -> bool {
        self.status == 404 && self.exception() == "FileNotFoundException"
    }

    /// There is one of that name already.
    pub(crate) fn is_there(&self) -> bool {
        let known = ["FileAlreadyExistsException", "AlreadyBeingCreatedException"];
        known.contains(&&self.exception()[..])
    }

    /// The error that a refusal is, for a file (or with an empty name the place).
    pub(crate) fn error(&self, op: Operation, place: &str, name: &str) -> StoreError {
        let (kind, why) = self.why();
        io_error(op, place, name, io::Error::new(kind, why))
    }

    fn why(&self) -> (io::ErrorKind, String) {
        use io::ErrorKind::{
            AlreadyExists, NotFound, Other, PermissionDenied, ResourceBusy, StorageFull,
        };
        let (exception, said) = (self.exception(), self.said("message"));
        if self.is_there() {
            return (AlreadyExists, format!("another one is there ({said})"));
        }
        if self.knows_no_datanode() {
            let why =
                "the NameNode knows of no DataNode that could do it; it may be starting again";
            return (ResourceBusy, format!("{why} ({said})"));
        }
        match (self.status, &exception[..]) {
            (_, "SafeModeException") => (
                Other,
                "the NameNode is in safe mode, in which nothing is written; wait until it leaves \
                 it, or look with: hdfs dfsadmin -safemode get"
                    .into(),
            ),
            (_, "StandbyException") => {
                (Other, "this NameNode is on standby; give the other one as ?standby=".into())
            }
            (_, "AccessControlException" | "SecurityException") | (401, _) => (
                PermissionDenied,
                format!(
                    "HDFS does not permit it ({said}); set HADOOP_USER_NAME or ?user= to one that \
                     may, or change the folder's owner (clusters with Kerberos are not supported)"
                ),
            ),
            (404, "FileNotFoundException") => (NotFound, format!("there is none ({said})")),
            (_, "DSQuotaExceededException" | "NSQuotaExceededException") => {
                (StorageFull, format!("the quota is used up ({said})"))
            }
            (404, _) if self.text.contains("Hadoop IPC port") => (
                Other,
                "that is the port of Hadoop's RPC; give the one of HTTP, 9870 for NameNodes and \
                 9864 for DataNodes unless set otherwise"
                    .into(),
            ),
            (_, cut) if CUT_OFF.contains(&cut) => (
                ResourceBusy,
                format!("a DataNode cannot ask the NameNode, which may be starting again ({said})"),
            ),
            (404, "") => (
                Other,
                "no WebHDFS answers there; look at host and port, and at dfs.webhdfs.enabled"
                    .into(),
            ),
            _ => {
                let said = if said.is_empty() { String::new() } else { format!(": {said}") };
                (Other, format!("the server answers {} {exception}{said}", self.status))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, exception: &str) -> Reply {
        let text = format!(
            "{{\"RemoteException\":{{\"exception\":\"{exception}\",\"message\":\"why\\nat x\"}}}}"
        );
        Reply { status, text, ..Reply::default() }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let error =
            |status, exception| reply(status, exception).error(Operation::Open, "hdfs://n/p", "a");
        assert!(error(404, "FileNotFoundException").is_not_found());
        assert!(error(403, "FileAlreadyExistsException").is_exists());
        assert!(error(403, "SafeModeException").to_string().contains("safe mode"));
        let denied = error(403, "AccessControlException").to_string();
        assert!(denied.contains("HADOOP_USER_NAME") && denied.contains("(why)"), "{denied}");
        assert!(error(403, "DSQuotaExceededException").is_full());
        let said = "Failed to find datanode, suggest to check cluster health.";
        let text = reply(403, "IOException").text.replace("why", said);
        let none = Reply { status: 403, text, ..Reply::default() };
        let error_of_none = none.error(Operation::Create, "hdfs://n/p", "a").to_string();
        assert!(none.is_passing() && error_of_none.contains("knows of no DataNode"));
        let cut = error(403, "EOFException");
        assert!(cut.is_retryable() && cut.to_string().contains("starting again"), "{cut}");
        let text = "It looks like you are making an HTTP request to a Hadoop IPC port.".to_owned();
        let rpc = Reply { status: 404, text, ..Reply::default() };
        assert!(rpc.error(Operation::Open, "p", "").to_string().contains("9870"));
        assert!(!rpc.error(Operation::Open, "p", "").is_not_found());
        assert!(reply(503, "").is_passing() && reply(403, "RetriableException").is_passing());
        assert!(reply(403, "ConnectException").is_passing());
        assert!(!reply(500, "X").is_passing() && !reply(403, "SafeModeException").is_passing());
    }
}
