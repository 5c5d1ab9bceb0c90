//! A tuple struct with a derived `Deserialize`, as one writes it for the six elements of the day.

use decoders::{named, serve, Fields};
use serde::Deserialize;

#[derive(Deserialize)]
struct LoadStat(String, u64, u64, u64, u64, Option<u64>);

fn decode(payload: &[u8]) -> Result<Fields, String> {
    let stat: LoadStat = rmp_serde::from_slice(payload).map_err(|why| why.to_string())?;
    if stat.0 != "LoadStat" {
        return Err(format!("unexpected tag {}", stat.0));
    }
    Ok(named([Some(stat.1), Some(stat.2), Some(stat.3), Some(stat.4), stat.5]))
}

fn main() {
    let policies = [
        ("TrailingBytes", "accept"),
        ("OmittedRank", "reject"),
        ("TagAsBin", "accept"),
        ("CountAboveI64", "accept"),
        ("PartialTail", "older"),
        ("NilTail", "reject"),
    ];
    serve("rust-rmp-serde-tuple", 1, &policies, decode);
}
