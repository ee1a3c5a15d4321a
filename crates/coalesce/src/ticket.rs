//! A row that is on its way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::batch::Answer;
use crate::error::WriteError;

/// Tells what became of a row; await it. Dropping it does not take the row back.
#[derive(Debug)]
#[must_use = "the row may be refused, and only the ticket tells"]
pub struct Ticket(pub(crate) oneshot::Receiver<Answer>);

impl Future for Ticket {
    type Output = Result<(), WriteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| {
                // The runtime that the connections lived in is gone.
                Err(WriteError::Unknown("the coalescer ended before it was answered".into()))
            })
        })
    }
}
