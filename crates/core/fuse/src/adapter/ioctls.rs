//! ioctls: those of one file (`file_flags.rs`), those of a volume
//! (`maintenance.rs`), and on the mount's root the statistics and what the
//! embedding program adds.

use super::{Adapter, Outcome};
use crate::calls::IoctlRequest;
use crate::calls::{STATISTICS_BYTES, VARVE_IOC_STATS};
use crate::errno::Errno;
use crate::protocol::{IoctlIn, IoctlOut, capability};
use crate::reply::Reply;
use crate::request::Request;
use serde_json::{Map, Value};
use varve_fs::{InodeNo, Layout};

impl<L: Layout> Adapter<L> {
    pub(super) fn ioctl(&self, request: &Request<'_>, reply: &mut Reply) -> Result<Outcome, Errno> {
        let mut arguments = request.arguments();
        let asked: IoctlIn = arguments.take()?;
        let input = arguments.bytes(asked.in_size as usize)?;
        if let Some(outcome) = self.maintenance_ioctl(request, &asked, input, reply)? {
            return Ok(outcome);
        }
        if let Some(outcome) = self.flag_ioctl(request, asked.cmd, input, reply)? {
            return Ok(outcome);
        }
        if request.inode() != InodeNo::ROOT {
            return Err(Errno::NOT_A_TTY);
        }
        let asker = self.asker(request);
        let ioctl = IoctlRequest {
            command: asked.cmd,
            input,
            output_bytes: asked.out_size as usize,
            uid: asker.uid,
            gid: asker.gid,
            pid: request.header.pid,
        };
        let output = match (ioctl.command, &self.ioctl) {
            (VARVE_IOC_STATS, _) => self.statistics_text().into_bytes(),
            (_, Some(handler)) => handler(&ioctl)?,
            (_, None) => return Err(Errno::NOT_A_TTY),
        };
        if output.len() > ioctl.output_bytes {
            return Err(Errno::RANGE);
        }
        reply.put(&IoctlOut::default());
        reply.put_bytes(&output);
        Ok(Outcome::Reply)
    }

    /// The statistics as JSON text, shorter than `STATISTICS_BYTES`.
    pub fn statistics_text(&self) -> String {
        let mut all = self.counters.to_json();
        all.insert("protocol".into(), self.protocol().into());
        let added = self.statistics.as_ref().map(|source| source());
        let mut with_added = all.clone();
        match added
            .as_deref()
            .map(serde_json::from_str::<Map<String, Value>>)
        {
            Some(Ok(added)) => with_added.extend(added),
            Some(Err(error)) => {
                with_added.insert("error".into(), error.to_string().into());
            }
            None => {}
        }
        let text = Value::from(with_added).to_string();
        if text.len() < STATISTICS_BYTES {
            return text;
        }
        all.insert("error".into(), "the rest does not fit".into());
        Value::from(all).to_string()
    }

    fn protocol(&self) -> Map<String, Value> {
        let mut protocol = Map::new();
        if let Some(agreed) = self.negotiated.get() {
            let names = capability::NAMES.iter().filter(|(bit, _)| agreed.has(*bit));
            let names: Vec<Value> = names.map(|(_, name)| (*name).into()).collect();
            protocol.insert("version".into(), format!("7.{}", agreed.minor).into());
            protocol.insert("capabilities".into(), names.into());
        }
        protocol
    }
}
