//! The server's side of `varve resize`.
//!
//! | question | answer |
//! |---|---|
//! | `{"resize": {"bytes": 10737418240}}`, `{"resize": {"bytes": null}}` | `{"before": ..., "bytes": ..., "segments": ..., "device_bytes": ...}` once it has grown to that, or to the whole device; `{"refused": "..."}` |

use serde_json::{Value, json};
use varve::admin::NewSize;
use varve_fuse::Errno;
use varve_lfs::Lfs;

/// The request for a size.
pub fn question(size: NewSize) -> Value {
    let bytes = match size {
        NewSize::Bytes(bytes) => Some(bytes),
        NewSize::Max => None,
    };
    json!({ "resize": { "bytes": bytes } })
}

/// Answers a request about the size of the mount.
///
/// # Errors
/// EINVAL for an invalid request.
pub fn answer(asked: &Value, layout: &Lfs) -> Result<Value, Errno> {
    let invalid = Errno(rustix::io::Errno::INVAL.raw_os_error());
    let asked = asked.as_object().ok_or(invalid)?;
    let known = asked.keys().all(|name| name == "bytes");
    let bytes = match asked.get("bytes") {
        Some(Value::Null) => None,
        Some(Value::Number(bytes)) => Some(bytes.as_u64().ok_or(invalid)?),
        _ => return Err(invalid),
    };
    if !known {
        return Err(invalid);
    }
    Ok(match layout.grow(bytes) {
        Ok(grown) => json!({
            "before": grown.before,
            "bytes": grown.bytes,
            "segments": grown.segments,
            "device_bytes": grown.device_bytes,
        }),
        Err(error) => json!({ "refused": error.to_string() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use varve_device::{HostClock, MemoryDevice};
    use varve_lfs::{FormatOptions, MountOptions};

    #[test]
    fn only_questions_are_answered() {
        let device = Arc::new(MemoryDevice::new(16 << 20));
        let clock = Arc::new(HostClock::default());
        Lfs::format(&*device, &*clock, &FormatOptions::default()).unwrap();
        let lfs = Lfs::mount(device, clock, MountOptions::default()).unwrap();
        for wrong in [
            json!(7),
            json!(null),
            json!({}),
            json!({"bytes": "all"}),
            json!({"bytes": -1}),
            json!({"bytes": 1.5}),
            json!({"bytes": null, "shrink": true}),
        ] {
            assert!(answer(&wrong, &lfs).is_err(), "{wrong}");
        }
        let same = answer(&question(NewSize::Max)["resize"], &lfs).unwrap();
        assert_eq!(
            (&same["before"], &same["bytes"]),
            (&json!(16 << 20), &json!(16 << 20))
        );
        for refused in [
            NewSize::Bytes(8 << 20),
            NewSize::Bytes(u64::MAX),
            NewSize::Bytes(0),
        ] {
            let answer = answer(&question(refused)["resize"], &lfs).unwrap();
            assert!(answer["refused"].is_string(), "{answer}");
        }
    }
}
