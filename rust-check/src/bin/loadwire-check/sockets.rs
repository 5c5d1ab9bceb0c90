//! `listen` and `publish`: one end of a load socket, as JSON lines.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loadwire_check::live::{Listener, LiveError, Publisher};
use loadwire_check::{parse_frames_as, LoadStat, Rev2, Revision};
use serde_json::{json, Value};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{interval, timeout, Interval};

use crate::answer;

/// How long one wait lasts where no end is set.
const A_WHILE: Duration = Duration::from_secs(3600);

/// Why a command did not do its work: it was not understood, its socket failed, or whoever read its
/// output has gone, which is no failure.
enum Stop {
    Misunderstood(String),
    Socket(LiveError),
    Output(io::Error),
}

impl From<LiveError> for Stop {
    fn from(why: LiveError) -> Self {
        Self::Socket(why)
    }
}

impl From<io::Error> for Stop {
    fn from(why: io::Error) -> Self {
        Self::Output(why)
    }
}

/// Runs `listen` or `publish` with the words behind it.
pub fn run(command: &str, words: &[&str]) -> ExitCode {
    let done = match command {
        "listen" => listen(words),
        _ => publish(words),
    };
    match done {
        Ok(status) => status,
        Err(Stop::Misunderstood(why)) => crate::misunderstood(&format!("{command}: {why}")),
        Err(Stop::Output(why)) if why.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Stop::Output(why)) => not_done(&why),
        Err(Stop::Socket(why)) => not_done(&why),
    }
}

fn not_done(why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("loadwire-check: {why}");
    ExitCode::from(crate::NOT_CHECKED)
}

/// What stands behind the endpoint, in pairs of an option and its value.
#[derive(Default)]
struct Options {
    count: Option<u64>,
    seconds: Option<Duration>,
    interval: Option<Duration>,
    subscribers: Option<u64>,
    rank: Option<u64>,
    revision: Option<Revision>,
}

impl Options {
    fn parse<'a>(words: &[&'a str], known: &[&str]) -> Result<(&'a str, Self), Stop> {
        let misunderstood = |why: String| Stop::Misunderstood(why);
        let (endpoint, mut rest) = match words.split_first() {
            Some((endpoint, rest)) if !endpoint.starts_with("--") => (*endpoint, rest),
            _ => {
                return Err(misunderstood(
                    "it needs an endpoint, such as tcp://127.0.0.1:5558".into(),
                ))
            }
        };
        let mut options = Self::default();
        while let Some((&name, behind)) = rest.split_first() {
            if !known.contains(&name) {
                return Err(misunderstood(format!(
                    "no option {name:?}; there are {}",
                    known.join(", ")
                )));
            }
            let Some((&value, behind)) = behind.split_first() else {
                return Err(misunderstood(format!("{name} needs a value")));
            };
            rest = behind;
            let bad = || misunderstood(format!("{name} {value:?} is none"));
            let number = || value.parse::<u64>().map_err(|_| bad());
            let time = || {
                let seconds: f64 = value.parse().map_err(|_| bad())?;
                Duration::try_from_secs_f64(seconds).map_err(|_| bad())
            };
            match name {
                "--count" => options.count = Some(number()?),
                "--seconds" => options.seconds = Some(time()?),
                "--interval" => options.interval = Some(time()?),
                "--subscribers" => options.subscribers = Some(number()?),
                "--rank" => options.rank = Some(number()?),
                _ => {
                    let revision = u32::try_from(number()?).ok().and_then(Revision::from_number);
                    options.revision = Some(revision.ok_or_else(bad)?);
                }
            }
        }
        Ok((endpoint, options))
    }

    /// What is left of the time, `None` when it is over.
    fn left(&self, started: Instant) -> Option<Duration> {
        match self.seconds {
            None => Some(A_WHILE),
            Some(seconds) => seconds.checked_sub(started.elapsed()).filter(|left| !left.is_zero()),
        }
    }

    fn wants_more(&self, done: u64) -> bool {
        self.count.map_or(true, |count| done < count)
    }
}

fn say(message: &Value) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}")?;
    output.flush()
}

