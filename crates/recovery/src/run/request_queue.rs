//! Orders to agents go out, and their answers come back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;

use crate::coordinator::AgentRequest;
use kiln_net::proto::{Frame, Priority};
use kiln_net::{Peer, PendingRequest, Result};

type Answered = (AgentRequest, Result<Frame>);

/// Orders go out here, and answers come back.
pub(super) struct RequestQueue {
    peers: Vec<Arc<Peer>>,
    tell: Sender<Answered>,
    answers: Receiver<Answered>,
    priority: Priority,
}

impl RequestQueue {
    /// For orders to these agents, by rank.
    pub fn new(peers: Vec<Arc<Peer>>, priority: Priority) -> RequestQueue {
        let (tell, answers) = channel();
        RequestQueue { peers, tell, answers, priority }
    }

    pub fn answers(&self) -> &Receiver<Answered> {
        &self.answers
    }

    pub fn send(&self, requests: impl IntoIterator<Item = AgentRequest>) {
        for request in requests {
            let tell = self.tell.clone();
            let (message, payload) = (request.message.clone(), request.payload.clone());
            let (patience, rank) = (request.patience, request.rank);
            let request = AgentRequest { payload: Bytes::new(), ..request };
            // The receiver lives as long as this.
            let token = Box::new(move |result| drop(tell.send((request, result))));
            let priority = self.priority;
            self.peers[rank].ask(PendingRequest { message, payload, priority, patience, token });
        }
    }
}
