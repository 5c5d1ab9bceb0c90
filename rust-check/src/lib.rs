//! Checks that a router reads SGLang's load gauge as the contract says.
//!
//! An engine publishes a small gauge, `LoadStat`, on a ZeroMQ socket: requests running and waiting,
//! tokens in use, capacity. A router picks the least loaded engine by it. The two are written in
//! different repositories and languages, and a mistake between them is silent: a field that was
//! reordered, or a missing one that is read as zero, still is a number. Zero says "idle, send
//! everything here".
//!
//! So the agreement is written down as rules (`W1`, `F2`, ...) and as vectors: bytes, with the one
//! right answer to them. This crate holds the vectors and runs them through your decoder.
//!
//! # Check your router
//!
//! Add the crate to `[dev-dependencies]`, which brings in [`rmp`] and nothing else, and hand it the
//! function that your router decodes with. The closure gets bytes and gives an `Option` or a `Result`
//! of a [`Reading`](conformance::Reading), in which you set what your decoder read:
//!
//! ```
//! use loadwire_check::conformance::{self, Reading};
//! use loadwire_check::{Choice, Policy};
//! # mod router {
//! #     pub struct Load(loadwire_check::LoadStat);
//! #     impl std::ops::Deref for Load { type Target = loadwire_check::LoadStat; fn deref(&self) -> &Self::Target { &self.0 } }
//! #     pub fn decode(bytes: &[u8]) -> Result<Load, loadwire_check::Refusal> { loadwire_check::decode(bytes).map(Load) }
//! # }
//!
//! // in a #[test]
//! let report = conformance::payloads()
//!     .policy(Policy::TrailingBytes, Choice::Reject)
//!     .policy(Policy::OmittedRank, Choice::Reject)
//!     .policy(Policy::TagAsBin, Choice::Reject)
//!     .policy(Policy::CountAboveI64, Choice::Accept)
//!     .policy(Policy::PartialTail, Choice::Older)
//!     .policy(Policy::NilTail, Choice::Reject)
//!     .run(|bytes| {
//!         router::decode(bytes).map(|load| {
//!             let reading = Reading::new()
//!                 .num_running_reqs(load.num_running_reqs)
//!                 .num_waiting_reqs(load.num_waiting_reqs)
//!                 .num_tokens(load.num_tokens)
//!                 .max_total_num_tokens(load.max_total_num_tokens)
//!                 .attn_dp_rank(load.attn_dp_rank);
//!             match &load.rev2 {
//!                 None => reading, // an older engine: missing is not zero
//!                 Some(more) => reading
//!                     .num_waiting_uncached_tokens(more.num_waiting_uncached_tokens)
//!                     .num_total_tokens(more.num_total_tokens)
//!                     .max_running_requests(more.max_running_requests)
//!                     .total_prefill_uncached_tokens(more.total_prefill_uncached_tokens)
//!                     .total_prefill_busy_us(more.total_prefill_busy_us),
//!             }
//!         })
//!     });
//! report.assert_conformant();
//! ```
//!
//! A decoder that is wrong gets a list of what it got wrong, by rule. This one takes any array for a
//! reading and a missing count for zero:
//!
//! ```
//! use loadwire_check::conformance::{self, Reading};
//!
//! let report = conformance::payloads().run(|bytes| {
//!     let count = |index: usize| bytes.get(9 + index).copied().unwrap_or(0);
//!     Some(Reading::from_fields((1..=5).map(count)))
//! });
//! assert!(!report.is_conformant());
//! assert!(report.failures().iter().any(|failure| failure.rule == "W9"));
//! assert!(report.problems()[0].contains("is not declared")); // and says what to declare
//! ```
//!
//! The contract leaves a few questions open, such as whether bytes behind the array are an error.
//! Your router answers each of them with a [`Policy`] and a [`Choice`]; one that is not declared is
//! a failure that says which to add.
//!
//! Bytes are half of it. [`conformance::frames`] checks whole messages, [`conformance::plans`] what
//! your router dials for a worker, and [`conformance::readings`] its table of readings: a missing
//! rank that is summed as zero sends everything to one worker as surely as a wrong decoder does.
//!
//! # Decode
//!
//! [`decode`] is a strict decoder of its own: the model that the vectors were agreed on with two
//! others, and small enough to use. It allocates nothing, recurses into nothing, panics on no input,
//! and says of everything it refuses what, where and by which rule.
//!
//! ```
//! let error = loadwire_check::decode(b"\x96\xa8LoadStat\x07\xc0\xcd\x04\x00\xcd\x20\x00\x02");
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     "bad-type: expected an unsigned integer, got nil (c0), at byte 11, element 2 \
//!      (num_waiting_reqs) (rule W5)"
//! );
//! ```
//!
//! [`parse_frames`] does the same for a whole message, [`encode`] and [`build_frames`] make what an
//! engine sends. [`discovery::plan`] says what to dial for a worker.
//!
//! # Sockets
//!
//! With the feature `live`, `live::Listener` hears an engine as a router does and `live::Publisher` is
//! heard as an engine is, over the pure-Rust `zeromq` crate; the program has them as `listen` and
//! `publish`.
//!
//! # Other languages
//!
//! The crate is a `cdylib` as well, with the C ABI of `include/loadwire.h` ([`ffi`]). The feature
//! `cli` adds the program `loadwire-check`, which checks a folder of vectors and speaks the testee
//! protocol on its standard input.
//!
//! # Versions
//!
//! The library builds with Rust 1.70; the features need a newer one. A new revision of the contract is a new minor version of this
//! crate: it appends a field to [`Rev2`], which a struct literal notices.
#![deny(missing_docs, unsafe_code, unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod contract;
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod frames;
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod payload;
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod refusal;
mod stat;
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tokens;
#[rustfmt::skip]
mod vectors;

pub mod conformance;
#[deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
pub mod discovery;
#[allow(unsafe_code)]
pub mod ffi;
#[cfg(feature = "live")]
pub mod live;
pub mod table;

pub use contract::{Choice, Hazard, Policy};
pub use frames::{
    build_frames, parse_frames, parse_frames_as, Frames, Message, MAX_SEQUENCE, TOPIC,
};
pub use payload::{decode, decode_as, encode, Encoded, MAX_ENCODED, TAG};
pub use refusal::{Reason, Refusal};
pub use stat::{LoadStat, Rev2, Revision};
