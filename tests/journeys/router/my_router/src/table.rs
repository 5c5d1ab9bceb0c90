//! What is known of each worker's load, and when nothing is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::decode::{Error, Load};
use crate::frames::{parse, Message};

pub struct Table {
    window: Duration,
    workers: HashMap<String, Vec<Slot>>,
}

/// The socket of one rank.
struct Slot {
    port: u32,
    newest: Option<(Instant, Message)>,
}

/// The sums over a worker's ranks.
#[derive(Debug, Default, PartialEq)]
pub struct Total {
    pub running: u64,
    pub waiting: u64,
    pub tokens: u64,
    pub capacity: u64,
    pub tail: Option<[u64; 5]>,
}

impl Table {
    pub fn new(window: Duration) -> Self {
        Self { window, workers: HashMap::new() }
    }

    pub fn advertise(&mut self, worker: &str, base: u16, ranks: u32) {
        let mut before = self.workers.remove(worker).unwrap_or_default();
        let slots = (0..ranks).map(|rank| {
            let port = u32::from(base) + rank;
            // Another port is another socket, which has said nothing yet.
            let same = before.get_mut(rank as usize).filter(|slot| slot.port == port);
            Slot { port, newest: same.and_then(|slot| slot.newest.take()) }
        });
        let slots = slots.collect();
        self.workers.insert(worker.to_owned(), slots);
    }

    pub fn remove(&mut self, worker: &str) {
        self.workers.remove(worker);
    }

    /// One message from the socket of a rank. An error ends the receive loop.
    pub fn receive(
        &mut self,
        worker: &str,
        rank: u32,
        frames: &[&[u8]],
        now: Instant,
    ) -> Result<(), Error> {
        let Ok(message) = parse(frames) else {
            return Ok(());
        };
        let slots = self.workers.get_mut(worker);
        if let Some(slot) = slots.and_then(|slots| slots.get_mut(rank as usize)) {
            slot.newest = Some((now, message));
        }
        Ok(())
    }

    /// The load of a worker, or none where the router has to count for itself.
    pub fn load(&self, worker: &str, now: Instant) -> Option<Total> {
        let slots = self.workers.get(worker).filter(|slots| !slots.is_empty())?;
        let mut total = Total { tail: Some([0; 5]), ..Total::default() };
        for slot in slots {
            let (at, message) = slot.newest.as_ref()?;
            if now.duration_since(*at) > self.window {
                return None;
            }
            total.add(&message.load);
        }
        Some(total)
    }
}

impl Total {
    fn add(&mut self, load: &Load) {
        self.running = self.running.saturating_add(load.running);
        self.waiting = self.waiting.saturating_add(load.waiting);
        self.tokens = self.tokens.saturating_add(load.tokens);
        self.capacity = self.capacity.saturating_add(load.capacity);
        // What one rank does not say has no sum.
        self.tail = self.tail.zip(load.tail).map(|(mut sums, counts)| {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
            sums
        });
    }
}
