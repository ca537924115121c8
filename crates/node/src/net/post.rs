//! Orders to agents go out, and their answers come back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;

use super::dial::Peer;
use super::stage::Question;
use crate::Result;
use crate::coordinator::Order;
use crate::proto::{Frame, Priority};

type Answered = (Order, Result<Frame>);

/// Orders go out here, and answers come back.
pub(super) struct Post {
    peers: Vec<Arc<Peer>>,
    tell: Sender<Answered>,
    answers: Receiver<Answered>,
    priority: Priority,
}

impl Post {
    /// For orders to these agents, by rank.
    pub fn new(peers: Vec<Arc<Peer>>, priority: Priority) -> Post {
        let (tell, answers) = channel();
        Post { peers, tell, answers, priority }
    }

    /// Where answers arrive.
    pub fn answers(&self) -> &Receiver<Answered> {
        &self.answers
    }

    pub fn send(&self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            let tell = self.tell.clone();
            let (message, payload) = (order.message.clone(), order.payload.clone());
            let (patience, rank) = (order.patience, order.rank);
            let order = Order { payload: Bytes::new(), ..order };
            // The receiver lives as long as this.
            let answer = Box::new(move |result| drop(tell.send((order, result))));
            let priority = self.priority;
            self.peers[rank].ask(Question { message, payload, priority, patience, answer });
        }
    }
}
