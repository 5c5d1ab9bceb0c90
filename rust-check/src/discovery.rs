//! What a router dials for a worker: its URL and its `kv_events` block in, one endpoint per rank out.
//!
//! An engine's `/server_info` has a `kv_events` object. With load publishing on, it says on which
//! ports: rank `r` is at `load_endpoint_port_base + r` (rules A1, A2). The host is that of the
//! worker's own URL (rule C1): `endpoint_host` is where KV events are, often a wildcard, and is never
//! dialled for load.
//!
//! This crate parses no JSON. [`KvEvents`] has the three values that count, and you fill it from
//! whatever your JSON library gives you:
//!
//! ```
//! use loadwire_check::discovery::{plan, KvEvents, NoPlanReason, Value};
//!
//! let block = KvEvents {
//!     load_endpoint_port_base: 5559.into(),
//!     load_topic: "load".into(),
//!     dp_size: 2.into(),
//! };
//! let plan_of = plan("http://[2001:db8::5]:30000", Some(&block)).unwrap();
//! assert_eq!(plan_of.endpoints[1].endpoint, "tcp://[2001:db8::5]:5560");
//!
//! let half = KvEvents { load_topic: Value::Missing, ..block };
//! let none = plan("http://10.0.0.5:30000", Some(&half)).unwrap_err();
//! assert_eq!(none.reason, NoPlanReason::OneLoadKey);
//! ```
//!
//! [`conformance::plans`](crate::conformance::plans) checks a router's own function of this kind.

use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Range;

const TOPIC: &str = "load";
const MAX_PORT: u64 = 65535;
const EXAMPLE: &str = "a worker URL looks like http://10.0.0.5:30000";

/// One value of the block, as JSON gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// The key is not there.
    #[default]
    Missing,
    /// `null`.
    Null,
    /// `true` or `false`, which is no number here.
    Bool(bool),
    /// A number without a fraction or an exponent.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(&'a str),
    /// An array.
    List,
    /// An object.
    Object,
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value<'_> {
            fn from(value: $integer) -> Self {
                Self::Integer(value.into())
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

/// `None` is a key that is not there.
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List => f.write_str("an array"),
            Self::Object => f.write_str("an object"),
        }
    }
}

/// What counts of the `kv_events` object of `/server_info`. Every other key is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvEvents<'a> {
    /// The port of rank 0.
    pub load_endpoint_port_base: Value<'a>,
    /// The topic of load messages; `load` by the contract.
    pub load_topic: Value<'a>,
    /// How many ranks publish.
    pub dp_size: Value<'a>,
}

/// Why a router subscribes to nothing for a worker, whose load is then unknown (rule C4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NoPlanReason {
    /// `kv_events` is null, missing or no object.
    NoBlock,
    /// It says nothing of load.
    NoLoadKeys,
    /// It has one of the two load keys, which stand together or not at all (rule A2).
    OneLoadKey,
    /// The base is no port.
    BadPort,
    /// The topic is another one.
    BadTopic,
    /// The number of ranks is no whole number of 1 or more.
    BadDpSize,
    /// The worker's URL names no host that can be dialled.
    BadUrl,
}

impl NoPlanReason {
    /// Its name in vectors and reports, for example `one-load-key`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoBlock => "no-block",
            Self::NoLoadKeys => "no-load-keys",
            Self::OneLoadKey => "one-load-key",
            Self::BadPort => "bad-port",
            Self::BadTopic => "bad-topic",
            Self::BadDpSize => "bad-dp-size",
            Self::BadUrl => "bad-url",
        }
    }
}

impl fmt::Display for NoPlanReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// That there is nothing to subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlan {
    /// Why.
    pub reason: NoPlanReason,
    /// The same for an operator.
    pub text: String,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.text)
    }
}

impl std::error::Error for NoPlan {}

/// What a router dials for one rank. The rank of the socket keys its readings, never the one in a
/// payload (rule R3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankEndpoint {
    /// The rank.
    pub rank: u32,
    /// Where it publishes, IPv6 in brackets (rule A3).
    pub endpoint: String,
}

/// The subscriptions that a router opens for one worker (rule C1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The host of the worker's URL, IPv6 in brackets.
    pub host: String,
    /// How many ranks the worker advertises, the skipped ones too: its load is known only while all
    /// of them are fresh (rule C3).
    pub dp_size: u64,
    /// What to dial, by rank from 0.
    pub endpoints: Vec<RankEndpoint>,
    /// The ranks whose port would be past 65535.
    pub skipped: Range<u64>,
}

impl Plan {
    /// What an operator should know of the skipped ranks, if there are any.
    pub fn warning(&self) -> Option<String> {
        let ranks = match self.skipped.end.checked_sub(self.skipped.start)? {
            0 => return None,
            1 => format!("rank {}", self.skipped.start),
            _ => format!("ranks {} to {}", self.skipped.start, self.skipped.end - 1),
        };
        Some(format!(
            "{} advertises {} ranks, and {ranks} would be past port {MAX_PORT}: skipped, so the load \
             of this worker stays unknown",
            self.host, self.dp_size
        ))
    }
}

