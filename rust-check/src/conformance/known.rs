//! Known deviations: excuses that are held to account.

use super::{Deviation, Report};

/// The method by which the builder of each suite takes excuses into its field `known`.
macro_rules! known_deviation {
    () => {
        /// Excuses a known deviation: in which way the router departs from the contract, at all
        /// cases of a rule (`"W9"`) or at one vector (its id), and why it must live with that.
        ///
        /// The excuse itself fails when the deviation is gone, when the cases fail in another way,
        /// and when no vector or rule of that name is in the run.
        #[must_use]
        pub fn known_deviation(
            mut self,
            at: impl Into<String>,
            deviation: $crate::conformance::Deviation,
            why: impl Into<String>,
        ) -> Self {
            self.known.add(at.into(), deviation, why.into());
            self
        }
    };
}
pub(super) use known_deviation;

/// The excuses that a router declares.
#[derive(Clone, Debug, Default)]
pub(super) struct Deviations {
    known: Vec<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    at: String,
    deviation: Deviation,
    why: String,
}

impl Deviations {
    pub(super) fn add(&mut self, at: String, deviation: Deviation, why: String) {
        self.known.push(Known { at, deviation, why });
    }

    /// Starts to note what becomes of them in one run.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch { known: &self.known, uses: vec![Use::default(); self.known.len()] }
    }
}

/// What came of the excuses in one run.
pub(super) struct Watch<'a> {
    known: &'a [Known],
    uses: Vec<Use>,
}

#[derive(Clone, Default)]
struct Use {
    exists: bool,
    excused: usize,
}

impl Watch<'_> {
    /// A case of that rule and vector is in the run.
    pub(super) fn ran(&mut self, rule: &str, vector: &str) {
        for (known, used) in self.known.iter().zip(&mut self.uses) {
            used.exists |= known.at == rule || known.at == vector;
        }
    }

    /// Whether it is excused that the case failed in that way.
    pub(super) fn excuse(&mut self, rule: &str, vector: &str, deviation: Deviation) -> bool {
        let found = self.known.iter().zip(&mut self.uses).find(|(known, _)| {
            (known.at == rule || known.at == vector) && known.deviation == deviation
        });
        found.map(|(_, used)| used.excused += 1).is_some()
    }

    /// Tells the report of excuses that excuse nothing.
    pub(super) fn finish(self, report: &mut Report) {
        for (Known { at, deviation, why }, used) in self.known.iter().zip(&self.uses) {
            if why.trim().is_empty() {
                report.problem(format!("the known deviation at {at} gives no reason"));
            }
            if !used.exists {
                report.problem(format!(
                    "the known deviation at {at} excuses nothing: no vector and no rule of this run \
                     has that name"
                ));
            } else if used.excused == 0 {
                report.problem(format!(
                    "the known deviation at {at} ({deviation:?}: {why}) was not seen: it is gone, or \
                     fails in another way; remove the excuse"
                ));
            }
        }
    }
}
