//! All results of a directory as one page of HTML: nothing is loaded from
//! elsewhere, nothing needs a script, and what was measured can be saved from it.
//!
//! The same results give the same bytes.

mod article;
mod base64;
mod chart;
mod found;
mod markup;
mod summary;

use crate::claims::{self, Paper};
use crate::error::LabError;
use found::Found;
use markup::escaped;
use std::path::Path;

/// Makes the page of what lies in `directory`, where `run` put it.
///
/// # Errors
/// There is no such directory, or a result in it cannot be read.
pub fn page(directory: &Path) -> Result<String, LabError> {
    std::fs::read_dir(directory).map_err(|source| LabError::Io {
        path: directory.to_owned(),
        source,
    })?;
    let found: Vec<Found> = claims::all()
        .map(|claim| Found::look(directory, claim))
        .collect::<Result<_, _>>()?;
    let mut page = String::from(HEAD);
    page += "<header>\n<h1>What the papers measured, measured again</h1>\n";
    page += INTRODUCTION;
    page += "</header>\n";
    page += &summary::summary(&found);
    for paper in Paper::ALL {
        page += &section(paper, &found);
    }
    page += &footer(&found);
    page += "</main>\n</body>\n</html>\n";
    Ok(page)
}

const HEAD: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<meta name=\"color-scheme\" content=\"light dark\">\n",
    "<title>Varve: what the papers measured, measured again</title>\n<style>\n",
    include_str!("style.css"),
    "</style>\n</head>\n<body>\n",
    "<a class=\"skip\" href=\"#summary\">To the summary</a>\n<main>\n",
);

const INTRODUCTION: &str = "<p class=\"lead\">Five works made log-structured storage what it is: \
    the log-structured file system, Seltzer's thesis on allocation and transactions, logging \
    against clustering, the virtual log, and WOLF. Varve implements what they describe, and its \
    laboratory repeats what they measured. This page holds each of their claims against what came \
    out.</p>\n\
    <p>Experiments run Varve's own code, the same that is mounted, on simulated drives and a \
    virtual clock; the studies that were simulations in the papers are simulations here. Time of \
    processors is charged from a table, so the same seed gives the same bytes on any machine; \
    only R5 asks in one line for the time of the host that it ran on. Where chance decides, figures are means over several seeds, with their \
    95 % confidence in the data. Nothing is tuned until it fits: a claim that is not reproduced \
    is shown as that, with the reason where one was found.</p>\n";

fn section(paper: Paper, found: &[Found]) -> String {
    let of_paper = || found.iter().filter(|f| f.claim.paper == paper);
    let mut text = format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n",
        escaped(paper.heading()),
        id = summary::anchor(paper),
    );
    if paper != Paper::Beyond {
        text += &format!("<p class=\"citation\">{}</p>\n", escaped(paper.citation()));
    }
    for found in of_paper().filter(|f| f.is_built()) {
        text += &article::article(found);
    }
    let missing: Vec<&Found> = of_paper().filter(|f| !f.is_built()).collect();
    if !missing.is_empty() {
        text += "<h3>Not built yet</h3>\n<ul>\n";
        for found in missing {
            let claim = found.claim;
            text += &format!(
                "<li id=\"{id}\"><strong>{id}</strong> ({}): {}. Expected: {}.</li>\n",
                escaped(claim.source),
                escaped(claim.about),
                escaped(claim.expected),
                id = claim.id,
            );
        }
        text += "</ul>\n";
    }
    text + "</section>\n"
}

fn footer(found: &[Found]) -> String {
    let mut versions: Vec<&str> = found.iter().filter_map(Found::version).collect();
    versions.sort_unstable();
    versions.dedup();
    let version = match versions[..] {
        [] => "nothing was run".into(),
        _ => format!("measured by Varve {}", versions.join(", ")),
    };
    format!(
        "<footer>\n<p>Made by <code>varve lab report</code>; {}. To measure it yourself: \
         <code>varve lab run all --out lab</code>, then <code>varve lab report lab</code>.</p>\n\
         </footer>\n",
        escaped(&version)
    )
}

#[cfg(test)]
mod tests;