fn listen(words: &[&str]) -> Result<ExitCode, Stop> {
    let (endpoint, options) = Options::parse(words, &["--count", "--seconds", "--revision"])?;
    let revision = options.revision.unwrap_or(Revision::LATEST);
    let mut listener = Listener::connect(endpoint)?.revision(revision);
    let started = Instant::now();
    let (mut heard, mut refused) = (0, 0);
    while options.wants_more(heard) {
        let Some(left) = options.left(started) else { break };
        let Some(message) = listener.receive(left) else { continue };
        heard += 1;
        let frames = &message.frames;
        match answer::frames(frames, revision) {
            Ok(accepted) => say(&json!({"accept": accepted}))?,
            Err(reject) => {
                refused += 1;
                let hex: Vec<_> = frames.iter().map(|frame| answer::hex(frame)).collect();
                let why = parse_frames_as(frames, revision).err().map(|why| why.to_string());
                say(&json!({"reject": reject, "why": why, "frames": hex}))?;
            }
        }
    }
    if heard == 0 {
        match listener.connections() {
            0 => eprintln!("loadwire-check: nobody publishes at {endpoint}"),
            _ => eprintln!("loadwire-check: connected to {endpoint}, and no message came"),
        }
    }
    Ok(ExitCode::from(u8::from(heard == 0 || refused > 0)))
}

fn publish(words: &[&str]) -> Result<ExitCode, Stop> {
    let known = ["--count", "--seconds", "--interval", "--subscribers", "--rank", "--revision"];
    let (endpoint, options) = Options::parse(words, &known)?;
    let mut publisher = Publisher::bind(endpoint)?;
    say(&json!({"endpoint": publisher.endpoint()}))?;
    let started = Instant::now();
    let wanted = options.subscribers.unwrap_or(0);
    if !publisher.wait_for_subscribers(wanted, options.left(started).unwrap_or_default()) {
        eprintln!(
            "loadwire-check: fewer than {wanted} subscriber(s) came to {}",
            publisher.endpoint()
        );
        return Ok(ExitCode::from(1));
    }
    // The pace of an engine without work: what it says is the same, and it says it again.
    let mut pace = Pace::every(options.interval.unwrap_or(Duration::from_secs(1)))?;
    while options.wants_more(publisher.sequence()) {
        let Some(left) = options.left(started) else { break };
        if !pace.due_within(left) {
            break;
        }
        let stat = reading(publisher.sequence(), &options);
        match publisher.publish(&stat) {
            Ok(sequence) => say(&json!({"sent": sequence.to_string()}))?,
            // As an engine: it is told, and publishing goes on (rule P4).
            Err(why) => eprintln!("loadwire-check: {why}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A timer for a thread that may block. What is late does not move what comes behind it.
struct Pace {
    ticks: Option<Interval>,
    runtime: Runtime,
}

impl Pace {
    /// Ticks at once and then every `period`; without a pause where that is zero.
    fn every(period: Duration) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let entered = runtime.enter();
        let ticks = (!period.is_zero()).then(|| interval(period));
        drop(entered);
        Ok(Self { ticks, runtime })
    }

    /// Waits for the next tick, and no longer than `left`: whether it came.
    fn due_within(&mut self, left: Duration) -> bool {
        let Some(ticks) = &mut self.ticks else { return true };
        self.runtime.block_on(async { timeout(left, ticks.tick()).await }).is_ok()
    }
}

/// A reading in which no two fields are alike, told apart by its first.
fn reading(sequence: u64, options: &Options) -> LoadStat {
    let rev2 = Rev2 {
        num_waiting_uncached_tokens: 300,
        num_total_tokens: 70_000,
        max_running_requests: 2048,
        total_prefill_uncached_tokens: 5_000_000_000,
        total_prefill_busy_us: 9_876_543_210_123,
    };
    LoadStat {
        num_running_reqs: sequence,
        num_waiting_reqs: 130,
        num_tokens: 40_000,
        max_total_num_tokens: 1_000_000,
        attn_dp_rank: Some(options.rank.unwrap_or(0)),
        rev2: (options.revision != Some(Revision::V1)).then_some(rev2),
    }
}
