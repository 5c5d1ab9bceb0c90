//! loadwire-check
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
#[allow(unsafe_code)]
pub mod ffi;
pub mod table;

pub use contract::{Choice, Hazard, Policy};
pub use frames::{build_frames, parse_frames, parse_frames_as, Frames, Message, MAX_SEQUENCE, TOPIC};
pub use payload::{decode, decode_as, encode, Encoded, MAX_ENCODED, TAG};
pub use refusal::{Reason, Refusal};
pub use stat::{LoadStat, Rev2, Revision};
