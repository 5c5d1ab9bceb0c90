//! `decode` against an rmp-serde visitor that reads the same fields.
//!
//! First the ratio, measured in turns so that a busy machine hits both alike; then each by itself,
//! with what it allocates. `cargo bench --bench decode`.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use loadwire_check::{decode, LoadStat, Rev2};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// A revision-1 and a revision-2 payload, with counts of every width.
const PAYLOADS: [(&str, &[u8]); 2] = [
    ("rev1", b"\x96\xa8LoadStat\x11\xcc\x82\xcd\x9c\x40\xce\x00\x0f\x42\x40\x05"),
    (
        "rev2",
        b"\x9b\xa8LoadStat\x11\xcc\x82\xcd\x9c\x40\xce\x00\x0f\x42\x40\x05\xcd\x02\x00\
          \xce\x00\x01\x11\x70\x40\xcf\x00\x00\x00\x01\x2a\x05\xf2\x00\xce\x00\x1e\x84\x80",
    ),
];

/// What a router writes with serde to get the same: the tag checked, the revision by the elements
/// that are there, an unknown tail ignored.
struct Visited(LoadStat);

impl<'de> Deserialize<'de> for Visited {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = Visited;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a load reading")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Visited, A::Error> {
                fn needed<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(
                    array: &mut A,
                ) -> Result<T, A::Error> {
                    array.next_element()?.ok_or_else(|| A::Error::custom("too short"))
                }
                if needed::<&str, A>(&mut array)? != "LoadStat" {
                    return Err(A::Error::custom("another tag"));
                }
                let elements = array.size_hint().unwrap_or(0);
                let mut stat = LoadStat {
                    num_running_reqs: needed(&mut array)?,
                    num_waiting_reqs: needed(&mut array)?,
                    num_tokens: needed(&mut array)?,
                    max_total_num_tokens: needed(&mut array)?,
                    attn_dp_rank: needed(&mut array)?,
                    rev2: None,
                };
                if elements >= 10 {
                    stat.rev2 = Some(Rev2 {
                        num_waiting_uncached_tokens: needed(&mut array)?,
                        num_total_tokens: needed(&mut array)?,
                        max_running_requests: needed(&mut array)?,
                        total_prefill_uncached_tokens: needed(&mut array)?,
                        total_prefill_busy_us: needed(&mut array)?,
                    });
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Visited(stat))
            }
        }

        deserializer.deserialize_seq(Reading)
    }
}

fn visit(payload: &[u8]) -> LoadStat {
    rmp_serde::from_slice::<Visited>(payload).expect("a payload").0
}

fn own(payload: &[u8]) -> LoadStat {
    decode(payload).expect("a payload")
}

fn timed(rounds: u32, payload: &[u8], read: impl Fn(&[u8]) -> LoadStat) -> Duration {
    let began = Instant::now();
    for _ in 0..rounds {
        black_box(read(black_box(payload)));
    }
    began.elapsed()
}

/// The median ratio over turns, and the nanoseconds of each.
fn ratio(payload: &[u8]) -> (f64, f64, f64) {
    const ROUNDS: u32 = 20_000;
    let mut turns: Vec<(f64, f64, f64)> = (0..101)
        .map(|_| {
            let ours = timed(ROUNDS, payload, own).as_nanos() as f64 / f64::from(ROUNDS);
            let serde = timed(ROUNDS, payload, visit).as_nanos() as f64 / f64::from(ROUNDS);
            (ours / serde, ours, serde)
        })
        .collect();
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    turns[turns.len() / 2]
}

fn main() {
    for (name, payload) in PAYLOADS {
        assert_eq!(own(payload), visit(payload), "both read the same");
        if std::env::args().any(|argument| argument == "--bench") {
            let (ratio, ours, serde) = ratio(payload);
            println!("{name}: decode {ours:.1} ns, rmp-serde {serde:.1} ns, ratio {ratio:.2}");
        }
    }
    divan::main();
}

#[divan::bench(args = PAYLOADS.map(|(name, _)| name))]
fn loadwire_decode(bencher: divan::Bencher<'_, '_>, name: &str) {
    let payload = of(name);
    bencher.bench(|| decode(black_box(payload)));
}

#[divan::bench(args = PAYLOADS.map(|(name, _)| name))]
fn rmp_serde_visitor(bencher: divan::Bencher<'_, '_>, name: &str) {
    let payload = of(name);
    bencher.bench(|| visit(black_box(payload)));
}

#[divan::bench(args = PAYLOADS.map(|(name, _)| name))]
fn loadwire_encode(bencher: divan::Bencher<'_, '_>, name: &str) {
    let stat = own(of(name));
    bencher.bench(|| loadwire_check::encode(black_box(&stat)));
}

fn of(name: &str) -> &'static [u8] {
    PAYLOADS.iter().find(|(listed, _)| *listed == name).expect("listed").1
}
