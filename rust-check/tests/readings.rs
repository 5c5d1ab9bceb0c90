//! The run over a router's readings: a right table passes, and each wrong one is caught by its rule.

use std::collections::HashMap;
use std::time::Duration;

use loadwire_check::conformance::{self, Deviation, Load, Table};
use loadwire_check::table::TIMELINES;
use loadwire_check::{parse_frames_as, LoadStat, Refusal, Revision};

/// What a table does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mistake {
    #[default]
    None,
    MissingRankAsZero,
    StaleKept,
    StaleRankLeftOut,
    WindowExclusive,
    WindowOfFive,
    SequenceFilter,
    DropsDuplicates,
    WaitsForGaps,
    KeyedByPayloadRank,
    KeptAfterRemoval,
    RevivedByALateMessage,
    BadMessageClears,
    BadMessageRefreshes,
    BadMessageIsIdle,
    BadMessageEnds,
    BadMessagePanics,
    NeverPublishedAsIdle,
    ZeroIsUnknown,
    TopicByPrefix,
    FillsInZeros,
    WrappingSums,
    GreatestRank,
    AdvertisedAnew,
    AdvertisedOnce,
    OtherPortsKept,
    CapacityZeroIsNoReading,
}

struct Rank {
    port: u32,
    newest: Option<(Duration, u64, LoadStat)>,
}

/// The reference table, with room for one mistake.
struct Readings {
    window: Duration,
    revision: Revision,
    mistake: Mistake,
    workers: HashMap<String, Vec<Rank>>,
}

impl Readings {
    fn new(window: Duration, revision: Revision, mistake: Mistake) -> Self {
        let window = if mistake == Mistake::WindowOfFive { Duration::from_secs(5) } else { window };
        Self { window, revision, mistake, workers: HashMap::new() }
    }

    fn counts(stat: &LoadStat) -> Vec<u128> {
        let fields = stat.fields().enumerate().filter(|(index, _)| *index != 4);
        fields.filter_map(|(_, count)| count.map(u128::from)).collect()
    }
}

impl Table for Readings {
    type Error = Refusal;

    fn advertise(&mut self, worker: &str, base: u16, dp_size: u32) {
        let mut before = self.workers.remove(worker).unwrap_or_default();
        if self.mistake == Mistake::AdvertisedOnce && !before.is_empty() {
            self.workers.insert(worker.to_owned(), before);
            return;
        }
        let ranks = (0..dp_size).map(|rank| {
            let port = u32::from(base) + rank;
            let same = before
                .get_mut(rank as usize)
                .filter(|same| same.port == port || self.mistake == Mistake::OtherPortsKept);
            let newest = same.and_then(|same| same.newest.take());
            Rank { port, newest: newest.filter(|_| self.mistake != Mistake::AdvertisedAnew) }
        });
        self.workers.insert(worker.to_owned(), ranks.collect());
    }

    fn withdraw(&mut self, worker: &str) {
        self.workers.insert(worker.to_owned(), Vec::new());
    }

    fn remove(&mut self, worker: &str) {
        match self.mistake {
            Mistake::KeptAfterRemoval => {}
            Mistake::RevivedByALateMessage => {
                for rank in self.workers.entry(worker.to_owned()).or_default() {
                    rank.newest = None;
                }
            }
            _ => drop(self.workers.remove(worker)),
        }
    }

