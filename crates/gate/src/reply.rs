//! Answers to requests.

use std::io::{self, Write};

use crate::error::{GateError, Result};
use crate::xml::Writer;

/// An answer: status, headers, and a body that is at hand.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Status of HTTP.
    pub status: u16,
    /// Headers, by lower-case name.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// Makes an answer without a body.
    pub(crate) fn new(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Makes an answer that is a document.
    pub(crate) fn xml(document: Writer) -> Reply {
        let body = document.finish();
        Reply { body, ..Reply::new(200) }.with("content-type", "application/xml")
    }

    /// Makes the answer of an error.
    pub(crate) fn error(error: &GateError, path: &str, id: &str) -> Reply {
        let mut document = Writer::plain("Error");
        // A message that S3 has for the case itself says more than what it has for the code.
        let sentence = error.code.sentence().filter(|_| !error.is_sentence());
        document.show("Code", error.code).text("Message", sentence.unwrap_or(&error.message));
        if sentence.is_some() {
            document.text("Reason", &error.message);
        }
        error.details.iter().for_each(|(name, text)| _ = document.text(name, text));
        document.text("Resource", path).text("RequestId", id);
        let mut reply = Reply { status: error.code.status(), ..Reply::xml(document) };
        if let Some(id) = &error.marker {
            reply = reply.with("x-amz-delete-marker", "true").with("x-amz-version-id", id);
        }
        reply
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Reply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// The client's side of a request that is being answered.
pub(crate) trait Client {
    /// Sends the head of an answer whose body follows; returns where it goes.
    fn begin(&mut self, head: Reply, length: u64) -> io::Result<Box<dyn Write + '_>>;
}

/// The end of a call: an answer, or that it was sent already.
pub(crate) enum Answer {
    /// To be sent.
    Reply(Reply),
    /// Sent by [`Client::begin`]; an error if its body could not be sent to its end.
    Sent(Result<()>),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer::Reply(reply)
    }
}
