//! What lies in the directory of results, claim by claim.

use crate::claims::Claim;
use crate::error::LabError;
use crate::experiments::Report;
use crate::report::{Picture, Verdict};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A claim and what was found.
#[derive(Debug)]
pub struct Found {
    /// What is claimed.
    pub claim: &'static Claim,
    /// The results, if it was run to the end.
    pub results: Option<Results>,
    /// Points that are there although it did not end.
    pub points: usize,
}

/// The files of an experiment.
#[derive(Debug)]
pub struct Results {
    /// What it was run with, and the verdicts.
    pub report: Report,
    /// The picture, to be drawn.
    pub picture: Picture,
    /// `data.csv`.
    pub data: Vec<u8>,
    /// `verdict.json`.
    pub verdict: Vec<u8>,
    /// `picture.svg`.
    pub drawing: Vec<u8>,
}

/// What is said of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Every part of it holds.
    Reproduced,
    /// Some part does not.
    NotReproduced,
    /// The paper does not give the inputs of any part that was measured, or of the
    /// whole claim.
    Underdetermined,
    /// It was run at the tiny size or with few seeds, which decides nothing.
    Quick,
    /// It was run without what its parts need, such as traces.
    NoParts,
    /// There is an experiment, and no result.
    NotRun,
    /// There is no experiment.
    NotBuilt,
}

impl Status {
    /// All of them, best first.
    pub const ALL: [Status; 7] = [
        Status::Reproduced,
        Status::NotReproduced,
        Status::Underdetermined,
        Status::Quick,
        Status::NoParts,
        Status::NotRun,
        Status::NotBuilt,
    ];

    /// As people read it.
    pub fn text(self) -> &'static str {
        match self {
            Status::Reproduced => "reproduced",
            Status::NotReproduced => "not reproduced",
            Status::Underdetermined => "underdetermined",
            Status::Quick => "quick run only",
            Status::NoParts => "no part measured",
            Status::NotRun => "not run",
            Status::NotBuilt => "not built",
        }
    }

    /// As the style sheet calls it.
    pub fn class(self) -> &'static str {
        match self {
            Status::Reproduced => "good",
            Status::NotReproduced => "bad",
            Status::Underdetermined
            | Status::Quick
            | Status::NoParts
            | Status::NotRun
            | Status::NotBuilt => "open",
        }
    }
}

impl Found {
    /// Looks for a claim's results: those of the usual size, or of the tiny one.
    /// Where there is no experiment there are none; what lies there under its id
    /// is another's, as L1 once was N4. What has no `picture.json` is of a version
    /// that had no page.
    ///
    /// # Errors
    /// A file cannot be read, or is none of ours.
    pub fn look(directory: &Path, claim: &'static Claim) -> Result<Self, LabError> {
        let full = directory.join(claim.id);
        let small = directory.join(format!("{}-small", claim.id));
        let is_there = |place: &&PathBuf| {
            let files = ["verdict.json", "picture.json"];
            claim.experiment().is_some() && files.iter().all(|file| place.join(file).exists())
        };
        let place = [&full, &small].into_iter().find(is_there);
        let results = place.map(|place| Results::read(place)).transpose()?;
        let points = match results {
            Some(_) => 0,
            None => points(&full),
        };
        Ok(Found {
            claim,
            results,
            points,
        })
    }

    /// Whether there is an experiment.
    pub fn is_built(&self) -> bool {
        self.claim.experiment().is_some()
    }

    /// Parts of the claim whose inputs the paper gives.
    pub fn parts(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts().filter(|verdict| verdict.counts())
    }

    /// Number of parts of the claim that the paper leaves underdetermined.
    pub fn underdetermined(&self) -> usize {
        let open = |verdict: &&Verdict| !verdict.beside && verdict.needs.is_some();
        self.verdicts().filter(open).count()
    }

    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let results = self.results.iter();
        results.flat_map(|results| &results.report.verdicts)
    }

    /// What is said of it.
    pub fn status(&self) -> Status {
        match &self.results {
            None if self.is_built() => Status::NotRun,
            None if self.claim.needs.is_some() => Status::Underdetermined,
            None => Status::NotBuilt,
            Some(results) if !results.report.decides() => Status::Quick,
            Some(_) if self.parts().next().is_none() => match self.underdetermined() {
                0 => Status::NoParts,
                _ => Status::Underdetermined,
            },
            Some(_) => match self.parts().all(|verdict| verdict.pass) {
                true => Status::Reproduced,
                false => Status::NotReproduced,
            },
        }
    }

    /// Of the program that measured it.
    pub fn version(&self) -> Option<&str> {
        Some(&self.results.as_ref()?.report.version)
    }
}

impl Results {
    fn read(place: &Path) -> Result<Self, LabError> {
        let bytes = |name: &str| {
            let path = place.join(name);
            std::fs::read(&path).map_err(|source| LabError::Io { path, source })
        };
        let verdict = bytes("verdict.json")?;
        Ok(Results {
            report: parsed(&place.join("verdict.json"), &verdict)?,
            picture: parsed(&place.join("picture.json"), &bytes("picture.json")?)?,
            data: bytes("data.csv")?,
            drawing: bytes("picture.svg")?,
            verdict,
        })
    }
}

fn parsed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, LabError> {
    serde_json::from_slice(bytes).map_err(|error| LabError::Io {
        path: path.to_owned(),
        source: std::io::Error::other(error),
    })
}

/// Points that lie in a directory.
fn points(place: &Path) -> usize {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap_or_default());
    let is_point = |name: &String| name.starts_with("point-") && name.ends_with(".json");
    names.filter(is_point).count()
}
