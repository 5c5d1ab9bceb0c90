//! That this router keeps the load contract.

use std::time::{Duration, Instant};

use loadwire_check::conformance::{self, Load, Reading, UrlCredentials};
use loadwire_check::{Choice, Policy};
use my_router::{decode, frames, plan, table};

fn reading(load: decode::Load) -> Reading {
    let reading = Reading::new()
        .num_running_reqs(load.running)
        .num_waiting_reqs(load.waiting)
        .num_tokens(load.tokens)
        .max_total_num_tokens(load.capacity)
        .attn_dp_rank(load.rank);
    match load.tail {
        None => reading,
        Some([uncached, total, most, prefilled, busy]) => reading
            .num_waiting_uncached_tokens(uncached)
            .num_total_tokens(total)
            .max_running_requests(most)
            .total_prefill_uncached_tokens(prefilled)
            .total_prefill_busy_us(busy),
    }
}

#[test]
fn payloads() {
    conformance::payloads()
        .policy(Policy::TrailingBytes, Choice::Reject)
        .policy(Policy::OmittedRank, Choice::Reject)
        .policy(Policy::TagAsBin, Choice::Reject)
        .policy(Policy::CountAboveI64, Choice::Accept)
        .policy(Policy::PartialTail, Choice::Older)
        .policy(Policy::NilTail, Choice::Reject)
        .run(|bytes| decode::decode(bytes).map(reading))
        .assert_conformant();
}

#[test]
fn messages() {
    conformance::frames()
        .policy(Policy::TrailingBytes, Choice::Reject)
        .policy(Policy::PartialTail, Choice::Older)
        .run(|message| {
            frames::parse(message).map(|message| reading(message.load).sequence(message.sequence))
        })
        .assert_conformant();
}

#[test]
fn plans() {
    conformance::plans()
        .url_credentials(UrlCredentials::Refuse)
        .run(|asked| {
            let kv_events = serde_json::from_str(asked.json).expect("JSON");
            plan::plan(asked.worker_url, &kv_events)
        })
        .assert_conformant();
}

struct Table {
    table: table::Table,
    zero: Instant,
}

impl conformance::Table for Table {
    type Error = decode::Error;

    fn advertise(&mut self, worker: &str, base: u16, dp_size: u32) {
        self.table.advertise(worker, base, dp_size);
    }

    fn withdraw(&mut self, worker: &str) {
        self.table.advertise(worker, 0, 0);
    }

    fn remove(&mut self, worker: &str) {
        self.table.remove(worker);
    }

    fn receive(
        &mut self,
        worker: &str,
        rank: u32,
        frames: &[&[u8]],
        now: Duration,
    ) -> Result<(), decode::Error> {
        self.table.receive(worker, rank, frames, self.zero + now)
    }

    fn view(&mut self, worker: &str, now: Duration) -> Option<Load> {
        let total = self.table.load(worker, self.zero + now)?;
        let first = [total.running, total.waiting, total.tokens, total.capacity];
        Some(Load::from_counts(first.into_iter().chain(total.tail.into_iter().flatten())))
    }
}

#[test]
fn readings() {
    conformance::readings()
        .saturating_sums()
        .run(|window| Table { table: table::Table::new(window), zero: Instant::now() })
        .assert_conformant();
}
