//! Bodies of answers.

use std::task::{Context, Poll};
use std::{io, pin::Pin};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc::Receiver;

/// A body: at hand, or on its way from a thread.
#[derive(Debug)]
pub(super) enum Body {
    /// At hand.
    Whole(Bytes),
    /// On its way; so many bytes are to come.
    Stream(Receiver<io::Result<Bytes>>, u64),
}

impl Body {
    /// Makes a body that is at hand.
    pub(super) fn whole(bytes: Vec<u8>) -> Body {
        Body::Whole(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Body::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Body::Stream(_, 0) => Poll::Ready(None),
            Body::Stream(blocks, left) => match blocks.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Ok(block))) => {
                    *left = left.saturating_sub(block.len() as u64);
                    Poll::Ready(Some(Ok(Frame::data(block))))
                }
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
                // The connection is cut, so that no client takes a part for the whole.
                Poll::Ready(None) => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Body::Whole(bytes) => bytes.len() as u64,
            Body::Stream(_, left) => *left,
        })
    }
}
