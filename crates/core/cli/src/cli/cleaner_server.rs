//! The server's side of `varve cleaner`.
//!
//! | question | answer |
//! |---|---|
//! | `{"cleaner": {}}` | the mount's own cleaner, clean segments and their marks, the other cleaners |
//! | `{"cleaner": {"policy": "greedy", "running": true, "low": 10, "high": 20, "idle": 5}}` | the same, after the given settings have been changed; 0 is the default; `{"refused": ...}` if that is impossible |
//!
//! Cleaners of other processes send messages instead ([`varve_lfs::cleaner::wire`]).

use serde_json::{Map, Value, json};
use varve_fuse::{Errno, IoctlRequest};
use varve_lfs::Lfs;
use varve_lfs::cleaner::wire::{MESSAGE_BYTES, Request};
use varve_lfs::cleaner::{CallError, CleanerSettings, CleanerStatus};

const _: () = assert!(MESSAGE_BYTES <= varve_fuse::EXCHANGE_BYTES);

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// Answers a message of a cleaner of another process.
///
/// # Errors
/// EPROTO for bytes that are no message, and the numbers that [`refusal`] decodes.
pub fn exchange(request: &IoctlRequest<'_>, layout: &Lfs) -> Result<Vec<u8>, Errno> {
    use rustix::io::Errno as Os;
    let (cleaner, asked) = Request::parse(request.input).map_err(|_| errno(Os::PROTO))?;
    match layout.cleaner().serve_cleaner(cleaner, asked, request.pid) {
        Ok((cleaner, answer)) => Ok(answer.encode(cleaner)),
        Err(error) => Err(match error {
            CallError::Again => errno(Os::AGAIN),
            CallError::Taken => errno(Os::BUSY),
            CallError::NotThis => errno(Os::NXIO),
            CallError::StillLives(_) => errno(Os::NOTEMPTY),
            CallError::Unknown => errno(Os::STALE),
            CallError::TooMany => errno(Os::USERS),
            CallError::Failed(error) => Errno(varve_fs::Error::from(error).errno()),
        }),
    }
}

/// Decodes an error number of [`exchange`] for a cleaner.
pub fn refusal(error: &std::io::Error) -> varve_lfs::cleaner::client::Refusal {
    use rustix::io::Errno as Os;
    use varve_lfs::cleaner::client::Refusal;
    let code = error.raw_os_error().map(Os::from_raw_os_error);
    match code {
        Some(Os::AGAIN) => Refusal::Again,
        Some(Os::BUSY | Os::NXIO | Os::NOTEMPTY) => Refusal::NotThis,
        Some(Os::STALE) => Refusal::Forgotten,
        Some(Os::NOTTY) => Refusal::Failed("its volume has no segmented log to clean".into()),
        Some(Os::PERM | Os::ACCESS) => {
            Refusal::Failed("only root and whoever mounted it may clean it".into())
        }
        Some(Os::USERS) => Refusal::Failed("as many cleaners as there may be are at work".into()),
        Some(Os::PROTO) => {
            Refusal::Failed("its server is of another version and does not understand".into())
        }
        Some(Os::ROFS) => Refusal::Failed("it takes no changes".into()),
        _ => Refusal::Failed(error.to_string()),
    }
}

/// Serializes reading, changing and setting of the settings.
static CHANGING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// Answers a request about the mount's own cleaner.
///
/// # Errors
/// EINVAL for an invalid request.
pub fn answer(asked: &Value, layout: &Lfs) -> Result<Value, Errno> {
    let invalid = errno(rustix::io::Errno::INVAL);
    let changes = asked.as_object().ok_or(invalid)?;
    if !changes.is_empty() {
        let _one_at_a_time = CHANGING.lock();
        let settings = match change(layout.cleaner().cleaner_settings(), changes) {
            Ok(settings) => settings,
            Err(refused) => return Ok(json!({ "refused": refused })),
        };
        if let Err(refused) = layout.cleaner().set_cleaner(settings) {
            return Ok(json!({"refused": refused.to_string()}));
        }
    }
    Ok(describe(&layout.cleaner().cleaner_status()))
}

fn change(
    mut settings: CleanerSettings,
    changes: &Map<String, Value>,
) -> Result<CleanerSettings, String> {
    for (name, value) in changes {
        let number = || value.as_u64().ok_or_else(|| format!("{name} is a number"));
        let percent = || match number()? {
            0 => Ok(None),
            percent => u8::try_from(percent)
                .map(Some)
                .map_err(|_| format!("{name} is a percentage")),
        };
        let pace = &mut settings.pace;
        match name.as_str() {
            "policy" => settings.policy = value.as_str().unwrap_or_default().parse()?,
            "running" => pace.running = value.as_bool().ok_or("running is true or false")?,
            "low" => pace.low_percent = percent()?,
            "high" => pace.high_percent = percent()?,
            "idle" => {
                let ns = number()?.checked_mul(1_000_000_000);
                pace.idle_ns = Some(ns.ok_or("idle is too long")?).filter(|ns| *ns > 0);
            }
            _ => return Err(format!("a cleaner has no `{name}`")),
        }
    }
    Ok(settings)
}

fn describe(status: &CleanerStatus) -> Value {
    let CleanerStatus {
        settings,
        gauge,
        others,
    } = status;
    let others: Vec<Value> = others
        .iter()
        .map(|info| {
            json!({
                "id": info.id.0,
                "policy": info.policy,
                "pid": info.pid,
                "claims": info.claims,
                "cleaned": info.cleaned,
                "silent_ms": info.silent_ns / 1_000_000,
            })
        })
        .collect();
    json!({
        "mount": {
            "policy": settings.policy.policy().name(),
            "running": settings.pace.running,
            "low_percent": settings.pace.low_percent,
            "high_percent": settings.pace.high_percent,
            "idle_seconds": settings.pace.idle_ns.map(|ns| ns / 1_000_000_000),
        },
        "clean": gauge.clean,
        "floor": gauge.floor,
        "low": gauge.low,
        "high": gauge.high,
        "idle": gauge.idle,
        "waiting": gauge.waiting,
        "cleaners": others,
    })
}
