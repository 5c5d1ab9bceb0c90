//! The run over a router's plans: what it dials for a worker.

use std::error::Error;
use std::fmt;

use super::known::{known_deviation, Deviations};
use super::{panics, Deviation, Failure, Report};
use crate::discovery::{KvEvents, NoPlan, NoPlanReason, Plan};
use crate::table::{PlanRuling, PlanVerdict, PLANS};

/// The vectors of a router's plan: which endpoints it dials for a worker (rules C1, A2, A3).
///
/// ```
/// use loadwire_check::conformance::{self, UrlCredentials};
/// use loadwire_check::discovery;
///
/// conformance::plans()
///     .url_credentials(UrlCredentials::Refuse)
///     // Your function gets `asked.json`, the text of `kv_events`, through your JSON library.
///     .run(|asked| discovery::plan(asked.worker_url, asked.block.as_ref()))
///     .assert_conformant();
/// ```
///
/// The closure may as well give an `Option` or a `Result` of a list of endpoints, one for each rank
/// from 0, or the list alone, empty where nothing is dialled.
pub fn plans() -> PlanSuite {
    PlanSuite { credentials: None, known: Deviations::default() }
}

/// What a router does with a worker URL that has a user in front of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlCredentials {
    /// It has no plan for it, as [`discovery::plan`](crate::discovery::plan).
    Refuse,
    /// It dials the host.
    Dial,
}

/// What a router is asked to plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The URL that it sends requests to.
    pub worker_url: &'static str,
    /// The value of `kv_events` as JSON text: an object, or `null`.
    pub json: &'static str,
    /// The same, parsed; `None` is null.
    pub block: Option<KvEvents<'static>>,
}

/// What a router answers to a [`Question`]. Nobody has to name it: see [`plans`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanAnswer {
    /// It dials; nothing if there are no endpoints.
    Dials(Dialled),
    /// It dials nothing.
    Nothing(NotDialled),
}

/// The endpoints that a router dials, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialled {
    endpoints: Vec<(u64, String)>,
}

impl Dialled {
    /// The endpoints with their ranks, for a router that does not number them from 0.
    pub fn by_rank<S: Into<String>>(endpoints: impl IntoIterator<Item = (u64, S)>) -> Self {
        let endpoints = endpoints.into_iter().map(|(rank, endpoint)| (rank, endpoint.into()));
        Self { endpoints: endpoints.collect() }
    }
}

impl<S: Into<String>> From<Vec<S>> for Dialled {
    fn from(endpoints: Vec<S>) -> Self {
        Self::by_rank((0..).zip(endpoints))
    }
}

impl From<Plan> for Dialled {
    fn from(plan: Plan) -> Self {
        Self::by_rank(plan.endpoints.into_iter().map(|at| (at.rank.into(), at.endpoint)))
    }
}

/// That a router dials nothing. The reason is optional, and checked where it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotDialled {
    reason: Option<NoPlanReason>,
    detail: String,
}

impl From<NoPlan> for NotDialled {
    fn from(none: NoPlan) -> Self {
        Self { reason: Some(none.reason), detail: none.text }
    }
}

impl From<NoPlanReason> for NotDialled {
    fn from(reason: NoPlanReason) -> Self {
        Self { reason: Some(reason), detail: String::new() }
    }
}

impl From<()> for NotDialled {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<String> for NotDialled {
    fn from(detail: String) -> Self {
        Self { reason: None, detail }
    }
}

impl From<&str> for NotDialled {
    fn from(detail: &str) -> Self {
        detail.to_owned().into()
    }
}

impl From<Box<dyn Error>> for NotDialled {
    fn from(error: Box<dyn Error>) -> Self {
        error.to_string().into()
    }
}

impl From<Box<dyn Error + Send + Sync>> for NotDialled {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        error.to_string().into()
    }
}

impl<D: Into<Dialled>> From<Option<D>> for PlanAnswer {
    fn from(dialled: Option<D>) -> Self {
        dialled.map_or(Self::Nothing(NotDialled::default()), |dialled| Self::Dials(dialled.into()))
    }
}

impl<D: Into<Dialled>, E: Into<NotDialled>> From<Result<D, E>> for PlanAnswer {
    fn from(result: Result<D, E>) -> Self {
        match result {
            Ok(dialled) => Self::Dials(dialled.into()),
            Err(none) => Self::Nothing(none.into()),
        }
    }
}

impl<S: Into<String>> From<Vec<S>> for PlanAnswer {
    fn from(endpoints: Vec<S>) -> Self {
        Self::Dials(endpoints.into())
    }
}

impl fmt::Display for Dialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_order = (0..).zip(&self.endpoints).all(|(rank, (said, _))| rank == *said);
        let shown = self.endpoints.iter().map(|(rank, endpoint)| match in_order {
            true => endpoint.clone(),
            false => format!("{endpoint} for rank {rank}"),
        });
        write!(f, "dial {}", shown.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for NotDialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dial nothing")?;
        match (self.reason, self.detail.as_str()) {
            (None, "") => Ok(()),
            (Some(reason), "") => write!(f, " ({reason})"),
            (None, detail) => write!(f, " ({detail})"),
            (Some(reason), detail) => write!(f, " ({reason}: {detail})"),
        }
    }
}

