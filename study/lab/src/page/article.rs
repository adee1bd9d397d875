//! One claim: what the paper states beside what was measured.

use super::base64::data_link;
use super::chart::figure;
use super::found::{Found, Results, Status};
use super::markup::escaped;
use crate::claims::Paper;
use crate::report::Verdict;

/// See the module's head.
pub fn article(found: &Found) -> String {
    let (claim, status) = (found.claim, found.status());
    let mut text = format!(
        "<article id=\"{id}\" aria-labelledby=\"{id}-title\">\n\
         <h3 id=\"{id}-title\">{id}: {}</h3>\n\
         <p><span class=\"badge {}\">{}</span> <span class=\"source\">{}</span></p>\n\
         <dl>\n<dt>{}</dt><dd>{}</dd>\n<dt>Reproduced if</dt><dd>{}</dd>\n",
        escaped(claim.about),
        status.class(),
        status.text(),
        escaped(claim.source),
        match claim.paper {
            Paper::Beyond => "The goal",
            _ => "The paper",
        },
        escaped(claim.expected),
        escaped(claim.criterion),
        id = claim.id,
    );
    if let (Status::NotReproduced, Some(reason)) = (status, claim.reason) {
        text += &format!("<dt>Why not</dt><dd>{}</dd>\n", escaped(reason));
    }
    if let Some([line, input]) = claim.needs {
        text += &format!("<dt>Underdetermined</dt><dd>{line} does not give {input}.</dd>\n");
    }
    text += "</dl>\n";
    match &found.results {
        Some(results) => text += &measured(claim.id, results),
        None => {
            text += &format!(
                "<p>No result yet. Command: <code>varve lab run {}</code></p>\n",
                claim.id
            );
        }
    }
    text + "</article>\n"
}

fn measured(id: &str, results: &Results) -> String {
    let verdicts = |wanted: fn(&Verdict) -> bool| -> Vec<&Verdict> {
        results
            .report
            .verdicts
            .iter()
            .filter(|v| wanted(v))
            .collect()
    };
    let mut text = String::new();
    if results.report.small {
        text += "<p class=\"note\">A run of the tiny size, to see that it works: these figures \
            say nothing of the claim.</p>\n";
    } else if !results.report.decides() {
        text += "<p class=\"note\">A run of fewer than five seeds: what chance does is not known, \
            so nothing is said of the claim.</p>\n";
    }
    let caption = "What was expected, what was measured";
    text += &table(caption, &verdicts(|v| !v.beside));
    text += &figure(id, &results.picture);
    let today = verdicts(|v| v.today);
    if !today.is_empty() {
        text += "<h4>And today?</h4>\n";
        text += &table("The same on models of today's devices", &today);
    }
    let beside = verdicts(|v| v.beside && !v.today);
    if !beside.is_empty() {
        text += &format!(
            "<details>\n<summary>Beside the claim ({})</summary>\n",
            beside.len()
        );
        text += &table("Measured beside the claim, and no part of it", &beside);
        text += "</details>\n";
    }
    text + &provenance(id, results)
}

/// Roles are spelled out, as a narrow screen shows rows as blocks.
fn table(caption: &str, verdicts: &[&Verdict]) -> String {
    let mut text = format!(
        "<table class=\"verdicts\" role=\"table\">\n<caption>{}</caption>\n\
         <thead role=\"rowgroup\"><tr role=\"row\"><th scope=\"col\" role=\"columnheader\">What</th>\
         <th scope=\"col\" role=\"columnheader\">Expected</th>\
         <th scope=\"col\" role=\"columnheader\">Measured</th>\
         <th scope=\"col\" role=\"columnheader\">Holds</th></tr></thead>\n\
         <tbody role=\"rowgroup\">\n",
        escaped(caption)
    );
    for verdict in verdicts {
        let (class, holds) = match (&verdict.needs, verdict.pass) {
            (Some(_), _) => ("open", "underdetermined"),
            (None, true) => ("good", "yes"),
            (None, false) => ("bad", "no"),
        };
        let needs = verdict.needs.iter();
        let needs: String = needs.map(|needs| format!("; not given: {needs}")).collect();
        text += &format!(
            "<tr role=\"row\"><th scope=\"row\" role=\"rowheader\">{}</th>\
             <td role=\"cell\" data-label=\"Expected\">{}</td>\
             <td role=\"cell\" data-label=\"Measured\">{}</td>\
             <td role=\"cell\" data-label=\"Holds\"><span class=\"badge {class}\">{holds}</span>\
             </td></tr>\n",
            escaped(&verdict.claim),
            escaped(&verdict.expected),
            escaped(&(verdict.measured.clone() + &needs)),
        );
    }
    text + "</tbody>\n</table>\n"
}

/// Seed, command, files.
fn provenance(id: &str, results: &Results) -> String {
    let report = &results.report;
    let mut command = format!("varve lab run {id} --seed {}", report.seed);
    if report.small {
        command += " --quick";
    }
    if let Some(seeds) = report.seeds {
        command += &format!(" --seeds {seeds}");
    }
    if let Some(segments) = report.segments {
        command += &format!(" --segments {segments}");
    }
    if report.traces {
        command += " --traces DIR";
    }
    let link = |name: &str, kind: &str, bytes: &[u8]| {
        format!(
            "<a download=\"{id}-{name}\" href=\"{}\">{name}</a> ({})",
            data_link(kind, bytes),
            size(bytes.len())
        )
    };
    format!(
        "<p class=\"provenance\">Seed {}, version {}. <code>{}</code><br>To save: {}, {}, {}</p>\n",
        report.seed,
        escaped(&report.version),
        escaped(&command),
        link("data.csv", "text/csv", &results.data),
        link("verdict.json", "application/json", &results.verdict),
        link("picture.svg", "image/svg+xml", &results.drawing),
    )
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ => format!("{} KB", bytes.div_ceil(1024)),
    }
}
