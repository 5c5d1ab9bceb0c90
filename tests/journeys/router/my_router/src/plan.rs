//! What to dial for a worker: one endpoint for each rank.

use serde_json::Value;

/// The endpoints by rank; none where the worker publishes no load that we could read.
pub fn plan(worker_url: &str, kv_events: &Value) -> Option<Vec<String>> {
    let base = kv_events.get("load_endpoint_port_base")?.as_u64()?;
    if kv_events.get("load_topic")?.as_str()? != "load" || !(1..=65535).contains(&base) {
        return None;
    }
    let ranks = kv_events.get("dp_size")?.as_u64()?;
    let host = host(worker_url)?;
    // A rank past the last port cannot be dialled, and keeps its worker unknown.
    let ports = (base..=65535).take(usize::try_from(ranks).ok()?);
    Some(ports.map(|port| format!("tcp://{host}:{port}")).collect())
}

/// The host of a URL such as `http://10.0.0.5:30000`, IPv6 in brackets.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('@') {
        return None;
    }
    let (host, port) = if authority.starts_with('[') {
        let end = authority.find(']')? + 1;
        let address: std::net::Ipv6Addr = authority[1..end - 1].parse().ok()?;
        if address.is_unspecified() {
            return None;
        }
        (&authority[..end], authority[end..].strip_prefix(':'))
    } else {
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        (host, Some(port))
    };
    let port_is_fine = port.map_or(true, |port| port.is_empty() || port.parse::<u16>().is_ok());
    let is_wildcard = matches!(host, "" | "*" | "0.0.0.0");
    (port_is_fine && !is_wildcard).then(|| host.to_owned())
}
