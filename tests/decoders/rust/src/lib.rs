//! The adapter: a decode function on one side, the testee protocol on the other.

use std::io::{self, BufRead, Write};

use serde_json::{json, Map, Value};

/// What a decoder read: field name to value, as the protocol spells them.
pub type Fields = Map<String, Value>;

/// The names of the counts, in wire order.
pub const NAMES: [&str; 10] = [
    "num_running_reqs",
    "num_waiting_reqs",
    "num_tokens",
    "max_total_num_tokens",
    "attn_dp_rank",
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "max_running_requests",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
];

/// Names the values that a decoder read, in wire order; what it did not read is left out.
pub fn named<T: ToString>(values: impl IntoIterator<Item = Option<T>>) -> Fields {
    NAMES
        .iter()
        .zip(values)
        .map(|(name, value)| {
            (name.to_string(), value.map_or(Value::Null, |v| v.to_string().into()))
        })
        .collect()
}

/// Greets, then answers each case by what `decode` makes of it.
pub fn serve(
    implementation: &str,
    revision: u32,
    policies: &[(&str, &str)],
    decode: impl Fn(&[u8]) -> Result<Fields, String>,
) {
    let policies: Map<_, _> =
        policies.iter().map(|(name, answer)| (name.to_string(), Value::from(*answer))).collect();
    say(&json!({
        "loadwire": 1,
        "implementation": implementation,
        "version": env!("CARGO_PKG_VERSION"),
        "revision": revision,
        "policies": policies,
        "kinds": ["payload"],
    }));
    for line in io::stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line.expect("stdin")).expect("a case");
        let id = &case["id"];
        let payload = unhex(case["hex"].as_str().expect("hex"));
        say(&match decode(&payload) {
            Ok(fields) => json!({"id": id, "accept": {"value": fields}}),
            Err(why) => json!({"id": id, "reject": {"text": why}}),
        });
    }
}

fn say(message: &Value) {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}").and_then(|()| output.flush()).expect("stdout");
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}
