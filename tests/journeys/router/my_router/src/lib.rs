//! The load side of a small router: what it dials, how it reads, and what it knows.

pub mod decode;
pub mod frames;
pub mod plan;
pub mod table;
