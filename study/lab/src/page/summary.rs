//! The summary: how many claims hold, and each of them in a row.

use super::found::{Found, Status};
use super::markup::escaped;
use crate::claims::Paper;

/// Where a paper's section is.
pub fn anchor(paper: Paper) -> &'static str {
    match paper {
        Paper::Lfs => "lfs",
        Paper::Thesis => "thesis",
        Paper::Clustering => "clustering",
        Paper::VirtualLog => "virtual-log",
        Paper::Wolf => "wolf",
        Paper::Beyond => "beyond",
    }
}

/// See the module's head.
pub fn summary(found: &[Found]) -> String {
    let mut text = String::from(
        "<section aria-labelledby=\"summary\">\n<h2 id=\"summary\">Summary</h2>\n\
         <ul class=\"counts\">\n",
    );
    for status in Status::ALL {
        let count = found.iter().filter(|f| f.status() == status).count();
        if count > 0 {
            text += &format!(
                "<li class=\"{}\"><strong>{count}</strong> {}</li>\n",
                status.class(),
                status.text()
            );
        }
    }
    text += "</ul>\n<nav aria-label=\"Papers\">\n<ul class=\"papers\">\n";
    for paper in Paper::ALL {
        let heading = escaped(paper.heading());
        text += &format!("<li><a href=\"#{}\">{heading}</a></li>\n", anchor(paper));
    }
    text += "</ul>\n</nav>\n<table class=\"claims\">\n\
        <caption>Every claim, and whether it was reproduced</caption>\n\
        <thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">What is measured</th>\
        <th scope=\"col\">Verdict</th></tr></thead>\n";
    for paper in Paper::ALL {
        text += &format!(
            "<tbody>\n<tr><th class=\"paper\" scope=\"rowgroup\" colspan=\"3\">{}</th></tr>\n",
            escaped(paper.heading())
        );
        found
            .iter()
            .filter(|f| f.claim.paper == paper)
            .for_each(|found| text += &row(found));
        text += "</tbody>\n";
    }
    text + "</table>\n</section>\n"
}

fn row(found: &Found) -> String {
    let (claim, status) = (found.claim, found.status());
    format!(
        "<tr><th scope=\"row\"><a href=\"#{id}\">{id}</a></th><td>{}{}</td>\
         <td><span class=\"badge {}\">{}</span>{}</td></tr>\n",
        escaped(claim.about),
        why(found),
        status.class(),
        status.text(),
        held(found),
        id = claim.id,
    )
}

/// How many parts hold, where not all do, and how many are underdetermined.
fn held(found: &Found) -> String {
    let mut text = String::new();
    let status = found.status();
    if status == Status::NotReproduced {
        let hold = found.parts().filter(|verdict| verdict.pass).count();
        let all = found.parts().count();
        text += &format!("<small>{hold} of {all} parts hold</small>");
    }
    let open = found.underdetermined();
    if open > 0 && status != Status::Quick {
        text += &format!("<small>{open} underdetermined</small>");
    }
    text
}

/// Why it is not reproduced or was not run.
fn why(found: &Found) -> String {
    let reason = match found.status() {
        Status::NotReproduced => found.claim.reason.unwrap_or("No reason was found yet."),
        Status::Underdetermined => match found.claim.needs {
            Some([line, input]) => {
                let needs = format!("{line} does not give {input}.");
                return format!("<p class=\"why\">{}</p>", escaped(&needs));
            }
            None => return String::new(),
        },
        Status::NotRun if found.points > 0 => "Begun, but points are missing: run it again.",
        Status::NotRun if found.claim.experiment().is_some_and(|e| e.only_replays()) => {
            "It replays recorded traces, which do not come with Varve."
        }
        _ => return String::new(),
    };
    format!("<p class=\"why\">{}</p>", escaped(reason))
}
