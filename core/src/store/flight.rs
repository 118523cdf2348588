//! Round trips under way on one connection.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::batch::Batch;
use super::connection::Link;
use super::job::Lost;

/// Two, so that Redis works on one while the answers of the other are handed out and those who
/// had them call again.
const MAX_FLIGHTS: usize = 2;

type Replies = Result<Vec<Value>, String>;

struct Flight {
    batch: Batch,
    /// What is on its way to Redis and back.
    replies: Pin<Box<dyn Future<Output = Replies> + Send>>,
}

/// Batches that were sent and have no reply yet, in the order in which they were sent; Redis
/// answers in the same order.
#[derive(Default)]
pub(crate) struct Flights {
    flights: Vec<Flight>,
}

impl Flights {
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    pub(crate) fn have_room(&self) -> bool {
        self.flights.len() < MAX_FLIGHTS
    }

    /// How many calls are under way.
    pub(crate) fn calls(&self) -> usize {
        self.flights.iter().map(|flight| flight.batch.calls()).sum()
    }

    /// Sends these commands of a batch once somebody waits in [`Flights::landed`].
    pub(crate) fn start(&mut self, batch: Batch, commands: Pipeline, link: &Link) {
        let mut link = link.clone();
        let replies = Box::pin(async move { link.send(&commands).await });
        self.flights.push(Flight { batch, replies });
    }

    /// Waits for a batch that lands; for ever where none is under way. Who stops to wait loses
    /// nothing.
    pub(crate) async fn landed(&mut self) -> (Batch, Replies) {
        poll_fn(|context| {
            let landed = self.flights.iter_mut().enumerate().find_map(|(place, flight)| {
                match flight.replies.as_mut().poll(context) {
                    Poll::Ready(replies) => Some((place, replies)),
                    Poll::Pending => None,
                }
            });
            match landed {
                Some((place, replies)) => Poll::Ready((self.flights.remove(place).batch, replies)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The earliest deadline among calls that have no answer yet.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.flights.iter().filter_map(|flight| flight.batch.first_deadline()).min()
    }

    /// Answers as lost the calls whose deadline has come.
    pub(crate) fn fail_until(&mut self, now: Instant, why: &Lost) {
        self.flights.iter_mut().for_each(|flight| flight.batch.fail_until(now, why));
    }

    /// Answers all calls as lost, and gives up their round trips.
    pub(crate) fn fail_all(&mut self, why: &Lost) {
        self.flights.drain(..).for_each(|mut flight| flight.batch.fail_all(why));
    }
}