    fn receive(
        &mut self,
        worker: &str,
        rank: u32,
        frames: &[&[u8]],
        now: Duration,
    ) -> Result<(), Refusal> {
        let mut frames = frames.to_vec();
        if self.mistake == Mistake::TopicByPrefix && frames[0].starts_with(b"load") {
            frames[0] = b"load";
        }
        let message = match parse_frames_as(&frames, self.revision) {
            Ok(message) => Some(message),
            Err(refusal) => match self.mistake {
                Mistake::BadMessageEnds => return Err(refusal),
                Mistake::BadMessagePanics => panic!("{refusal}"),
                _ => None,
            },
        };
        let said = message.and_then(|message| message.stat.attn_dp_rank);
        let rank = match said {
            Some(said) if self.mistake == Mistake::KeyedByPayloadRank => said as usize,
            _ => rank as usize,
        };
        let Some(source) = self.workers.get_mut(worker).and_then(|ranks| ranks.get_mut(rank))
        else {
            return Ok(());
        };
        let Some(message) = message else {
            match (self.mistake, &mut source.newest) {
                (Mistake::BadMessageClears, newest) => *newest = None,
                (Mistake::BadMessageRefreshes, Some((at, ..))) => *at = now,
                (Mistake::BadMessageIsIdle, newest) => {
                    let idle = LoadStat {
                        num_running_reqs: 0,
                        num_waiting_reqs: 0,
                        num_tokens: 0,
                        max_total_num_tokens: 0,
                        attn_dp_rank: None,
                        rev2: None,
                    };
                    *newest = Some((now, 0, idle));
                }
                _ => {}
            }
            return Ok(());
        };
        let last = source.newest.map(|(_, sequence, _)| sequence);
        let dropped = last.is_some_and(|last| match self.mistake {
            Mistake::SequenceFilter => message.sequence <= last,
            Mistake::DropsDuplicates => message.sequence == last,
            Mistake::WaitsForGaps => message.sequence > last + 1,
            _ => false,
        });
        let no_capacity = message.stat.max_total_num_tokens == 0;
        let dropped = dropped || self.mistake == Mistake::CapacityZeroIsNoReading && no_capacity;
        if !dropped {
            source.newest = Some((now, message.sequence, message.stat));
        }
        Ok(())
    }

    fn view(&mut self, worker: &str, now: Duration) -> Option<Load> {
        let mistake = self.mistake;
        let ranks = self.workers.get(worker)?;
        let fresh = |(at, ..): &(Duration, u64, LoadStat)| match mistake {
            Mistake::StaleKept => true,
            Mistake::WindowExclusive => now - *at < self.window,
            _ => now - *at <= self.window,
        };
        if mistake == Mistake::NeverPublishedAsIdle && ranks.iter().all(|r| r.newest.is_none()) {
            return Some(Load::from_counts([0u64; 9]));
        }
        let stats: Vec<_> = ranks
            .iter()
            .filter_map(|rank| rank.newest.filter(fresh))
            .map(|(_, _, stat)| Self::counts(&stat))
            .collect();
        let published = ranks.iter().filter(|rank| rank.newest.is_some()).count();
        let enough = match mistake {
            Mistake::MissingRankAsZero => stats.len() == published,
            Mistake::StaleRankLeftOut => published == ranks.len(),
            _ => stats.len() == ranks.len(),
        };
        if stats.is_empty() || !enough {
            return None;
        }
        let least = stats.iter().map(Vec::len).min()?;
        let most = stats.iter().map(Vec::len).max()?;
        let length = if mistake == Mistake::FillsInZeros { most } else { least };
        let sums: Vec<u128> = (0..length)
            .map(|index| {
                let column = stats.iter().map(|stat| stat.get(index).copied().unwrap_or(0));
                match mistake {
                    Mistake::GreatestRank => column.max().unwrap_or(0),
                    Mistake::WrappingSums => column.sum::<u128>() & u128::from(u64::MAX),
                    _ => column.sum(),
                }
            })
            .collect();
        if mistake == Mistake::ZeroIsUnknown && sums.iter().all(|sum| *sum == 0) {
            return None;
        }
        Some(Load::from_counts(sums))
    }
}

fn right(window: Duration) -> Readings {
    Readings::new(window, Revision::LATEST, Mistake::None)
}

/// A table that does everything right passes every timeline, as a reader of every revision.
#[test]
fn a_right_table_conforms() {
    for &revision in Revision::ALL {
        let report = conformance::readings()
            .revision(revision)
            .run(|window| Readings::new(window, revision, Mistake::None));
        report.assert_conformant();
        assert_eq!(report.total().passed, TIMELINES.len());
        assert!(report.to_string().starts_with(&format!("readings as a reader of {revision}: ")));
    }
}

