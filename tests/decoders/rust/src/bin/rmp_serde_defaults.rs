//! A struct with a derived `Deserialize` whose missing fields take their defaults, so that messages
//! of older engines still decode.

use decoders::{named, serve, Fields};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadStat {
    tag: String,
    num_running_reqs: u64,
    num_waiting_reqs: u64,
    num_tokens: u64,
    max_total_num_tokens: u64,
    attn_dp_rank: Option<u64>,
    num_waiting_uncached_tokens: u64,
    num_total_tokens: u64,
    max_running_requests: u64,
    total_prefill_uncached_tokens: u64,
    total_prefill_busy_us: u64,
}

fn decode(payload: &[u8]) -> Result<Fields, String> {
    let stat: LoadStat = rmp_serde::from_slice(payload).map_err(|why| why.to_string())?;
    if stat.tag != "LoadStat" {
        return Err(format!("unexpected tag {}", stat.tag));
    }
    Ok(named([
        Some(stat.num_running_reqs),
        Some(stat.num_waiting_reqs),
        Some(stat.num_tokens),
        Some(stat.max_total_num_tokens),
        stat.attn_dp_rank,
        Some(stat.num_waiting_uncached_tokens),
        Some(stat.num_total_tokens),
        Some(stat.max_running_requests),
        Some(stat.total_prefill_uncached_tokens),
        Some(stat.total_prefill_busy_us),
    ]))
}

fn main() {
    let policies = [
        ("TrailingBytes", "accept"),
        ("OmittedRank", "accept"),
        ("TagAsBin", "accept"),
        ("CountAboveI64", "accept"),
        ("PartialTail", "partial"),
        ("NilTail", "reject"),
    ];
    serve("rust-rmp-serde-defaults", 2, &policies, decode);
}
