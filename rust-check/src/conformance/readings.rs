//! The run over a router's readings: what its table knows over time.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::known::{known_deviation, Deviations};
use super::load::{names, Load};
use super::{panics, report, Deviation, Failure, Report};
use crate::stat::Revision;
use crate::table::{Event, Step, Timeline, View, TIMELINES};

/// The timelines of a router's readings: freshness, sums, restarts, removal, bad messages (rules C1
/// to C7, R3, S2, S3).
///
/// Put your table behind [`Table`]. Time is a virtual clock, handed in with every call that needs it,
/// so the run takes no time. A whole table, which is right:
///
/// ```
/// use loadwire_check::conformance::{self, Load, Table};
/// use loadwire_check::{parse_frames, LoadStat};
/// use std::{collections::HashMap, convert::Infallible, time::Duration};
///
/// struct Readings {
///     window: Duration,
///     workers: HashMap<String, Vec<Rank>>,
/// }
/// struct Rank {
///     port: u32,
///     newest: Option<(Duration, LoadStat)>,
/// }
///
/// impl Table for Readings {
///     type Error = Infallible;
///
///     fn advertise(&mut self, worker: &str, base: u16, dp_size: u32) {
///         let mut before = self.workers.remove(worker).unwrap_or_default();
///         let ports = (0..dp_size).map(|rank| u32::from(base) + rank);
///         let ranks = ports.enumerate().map(|(rank, port)| match before.get_mut(rank) {
///             // The same socket keeps its reading, and another one starts without.
///             Some(same) if same.port == port => Rank { port, newest: same.newest.take() },
///             _ => Rank { port, newest: None },
///         });
///         self.workers.insert(worker.to_owned(), ranks.collect());
///     }
///     fn withdraw(&mut self, worker: &str) {
///         self.workers.insert(worker.to_owned(), Vec::new());
///     }
///     fn remove(&mut self, worker: &str) {
///         self.workers.remove(worker);
///     }
///     fn receive(&mut self, worker: &str, rank: u32, frames: &[&[u8]], now: Duration) -> Result<(), Infallible> {
///         let source = self.workers.get_mut(worker).and_then(|ranks| ranks.get_mut(rank as usize));
///         if let (Some(source), Ok(message)) = (source, parse_frames(frames)) {
///             source.newest = Some((now, message.stat)); // whatever its sequence (rule S3)
///         }
///         Ok(()) // a bad message changes nothing, and the subscription stays up (rule C5)
///     }
///     fn view(&mut self, worker: &str, now: Duration) -> Option<Load> {
///         let ranks = self.workers.get(worker).filter(|ranks| !ranks.is_empty())?;
///         let (mut running, mut waiting) = (0u64, 0u64);
///         for rank in ranks {
///             // One rank without a fresh reading makes the worker unknown (rule C3).
///             let (_, stat) = rank.newest.filter(|(at, _)| now - *at <= self.window)?;
///             running = running.saturating_add(stat.num_running_reqs);
///             waiting = waiting.saturating_add(stat.num_waiting_reqs);
///         }
///         Some(Load::new().num_running_reqs(running).num_waiting_reqs(waiting))
///     }
/// }
///
/// conformance::readings()
///     .counts(["num_running_reqs", "num_waiting_reqs"])
///     .saturating_sums()
///     .run(|window| Readings { window, workers: HashMap::new() })
///     .assert_conformant();
/// ```
pub fn readings() -> TableSuite {
    TableSuite {
        revision: Revision::LATEST,
        counts: None,
        saturates: false,
        known: Deviations::default(),
    }
}

/// A router's table of readings, as [`readings`] drives it.
///
/// Times are those of one monotonic clock whose zero means nothing. A table that asks the clock by
/// itself has to take it from the caller for this.
pub trait Table {
    /// What can end the receive loop; [`Infallible`](std::convert::Infallible) where nothing can.
    type Error: fmt::Display;

    /// The router learns that a worker publishes load from `dp_size` ranks, rank `r` at port
    /// `base + r` of the worker's host, for the first time or anew.
    fn advertise(&mut self, worker: &str, base: u16, dp_size: u32);

    /// The router learns that a worker publishes no load, for the first time or from now on.
    fn withdraw(&mut self, worker: &str);