/// Every wrong table is caught by the rule that it breaks, and by no other kind of difference.
#[test]
fn wrong_tables_are_caught() {
    use Deviation::{Ends, Forgets, Knows, Panics, WrongLoad};
    let wrong = [
        (Mistake::MissingRankAsZero, "C3", Knows),
        (Mistake::StaleKept, "C2", Knows),
        (Mistake::StaleRankLeftOut, "C3", Knows),
        (Mistake::WindowExclusive, "C2", Forgets),
        (Mistake::WindowOfFive, "C2", Knows),
        (Mistake::SequenceFilter, "S3", WrongLoad),
        (Mistake::SequenceFilter, "C7", WrongLoad),
        (Mistake::DropsDuplicates, "S3", WrongLoad),
        (Mistake::WaitsForGaps, "S2", WrongLoad),
        (Mistake::KeyedByPayloadRank, "R3", Forgets),
        (Mistake::KeptAfterRemoval, "C6", Knows),
        (Mistake::RevivedByALateMessage, "C6", Knows),
        (Mistake::BadMessageClears, "C5", Forgets),
        (Mistake::BadMessageRefreshes, "C5", Knows),
        (Mistake::BadMessageIsIdle, "C5", WrongLoad),
        (Mistake::BadMessageEnds, "C5", Ends),
        (Mistake::BadMessagePanics, "C5", Panics),
        (Mistake::NeverPublishedAsIdle, "C4", Knows),
        (Mistake::ZeroIsUnknown, "C4", Forgets),
        (Mistake::TopicByPrefix, "F2", Knows),
        (Mistake::FillsInZeros, "W9", WrongLoad),
        (Mistake::WrappingSums, "C3", WrongLoad),
        (Mistake::GreatestRank, "C3", WrongLoad),
        (Mistake::AdvertisedAnew, "C1", Forgets),
        (Mistake::AdvertisedOnce, "C3", Knows),
        (Mistake::OtherPortsKept, "R3", Knows),
        (Mistake::CapacityZeroIsNoReading, "C3", Forgets),
    ];
    let mut missed = Vec::new();
    for (mistake, rule, deviation) in wrong {
        let report =
            conformance::readings().run(|window| Readings::new(window, Revision::LATEST, mistake));
        let caught = report.failures().iter().find(|f| f.rule == rule && f.deviation == deviation);
        match caught {
            None => missed.push(format!("{mistake:?}: no {deviation:?} of {rule}\n{report}")),
            Some(failure) => {
                println!("{mistake:?} {rule} {deviation:?} by {}", failure.vector);
                // Every timeline starts with a worker that has not published.
                let everything = mistake == Mistake::NeverPublishedAsIdle;
                assert_eq!(report.total().failed == TIMELINES.len(), everything, "{mistake:?}");
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A load before any message came is made up, whatever the timeline is about (rule C4).
#[test]
fn a_load_out_of_nothing_is_told_apart() {
    let report = conformance::readings()
        .run(|window| Readings::new(window, Revision::LATEST, Mistake::NeverPublishedAsIdle));
    assert!(report.failures().iter().all(|failure| failure.rule == "C4"), "{report}");
    let other = conformance::readings()
        .run(|window| Readings::new(window, Revision::LATEST, Mistake::MissingRankAsZero));
    assert!(other.failures().iter().all(|failure| failure.rule != "C4"), "{other}");
}

/// A failure names the timeline, tells its steps up to the one that went wrong with its bytes, and
/// shows what was expected and what came.
#[test]
fn a_failure_tells_the_story() {
    let report = conformance::readings()
        .run(|window| Readings::new(window, Revision::LATEST, Mistake::MissingRankAsZero));
    let failure = report.failures().iter().find(|f| f.vector == "missing-rank").expect("caught");
    assert_eq!(
        failure.to_string(),
        "C3 missing-rank
    while a rank has not published, the worker is unknown, not smaller by that rank
    expected http://10.0.0.5:30000 unknown (missing-rank of 0)
    got      http://10.0.0.5:30000 known: num_running_reqs 10, num_waiting_reqs 20, num_tokens 30, \
         max_total_num_tokens 40, num_waiting_uncached_tokens 50, num_total_tokens 60, \
         max_running_requests 70, total_prefill_uncached_tokens 80, total_prefill_busy_us 90
    steps    100      http://10.0.0.5:30000 advertises 2 rank(s) from port 5558
             100.25   a message from http://10.0.0.5:30000 rank 1: 6c6f6164 | 0000000000000000 | \
         9ba84c6f6164537461740a141e280132_3c46505a
             window   5 s"
            .replace("0132_3c", "01323c")
    );
}

/// A table of some counts is judged by those, and one that claims a count which there is not, or
/// none at all, is told so.
#[test]
fn a_table_may_sum_less() {
    struct Less(Readings);
    impl Table for Less {
        type Error = Refusal;

        fn advertise(&mut self, worker: &str, base: u16, dp_size: u32) {
            self.0.advertise(worker, base, dp_size);
        }
        fn withdraw(&mut self, worker: &str) {
            self.0.withdraw(worker);
        }
        fn remove(&mut self, worker: &str) {
            self.0.remove(worker);
        }
        fn receive(
            &mut self,
            worker: &str,
            rank: u32,
            frames: &[&[u8]],
            now: Duration,
        ) -> Result<(), Refusal> {
            self.0.receive(worker, rank, frames, now)
        }
        fn view(&mut self, worker: &str, now: Duration) -> Option<Load> {
            self.0.view(worker, now)?;
            let ranks = &self.0.workers[worker];
            let stats = ranks.iter().filter_map(|rank| rank.newest.map(|(_, _, stat)| stat));
            let waiting = stats.fold(0u64, |sum, stat| sum.saturating_add(stat.num_waiting_reqs));
            Some(Load::new().num_waiting_reqs(waiting))
        }
    }
    let suite = conformance::readings().counts(["num_waiting_reqs"]);
    let report = suite.run(|window| Less(right(window)));
    assert_eq!(report.failures().len(), 1);
    assert!(report.failures()[0].got.ends_with("are declared by .saturating_sums()"), "{report}");
    suite.saturating_sums().run(|window| Less(right(window))).assert_conformant();

    let report = conformance::readings().run(|window| Less(right(window)));
    assert!(report.failures().iter().all(|f| f.deviation == Deviation::WrongLoad), "{report}");
    let report = conformance::readings().counts(["num_wating_reqs"]).run(right);
    assert!(report.problems()[0].starts_with("num_wating_reqs is no count of revision 2"));
    let report = conformance::readings().counts(Vec::<String>::new()).run(right);
    assert!(report.problems()[0].contains(".counts() is empty"));
}

/// A known deviation is excused by rule or timeline, and fails when it is gone.
#[test]
fn known_deviations_are_held_to_account() {
    let exclusive = |window| Readings::new(window, Revision::LATEST, Mistake::WindowExclusive);
    let suite = || conformance::readings();
    let whole = suite().run(exclusive).total().failed;
    let excused = suite().known_deviation("C2", Deviation::Forgets, "an old habit").run(exclusive);
    assert_eq!(excused.total().excused, whole - excused.total().failed);
    assert!(excused.total().excused > 0);
    let gone = suite().known_deviation("C2", Deviation::Forgets, "an old habit").run(right);
    assert!(gone.problems()[0].contains("was not seen"), "{gone}");
    let other = suite().known_deviation("C9", Deviation::Forgets, "no such rule").run(right);
    assert!(other.problems()[0].contains("excuses nothing"), "{other}");
}

/// A table that panics while it is made fails every timeline, and the run goes on.
#[test]
fn a_panic_in_the_factory_is_a_failure() {
    let report = conformance::readings().run(|window| -> Readings { panic!("no {window:?}") });
    assert_eq!(report.failures().len(), TIMELINES.len());
    assert!(report.failures().iter().all(|failure| failure.got.starts_with("a panic: no ")));
}

/// The timelines can be told apart, run forward in time, and expect something of every worker.
#[test]
fn the_timelines_are_sound() {
    let mut ids: Vec<_> = TIMELINES.iter().map(|timeline| timeline.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TIMELINES.len());
    for timeline in TIMELINES {
        assert!(timeline.steps.windows(2).all(|pair| pair[0].at <= pair[1].at), "{}", timeline.id);
        assert!(timeline.steps.iter().all(|step| !step.expect.is_empty()), "{}", timeline.id);
    }
}
