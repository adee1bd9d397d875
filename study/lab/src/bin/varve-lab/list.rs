//! `varve lab list`: what is examined, and what is not yet.

use serde_json::json;
use varve_console::output;
use varve_lab::claims::{self, Claim, Paper};

/// List the claims that are examined, and those that are not yet.
///
/// A claim has the id of its experiment. Those without an experiment are listed
/// as not built.
#[derive(clap::Args)]
pub struct List {
    /// Only those that are not built.
    #[arg(long)]
    missing: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl List {
    pub fn run(self) -> u8 {
        let listed = |claim: &&Claim| !self.missing || claim.experiment().is_none();
        let claims: Vec<&Claim> = claims::all().filter(listed).collect();
        if self.json {
            let about = |claim: &&Claim| {
                let experiment = claim.experiment();
                json!({
                    "id": claim.id,
                    "paper": claim.paper.heading(),
                    "source": claim.source,
                    "about": claim.about,
                    "expected": claim.expected,
                    "criterion": claim.criterion,
                    "underdetermined": claim.needs,
                    "built": experiment.is_some(),
                    "needs_traces": experiment.is_some_and(|e| e.needs_traces()),
                })
            };
            output::json(&claims.iter().map(about).collect());
            return 0;
        }
        let mut paper: Option<Paper> = None;
        for claim in &claims {
            if paper != Some(claim.paper) {
                let between = if paper.is_some() { "\n" } else { "" };
                output::lines(format_args!("{between}{}", claim.paper.heading()));
                paper = Some(claim.paper);
            }
            output::line(format_args!("  {:<4} {}", claim.id, text(claim)));
        }
        let built = claims::all().filter(|claim| claim.experiment().is_some());
        let (built, all) = (built.count(), claims::all().count());
        output::lines(format_args!("\n{built} of {all} are built"));
        0
    }
}

fn text(claim: &Claim) -> String {
    match claim.experiment() {
        None => match claim.needs {
            Some([line, input]) => {
                format!(
                    "{} (underdetermined: {line} does not give {input})",
                    claim.about
                )
            }
            None => format!("{} (not built)", claim.about),
        },
        Some(e) if e.only_replays() => format!("{} (needs traces)", claim.about),
        Some(e) if e.needs_traces() => format!("{} (traces too, if there are any)", claim.about),
        Some(_) => claim.about.to_owned(),
    }
}