/// What a router declares about its plans, and then the run.
#[derive(Clone, Debug)]
pub struct PlanSuite {
    credentials: Option<UrlCredentials>,
    known: Deviations,
}

impl PlanSuite {
    /// Declares what the router does with a URL that has a user in front of its host.
    #[must_use]
    pub fn url_credentials(mut self, answer: UrlCredentials) -> Self {
        self.credentials = Some(answer);
        self
    }

    known_deviation!();

    /// Asks the router about every vector.
    pub fn run<A: Into<PlanAnswer>>(&self, mut plan: impl FnMut(&Question) -> A) -> Report {
        let mut report = Report::new("plans".to_owned());
        let mut known = self.known.watch();
        let mut undeclared = Vec::new();
        for vector in PLANS {
            let asked =
                Question { worker_url: vector.worker_url, json: vector.json, block: vector.block };
            let answer = panics::caught(|| plan(&asked).into());
            let ruling = match (vector.expect, self.credentials) {
                (PlanVerdict::Ruled(ruling), _) => ruling,
                (PlanVerdict::Credentials { refuse, .. }, Some(UrlCredentials::Refuse)) => refuse,
                (PlanVerdict::Credentials { dial, .. }, Some(UrlCredentials::Dial)) => dial,
                (PlanVerdict::Credentials { refuse, dial }, None) => {
                    undeclared.push((fault(refuse, &answer), fault(dial, &answer)));
                    continue;
                }
            };
            known.ran(vector.rule, vector.id);
            let Some((deviation, got)) = fault(ruling, &answer) else {
                report.passed(vector.rule, matches!(ruling, PlanRuling::Dial { .. }));
                continue;
            };
            if known.excuse(vector.rule, vector.id, deviation) {
                report.excused(vector.rule);
                continue;
            }
            report.failed(Failure {
                vector: vector.id,
                spelling: None,
                rule: vector.rule,
                hazard: None,
                deviation,
                why: vector.why,
                expected: in_words(ruling),
                got,
                input: format!("{}\nkv_events {}", vector.worker_url, vector.json),
                label: "worker",
            });
        }
        if !undeclared.is_empty() {
            let advice = if undeclared.iter().all(|(refuse, _)| refuse.is_none()) {
                "this router refuses them, so if that is what you want, add \
                 .url_credentials(UrlCredentials::Refuse)"
            } else if undeclared.iter().all(|(_, dial)| dial.is_none()) {
                "this router dials them, so if that is what you want, add \
                 .url_credentials(UrlCredentials::Dial)"
            } else {
                "this router gives no consistent answer; declare one with .url_credentials(...): \
                 UrlCredentials::Refuse or UrlCredentials::Dial"
            };
            report.problem(format!(
                "what becomes of a URL with a user in it is not declared, and {} case(s) ask for it: \
                 {advice}",
                undeclared.len()
            ));
        }
        known.finish(&mut report);
        report
    }
}

/// How an answer departs from the right one, and the answer in words.
fn fault(
    ruling: PlanRuling,
    answer: &Result<PlanAnswer, panics::Caught>,
) -> Option<(Deviation, String)> {
    match (ruling, answer) {
        (_, Err(panic)) => Some((Deviation::Panics, format!("a panic: {panic}"))),
        (PlanRuling::Dial { endpoints, .. }, Ok(PlanAnswer::Dials(dialled))) => {
            let same = dialled.endpoints.len() == endpoints.len()
                && (0..).zip(endpoints).all(|(rank, &right)| {
                    // In any order: each rank has its endpoint.
                    dialled.endpoints.iter().any(|(said, e)| *said == rank && e == right)
                });
            match (same, dialled.endpoints.is_empty()) {
                (true, _) => None,
                (false, true) => Some((Deviation::Rejects, "dial nothing".to_owned())),
                (false, false) => Some((Deviation::WrongPlan, dialled.to_string())),
            }
        }
        (PlanRuling::Dial { .. }, Ok(PlanAnswer::Nothing(none))) => {
            Some((Deviation::Rejects, none.to_string()))
        }
        (PlanRuling::Nothing(_), Ok(PlanAnswer::Dials(dialled))) => {
            let dials = !dialled.endpoints.is_empty();
            dials.then(|| (Deviation::Accepts, dialled.to_string()))
        }
        (PlanRuling::Nothing(reason), Ok(PlanAnswer::Nothing(none))) => {
            let other = none.reason.is_some_and(|said| said != reason);
            other.then(|| (Deviation::WrongReason, none.to_string()))
        }
    }
}

fn in_words(ruling: PlanRuling) -> String {
    match ruling {
        PlanRuling::Dial { endpoints, skipped: [] } => format!("dial {}", endpoints.join(", ")),
        PlanRuling::Dial { endpoints, skipped } => {
            let skipped: Vec<_> = skipped.iter().map(ToString::to_string).collect();
            format!("dial {}, and skip rank {}", endpoints.join(", "), skipped.join(", "))
        }
        PlanRuling::Nothing(reason) => format!("dial nothing ({reason})"),
    }
}