    /// A worker is gone.
    fn remove(&mut self, worker: &str);

    /// A message came in on the socket that was opened for a rank, good or bad. Also for a rank that
    /// is no longer advertised and a worker that was removed: messages may be late.
    ///
    /// # Errors
    ///
    /// An error is what would end the router's receive loop, and with it the subscription. A message
    /// that was refused and survived is none (rule C5).
    fn receive(
        &mut self,
        worker: &str,
        rank: u32,
        frames: &[&[u8]],
        now: Duration,
    ) -> Result<(), Self::Error>;

    /// The load of a worker, or `None` where it is unknown and the router counts for itself.
    fn view(&mut self, worker: &str, now: Duration) -> Option<Load>;
}

/// What a router declares about its table, and then the run.
#[derive(Clone, Debug)]
pub struct TableSuite {
    revision: Revision,
    counts: Option<Vec<String>>,
    saturates: bool,
    known: Deviations,
}

impl TableSuite {
    /// The revision that the router reads; the newest one unless said.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// Declares which counts the table sums, by their names; all of its revision unless said.
    #[must_use]
    pub fn counts<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.counts = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Declares that sums stop at 2^64-1. They never wrap around: a sum that did would read as room.
    #[must_use]
    pub fn saturating_sums(mut self) -> Self {
        self.saturates = true;
        self
    }

    known_deviation!();

    /// Plays every timeline on a fresh table, which `make` makes for a freshness window. A timeline
    /// fails at the first step after which the table knows something else than it must.
    pub fn run<T: Table>(&self, mut make: impl FnMut(Duration) -> T) -> Report {
        let mut report = Report::new(format!("readings as a reader of {}", self.revision));
        let mut known = self.known.watch();
        let counted = self.counted(&mut report);
        for timeline in TIMELINES.iter().filter(|timeline| timeline.since <= self.revision) {
            known.ran(timeline.rule, timeline.id);
            let Some(fault) = self.play(timeline, &counted, &mut make) else {
                let knows = timeline.steps.iter().flat_map(|step| step.expect);
                let knows = knows.into_iter().any(|(_, view)| matches!(view, View::Known(_)));
                report.passed(timeline.rule, knows);
                continue;
            };
            // A load before any message came is not what the timeline is about: it is made up.
            let mut so_far = timeline.steps.iter().take(fault.step + 1);
            let heard = so_far.any(|step| matches!(step.happens, Event::Receive { .. }));
            let made_up = fault.deviation == Deviation::Knows && !heard;
            let rule = if made_up { "C4" } else { timeline.rule };
            if known.excuse(rule, timeline.id, fault.deviation) {
                report.excused(rule);
                continue;
            }
            report.failed(Failure {
                vector: timeline.id,
                spelling: None,
                rule,
                hazard: None,
                deviation: fault.deviation,
                why: timeline.why,
                expected: fault.expected,
                got: fault.got,
                input: history(timeline, fault.step),
                label: "steps",
            });
        }
        known.finish(&mut report);
        report
    }

    fn counted(&self, report: &mut Report) -> Vec<&str> {
        let all: Vec<_> = names(self.revision).collect();
        let Some(counts) = &self.counts else { return all };
        for name in counts.iter().filter(|name| !all.contains(&name.as_str())) {
            report.problem(format!(
                "{name} is no count of {}; there are {}",
                self.revision,
                all.join(", ")
            ));
        }
        if counts.is_empty() {
            report.problem("a table that sums nothing tells nothing: .counts() is empty".into());
        }
        counts.iter().map(String::as_str).collect()
    }

