//! Every claim that the laboratory is to examine, whether or not there is an
//! experiment for it yet: where a paper makes it, what the paper states, and
//! what must be measured for it to count as reproduced.
//!
//! A claim has the id of its experiment. What is expected comes from the text
//! and the tables of the papers; of figures that are lost only what the text
//! says of them is binding.

mod beyond;
mod logging;
mod thesis;
mod virtual_log;
mod wolf;

use crate::experiments::{self, Experiment};

/// Where a claim comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// Rosenblum & Ousterhout.
    Lfs,
    /// Seltzer's thesis.
    Thesis,
    /// Seltzer et al.
    Clustering,
    /// Wang, Anderson & Patterson.
    VirtualLog,
    /// Wang & Hu.
    Wolf,
    /// Nowhere: what was not asked before.
    Beyond,
}

impl Paper {
    /// All of them, in the order of their publication.
    pub const ALL: [Paper; 6] = [
        Paper::Lfs,
        Paper::Thesis,
        Paper::Clustering,
        Paper::VirtualLog,
        Paper::Wolf,
        Paper::Beyond,
    ];

    /// Authors, title, where and when it appeared.
    pub fn citation(self) -> &'static str {
        match self {
            Paper::Lfs => {
                "M. Rosenblum, J. K. Ousterhout: The Design and Implementation of a \
                 Log-Structured File System. ACM Transactions on Computer Systems 10(1), 1992"
            }
            Paper::Thesis => {
                "M. I. Seltzer: File System Performance and Transaction Support. \
                 PhD thesis, University of California, Berkeley, 1992"
            }
            Paper::Clustering => {
                "M. Seltzer, K. A. Smith, H. Balakrishnan, J. Chang, S. McMains, V. Padmanabhan: \
                 File System Logging Versus Clustering: A Performance Comparison. USENIX, 1995"
            }
            Paper::VirtualLog => {
                "R. Y. Wang, T. E. Anderson, D. A. Patterson: Virtual Log Based File Systems \
                 for a Programmable Disk. OSDI, 1999"
            }
            Paper::Wolf => {
                "J. Wang, Y. Hu: WOLF, a Novel Reordering Write Buffer to Boost the Performance \
                 of Log-Structured File Systems. FAST, 2002"
            }
            Paper::Beyond => "Beyond the papers",
        }
    }

    /// A few words for headings.
    pub fn heading(self) -> &'static str {
        match self {
            Paper::Lfs => "The log-structured file system (1992)",
            Paper::Thesis => "Allocation, transactions, benchmarks (1992)",
            Paper::Clustering => "Logging against clustering (1995)",
            Paper::VirtualLog => "The virtual log (1999)",
            Paper::Wolf => "WOLF, the reordering write buffer (2002)",
            Paper::Beyond => "Beyond the papers",
        }
    }
}

/// See the module's head.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its id, that of the experiment.
    pub id: &'static str,
    /// Who claims it.
    pub paper: Paper,
    /// Section, table or figure.
    pub source: &'static str,
    /// What is measured, in a line.
    pub about: &'static str,
    /// What the paper states, or what is the goal.
    pub expected: &'static str,
    /// What must hold for it to be reproduced.
    pub criterion: &'static str,
    /// Why it is not reproduced, where it is not and the reason is known.
    pub reason: Option<&'static str>,
    /// The paper's line and the input it does not give, if the whole claim is
    /// underdetermined: without an experiment, it is listed with what would be needed.
    pub needs: Option<[&'static str; 2]>,
}

impl Claim {
    const fn new(
        id: &'static str,
        paper: Paper,
        source: &'static str,
        about: &'static str,
        [expected, criterion]: [&'static str; 2],
    ) -> Self {
        Claim {
            id,
            paper,
            source,
            about,
            expected,
            criterion,
            reason: None,
            needs: None,
        }
    }

    /// Marks the whole claim as underdetermined: `line` does not give `input`.
    const fn underdetermined(self, line: &'static str, input: &'static str) -> Self {
        Claim {
            needs: Some([line, input]),
            ..self
        }
    }

    /// With the reason why it is not reproduced.
    const fn because(self, reason: &'static str) -> Self {
        Claim {
            reason: Some(reason),
            ..self
        }
    }

    /// Its experiment, if it has been built.
    pub fn experiment(&self) -> Option<&'static Experiment> {
        experiments::named(self.id)
    }
}

/// Every claim, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Claim> {
    let papers = [
        logging::ROSENBLUM,
        thesis::CLAIMS,
        logging::CLUSTERING,
        virtual_log::CLAIMS,
        wolf::CLAIMS,
        beyond::CLAIMS,
    ];
    papers.into_iter().flatten()
}

/// The claim of this id.
pub fn named(id: &str) -> Option<&'static Claim> {
    all().find(|claim| claim.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_experiment_examines_a_claim_and_ids_are_unique() {
        let ids: BTreeSet<&str> = all().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), all().count(), "an id is there twice");
        for experiment in experiments::ALL {
            assert!(named(experiment.id).is_some(), "{}", experiment.id);
        }
        let built = all().filter(|claim| claim.experiment().is_some()).count();
        assert_eq!(built, experiments::ALL.len());
    }

    #[test]
    fn claims_stand_paper_by_paper() {
        let mut papers: Vec<Paper> = all().map(|claim| claim.paper).collect();
        papers.dedup();
        assert_eq!(papers, Paper::ALL);
    }
}