/// What a router subscribes to for a worker (rules C1, A2, A3).
///
/// `worker_url` is where the router sends its requests; `block` is the `kv_events` value of the
/// worker's `/server_info`, `None` where that is null or missing.
///
/// # Errors
///
/// The first thing wrong, in the order of [`NoPlanReason`].
pub fn plan(worker_url: &str, block: Option<&KvEvents<'_>>) -> Result<Plan, NoPlan> {
    let none = |reason, text: String| Err(NoPlan { reason, text });
    let Some(block) = block else {
        return none(
            NoPlanReason::NoBlock,
            "kv_events is null or missing: no KV events, so no load".to_owned(),
        );
    };
    match (block.load_endpoint_port_base, block.load_topic) {
        (Value::Missing, Value::Missing) => {
            return none(
                NoPlanReason::NoLoadKeys,
                "kv_events has no load keys: the engine publishes no load (its flag is \
                 --load-publish-endpoint)"
                    .to_owned(),
            );
        }
        (base, Value::Missing) | (Value::Missing, base) => {
            return none(
                NoPlanReason::OneLoadKey,
                format!(
                    "kv_events has one load key alone, of {base}: load_endpoint_port_base and \
                     load_topic stand together or not at all"
                ),
            );
        }
        _ => {}
    }
    let base = match block.load_endpoint_port_base {
        Value::Integer(base) => {
            u64::try_from(base).ok().filter(|base| (1..=MAX_PORT).contains(base))
        }
        _ => None,
    };
    let Some(base) = base else {
        return none(
            NoPlanReason::BadPort,
            format!(
                "load_endpoint_port_base is {}, not a whole number from 1 to {MAX_PORT}",
                block.load_endpoint_port_base
            ),
        );
    };
    if block.load_topic != Value::Text(TOPIC) {
        return none(
            NoPlanReason::BadTopic,
            format!("load_topic is {}, not {TOPIC:?}: not this contract", block.load_topic),
        );
    }
    let dp_size = match block.dp_size {
        Value::Integer(size) if size >= 1 => u64::try_from(size).unwrap_or(u64::MAX),
        other => {
            return none(
                NoPlanReason::BadDpSize,
                format!("dp_size is {other}, not a whole number of 1 or more"),
            );
        }
    };
    let host = worker_host(worker_url).map_err(|why| NoPlan {
        reason: NoPlanReason::BadUrl,
        text: format!("{worker_url:?} {why}: {EXAMPLE}"),
    })?;
    let ports = base..=MAX_PORT.min(base.saturating_add(dp_size - 1));
    let endpoints: Vec<_> = (0..)
        .zip(ports)
        .map(|(rank, port)| RankEndpoint { rank, endpoint: format!("tcp://{host}:{port}") })
        .collect();
    let skipped = endpoints.len() as u64..dp_size;
    Ok(Plan { host, dp_size, endpoints, skipped })
}

/// The host that a worker's URL names, IPv6 in brackets, or what is wrong with the URL.
fn worker_host(url: &str) -> Result<String, &'static str> {
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("has blanks or control characters");
    }
    let (scheme, rest) = url.split_once("://").ok_or("has no scheme")?;
    let mut letters = scheme.bytes();
    let named = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || b"+.-".contains(&c));
    if !named {
        return Err("has no scheme");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // A rank suffix (http://10.0.0.5:30000@1) would read as user 10.0.0.5 on host 1.
        return Err("has an @ before its path");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, behind) = bracketed.split_once(']').ok_or("has no closing bracket")?;
            let port = match behind {
                "" => "",
                _ => behind.strip_prefix(':').ok_or("has something behind its bracket")?,
            };
            // A URL escapes the sign in front of an IPv6 zone.
            let host = host.replacen("%25", "%", 1);
            let (address, zone) = match host.split_once('%') {
                None => (host.as_str(), None),
                Some((address, zone)) => (address, Some(zone)),
            };
            let lower = address.to_ascii_lowercase();
            let address: Ipv6Addr =
                address.parse().map_err(|_| "has brackets around what is no IPv6 address")?;
            if zone.is_some_and(|zone| !is_plain(zone)) {
                return Err("has an IPv6 zone that is no name");
            }
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_unspecified());
            if address.is_unspecified() || mapped {
                return Err("has a wildcard host, which nobody can dial");
            }
            // The name of an interface keeps its case.
            let zone = zone.map(|zone| format!("%{zone}")).unwrap_or_default();
            (format!("[{lower}{zone}]"), port)
        }
        // At the first colon: an IPv6 host without brackets leaves a port that is none (rule E8).
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            if host.is_empty() {
                return Err("has no host");
            }
            if host == "*" || is_zero(host) {
                return Err("has a wildcard host, which nobody can dial");
            }
            if !is_plain(host) {
                return Err("has a host that is no name and no address");
            }
            (host.to_ascii_lowercase(), port)
        }
    };
    let digits = port.bytes().all(|c| c.is_ascii_digit());
    if !digits || (!port.is_empty() && port.parse::<u16>().is_err()) {
        return Err("has a port that is none; an IPv6 host goes in brackets");
    }
    Ok(host)
}

/// A name or an IPv4 address.
fn is_plain(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-".contains(&c))
}

/// Zero as C libraries read it in an IPv4 address: `0`, `0.0`, `0x0.0.0.00`.
fn is_zero(host: &str) -> bool {
    let zero = |part: &str| {
        let part = part.strip_prefix("0x").or(part.strip_prefix("0X")).unwrap_or(part);
        !part.is_empty() && part.bytes().all(|c| c == b'0')
    };
    host.split('.').count() <= 4 && host.split('.').all(zero)
}