    fn play<T: Table>(
        &self,
        timeline: &'static Timeline,
        counted: &[&str],
        make: &mut impl FnMut(Duration) -> T,
    ) -> Option<Fault> {
        let panicked = |step, worker: &str, panic| Fault {
            step,
            deviation: Deviation::Panics,
            expected: format!("{worker}a view"),
            got: format!("a panic: {panic}"),
        };
        let mut table = match panics::caught(|| make(timeline.window)) {
            Ok(table) => table,
            Err(panic) => return Some(panicked(0, "", panic)),
        };
        for (index, step) in timeline.steps.iter().enumerate() {
            match panics::caught(|| happen(&mut table, step)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    return Some(Fault {
                        step: index,
                        deviation: Deviation::Ends,
                        expected: "the subscription to stay up".to_owned(),
                        got: format!("an error, which ends it: {error}"),
                    });
                }
                Err(panic) => return Some(panicked(index, "", panic)),
            }
            for (worker, view) in step.expect {
                let answer = match panics::caught(|| table.view(worker, step.at)) {
                    Ok(answer) => answer,
                    Err(panic) => return Some(panicked(index, &format!("{worker} "), panic)),
                };
                if let Some((deviation, expected, got)) = self.judge(view, answer, counted) {
                    return Some(Fault {
                        step: index,
                        deviation,
                        expected: format!("{worker} {expected}"),
                        got: format!("{worker} {got}"),
                    });
                }
            }
        }
        None
    }

    fn judge(
        &self,
        view: &View,
        answer: Option<Load>,
        counted: &[&str],
    ) -> Option<(Deviation, String, String)> {
        match (view, answer) {
            (View::Unknown { .. }, None) => None,
            (View::Unknown { reason, ranks }, Some(load)) => {
                let ranks: Vec<_> = ranks.iter().map(ToString::to_string).collect();
                let blamed = match ranks.as_slice() {
                    [] => String::new(),
                    ranks => format!(" of {}", ranks.join(", ")),
                };
                Some((
                    Deviation::Knows,
                    format!("unknown ({reason}{blamed})"),
                    format!("known: {load}"),
                ))
            }
            (View::Known(sums), None) => Some((
                Deviation::Forgets,
                format!("known: {}", Load::from_counts(self.sums(sums).iter().copied())),
                "unknown".to_owned(),
            )),
            (View::Known(sums), Some(load)) => {
                let sums = self.sums(sums);
                let (expected, mut got) = load.differences(sums, counted, self.saturates)?;
                if !self.saturates && load.differences(sums, counted, true).is_none() {
                    got.push_str("; sums that stop at 2^64-1 are declared by .saturating_sums()");
                }
                Some((Deviation::WrongLoad, format!("known: {expected}"), format!("known: {got}")))
            }
        }
    }

    /// The sums that a reader of the revision knows.
    fn sums(&self, sums: &'static [u128]) -> &'static [u128] {
        sums.get(..names(self.revision).count()).unwrap_or(sums)
    }
}

struct Fault {
    step: usize,
    deviation: Deviation,
    expected: String,
    got: String,
}

fn happen<T: Table>(table: &mut T, step: &Step) -> Result<(), T::Error> {
    match step.happens {
        Event::Advertise { worker, base, dp_size } => table.advertise(worker, base, dp_size),
        Event::Withdraw { worker } => table.withdraw(worker),
        Event::Remove { worker } => table.remove(worker),
        Event::Receive { worker, rank, frames, .. } => {
            return table.receive(worker, rank, frames, step.at);
        }
        Event::Restart { .. } | Event::Silence => {}
    }
    Ok(())
}

/// The steps up to one, a line for each: the whole story, since a table is wrong by what it kept.
fn history(timeline: &Timeline, last: usize) -> String {
    let mut lines = Vec::new();
    for step in timeline.steps.iter().take(last + 1) {
        let mut line = format!("{:<8} ", step.at.as_secs_f64());
        let _ = match step.happens {
            Event::Advertise { worker, base, dp_size } => {
                write!(line, "{worker} advertises {dp_size} rank(s) from port {base}")
            }
            Event::Withdraw { worker } => write!(line, "{worker} advertises no load"),
            Event::Remove { worker } => write!(line, "{worker} is removed"),
            Event::Restart { worker } => write!(line, "{worker} restarts"),
            Event::Receive { worker, rank, frames, vector } => {
                let kind = vector.map_or("a message", |_| "a bad message");
                let from = vector.map_or(String::new(), |vector| format!(" ({vector})"));
                let frames: Vec<_> = frames.iter().map(|frame| report::hex(frame)).collect();
                write!(line, "{kind} from {worker} rank {rank}{from}: {}", frames.join(" | "))
            }
            Event::Silence => write!(line, "nothing happens"),
        };
        lines.push(line);
    }
    lines.push(format!("window   {} s", timeline.window.as_secs_f64()));
    lines.join("\n")
}
