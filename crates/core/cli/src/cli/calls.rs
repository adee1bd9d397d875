//! Requests of other processes to the server of a mount, over ioctls on its root. Root
//! and the user who mounted may make all of them; every process that can open the root
//! may read the segment map and the statistics.

use super::ship_server::Streams;
use super::snapshot::Snapshots;
use super::txn_server::{self, Transactions};
use super::{cleaner_server, coalesce, resize_server, scrub_server, top_server};
use serde_json::Value;
use std::sync::Arc;
use varve::admin::Verifier;
use varve_fs::FileSystem;
use varve_fuse::{Errno, IoctlHandler, IoctlRequest, VARVE_IOC_ASK, VARVE_IOC_EXCHANGE};
use varve_lfs::Lfs;

/// A handler of requests about `verifier`, the cleaner of `fs` and its transactions, and
/// cleaners of other processes.
pub fn handler(
    verifier: Arc<Verifier>,
    fs: Arc<FileSystem<Lfs>>,
    transactions: Arc<Transactions>,
    streams: Arc<Streams>,
    snapshots: Arc<Snapshots>,
) -> IoctlHandler {
    let owner = rustix::process::geteuid().as_raw();
    Arc::new(move |request: &IoctlRequest<'_>| {
        if ![VARVE_IOC_ASK, VARVE_IOC_EXCHANGE].contains(&request.command) {
            return Err(Errno(rustix::io::Errno::NOTTY.raw_os_error()));
        }
        let foreign = request.uid != 0 && request.uid != owner;
        let forbidden = Errno(rustix::io::Errno::PERM.raw_os_error());
        if request.command == VARVE_IOC_EXCHANGE {
            return match foreign {
                true => Err(forbidden),
                false => cleaner_server::exchange(request, fs.layout()),
            };
        }
        let invalid = Errno(rustix::io::Errno::INVAL.raw_os_error());
        let text = varve_fuse::question_text(request.input).map_err(|_| invalid)?;
        let question: Value = serde_json::from_str(&text).map_err(|_| invalid)?;
        if let Some(answer) = top_server::answer(&question, fs.layout()) {
            return Ok(varve_fuse::answer(&answer.to_string()));
        }
        if foreign {
            return Err(forbidden);
        }
        if let Some(answer) = coalesce::answer(&question, fs.layout()) {
            return Ok(varve_fuse::answer(&answer?.to_string()));
        }
        if let Some(asked) = question.get("transactions") {
            let answer = transactions.answer(asked)?;
            return Ok(varve_fuse::answer(&answer.to_string()));
        }
        if let Some(asked) = question.get("ship") {
            let answer = streams.answer(asked)?;
            return Ok(varve_fuse::answer(&answer.to_string()));
        }
        if let Some(asked) = question.get("snapshots") {
            let answer = snapshots.answer(asked)?;
            return Ok(varve_fuse::answer(&answer.to_string()));
        }
        let answer = match (question.get("cleaner"), question.get("resize")) {
            (Some(asked), _) => cleaner_server::answer(asked, fs.layout())?,
            (_, Some(asked)) => resize_server::answer(asked, fs.layout())?,
            _ => scrub_server::answer(&question, &verifier, fs.layout())?,
        };
        Ok(varve_fuse::answer(&answer.to_string()))
    })
}

/// The reason why a virtual log has no transactions.
pub const NOT_ON_VIRTUAL_LOG: &str = "a volume with the layout vlfs has no transactions: it gives \
     the room of what was displaced back at once, so there is no state to stand on; make the \
     volume with the layout log";

/// The reason why a volume that overwrites blocks in place has no transactions.
pub const NOT_IN_PLACE: &str = "a volume with the layout ffs has no transactions: what is \
     overwritten in place is gone, so there is no state to stand on; make the volume with the \
     layout log";

/// A handler that only reports why there are no transactions.
pub fn handler_without_transactions(why: &'static str) -> IoctlHandler {
    Arc::new(move |request: &IoctlRequest<'_>| {
        let text = varve_fuse::question_text(request.input).unwrap_or_default();
        match text.starts_with("{\"transactions\"") {
            true => txn_server::refuse(request, why),
            false => Err(Errno(rustix::io::Errno::NOTTY.raw_os_error())),
        }
    })
}
