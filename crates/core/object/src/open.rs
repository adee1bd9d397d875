//! Making and opening a volume: recovery, and the fence of a new writer.

use crate::chain::{Chain, checksum_of};
use crate::device::ObjectDevice;
use crate::error::{Error, Result};
use crate::format::{
    Content, Decoded, Flaw, LogObject, MapId, MapObject, ROOT, Root, log_name, map_name,
    parse_log_name, parse_map_name, prefix,
};
use crate::layers::Layers;
use crate::parallel::in_parallel;
use crate::planted::Planted;
use crate::request::{Created, Requester};
use crate::settings::{Opening, Settings, Takeover};
use crate::store::Store;
use crate::volume::Volume;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Attempts to find the end of a log that another writer shortens meanwhile.
const ATTEMPTS: u32 = 20;
/// Log objects that are in memory at once, before they are replayed.
const AT_ONCE: u64 = 64;

/// A state of the log: its end, and the layers there.
struct Recovered {
    last: Option<LogObject>,
    checksum: u32,
    base: MapId,
    layers: Layers,
    fences: BTreeSet<u64>,
    behind: u64,
    behind_bytes: u64,
}

impl ObjectDevice {
    /// Makes a volume of `size` bytes, which takes space only as it is written. Its
    /// objects are of at most `extent_bytes`, a power of two from 64 KiB to 64 MiB.
    ///
    /// # Errors
    /// `AlreadyExists`; `NotCreateOnly` if the store lets several of eight parallel
    /// requests create one object; `Store`.
    pub fn create(
        store: &Arc<dyn Store>,
        size: u64,
        extent_bytes: u64,
        opening: &Opening,
    ) -> Result<()> {
        let requester = opening.requester(store);
        let root = Root {
            volume: rand::random(),
            extent_bytes,
            size,
        };
        root.check()
            .map_err(|flaw| damaged(&requester, ROOT, flaw))?;
        if requester.get(ROOT)?.is_some() {
            return Err(Error::AlreadyExists(requester.name()));
        }
        race(store, root.volume)?;
        let map = Layers {
            size,
            ..Layers::default()
        };
        let map = map.stored.map(MapId::FIRST, size, 0, Vec::new());
        requester.create_own(&map_name(root.volume, MapId::FIRST), &map.encode())?;
        match requester.create(ROOT, &root.encode())? {
            Created::Own => Ok(()),
            Created::Other(_) => Err(Error::AlreadyExists(requester.name())),
        }
    }

    /// Removes a volume's root, so that another one can be made; its objects stay until
    /// they are deleted by other means.
    ///
    /// # Errors
    /// `Store`.
    pub fn remove(store: &Arc<dyn Store>, opening: &Opening) -> Result<()> {
        Ok(opening.requester(store).delete(ROOT)?)
    }

    /// Opens the volume of a store at its newest state. A writer first creates the next
    /// log object, its fence: from then on no earlier writer can acknowledge anything.
    ///
    /// # Errors
    /// `NoVolume`; `InUse` if another writer has not ended; `Damaged`, `Missing`,
    /// `Store`.
    pub fn open(store: &Arc<dyn Store>, opening: &Opening) -> Result<Self> {
        let requester = opening.requester(store);
        let root = match requester.get(ROOT)? {
            Some(object) => {
                Root::decode(&object).map_err(|flaw| damaged(&requester, ROOT, flaw))?
            }
            None => return Err(Error::NoVolume(requester.name())),
        };
        if opening.read_only {
            let found = recover(&requester, &root, &opening.settings)?;
            let volume = Volume::new(root, opening, requester, found.layers);
            return Ok(ObjectDevice::of(volume, None));
        }
        for _ in 0..ATTEMPTS {
            let found = recover(&requester, &root, &opening.settings)?;
            let found = match await_turn(&requester, &root, opening, found)? {
                Some(found) => found,
                None => continue,
            };
            if let Some(chain) = fence(&requester, &root, opening, &found)? {
                let volume = Volume::new(root, opening, requester, found.layers);
                return Ok(ObjectDevice::of(volume, Some(chain)));
            }
        }
        Err(Error::Stopped(format!(
            "other writers took {} over {ATTEMPTS} times meanwhile",
            requester.name()
        )))
    }
}

/// Tries whether the store lets one of several writers win.
fn race(store: &Arc<dyn Store>, volume: u128) -> Result<()> {
    let name = format!("{}probe", prefix(volume));
    let won = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8_u8)
            .map(|racer| {
                let name = &name;
                scope.spawn(move || store.create(name, &[&[racer]]))
            })
            .collect();
        let ended = racers.into_iter().map(|racer| racer.join());
        ended.filter(|result| matches!(result, Ok(Ok(())))).count()
    });
    store.delete(&name)?;
    match won {
        // Answers may have been lost, or all requests refused: another request says so.
        0 | 1 => Ok(()),
        more => Err(Error::NotCreateOnly(store.name(), more)),
    }
}

fn damaged(requester: &Requester, object: &str, flaw: Flaw) -> Error {
    Error::Damaged {
        store: requester.name(),
        object: object.to_owned(),
        flaw,
    }
}

fn decoded<T>(requester: &Requester, name: &str, answer: Decoded<T>) -> Result<T> {
    answer.map_err(|flaw| damaged(requester, name, flaw))
}

/// A log object and its checksum; none if it is missing.
fn log_object(
    requester: &Requester,
    root: &Root,
    number: u64,
) -> Result<Option<(LogObject, u32, u64)>> {
    let name = log_name(root.volume, number);
    let Some(bytes) = requester.get(&name)? else {
        return Ok(None);
    };
    let object = decoded(requester, &name, LogObject::decode(&bytes))?;
    if object.number != number {
        return Err(damaged(requester, &name, Flaw::Value("number")));
    }
    Ok(Some((object, checksum_of(&bytes), bytes.len() as u64)))
}

/// The newest state. The writer may go on and delete what this began with; then it is
/// begun anew.
fn recover(requester: &Requester, root: &Root, settings: &Settings) -> Result<Recovered> {
    let mut missing = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            requester.pause(Duration::from_millis(100) * attempt);
        }
        match recover_once(requester, root, settings)? {
            Ok(found) => return Ok(found),
            Err(name) => missing = name,
        }
    }
    Err(Error::Missing {
        store: requester.name(),
        object: missing,
    })
}

/// The newest state, or the name of an object that was deleted meanwhile.
fn recover_once(
    requester: &Requester,
    root: &Root,
    settings: &Settings,
) -> Result<std::result::Result<Recovered, String>> {
    // A list may lack the newest objects, and have ones that were deleted: it only says
    // where to begin.
    let listed = requester.list(&format!("{}log/", prefix(root.volume)), "")?;
    let numbers = listed
        .iter()
        .filter_map(|object| parse_log_name(root.volume, &object.name));
    let begin = numbers.max().unwrap_or(0);
    let mut last = None;
    let mut number = begin.max(1);
    loop {
        let is_error = |name: &str| requester.get_once(name).is_err();
        if settings.planted(Planted::ErrorIsEnd) && is_error(&log_name(root.volume, number)) {
            break;
        }
        let Some(found) = log_object(requester, root, number)? else {
            break;
        };
        last = Some(found);
        number += 1;
        if settings.planted(Planted::ListBelieved) {
            break;
        }
    }
    if last.is_none() && begin > 0 {
        return Ok(Err(log_name(root.volume, begin)));
    }
    let mut base = last
        .as_ref()
        .map_or(MapId::FIRST, |(object, _, _)| object.map());
    if settings.planted(Planted::UnnamedMap) {
        let maps = requester.list(&format!("{}map/", prefix(root.volume)), "")?;
        let maps = maps.iter();
        let newest = maps.filter_map(|map| parse_map_name(root.volume, &map.name));
        base = newest.max().unwrap_or(base);
    }
    let name = map_name(root.volume, base);
    let Some(bytes) = requester.get(&name)? else {
        return Ok(Err(name));
    };
    let map = decoded(requester, &name, MapObject::decode(&bytes))?;
    if map.id != base {
        return Err(damaged(requester, &name, Flaw::Value("number")));
    }
    let now = requester.now();
    let mut layers = Layers::of_map(&map);
    layers.stored.named(base, now);
    let mut found = Recovered {
        last: None,
        checksum: map.previous,
        base,
        layers,
        fences: map.fences.iter().copied().collect(),
        behind: 0,
        behind_bytes: 0,
    };
    let mut next = base.number + 1;
    while next < number {
        let numbers: Vec<u64> = (next..number.min(next + AT_ONCE)).collect();
        let objects: Vec<_> = numbers.iter().map(|_| OnceLock::new()).collect();
        in_parallel(settings.parallel, &numbers, |number| {
            let object = log_object(requester, root, *number)?;
            let _ = objects[(number - next) as usize].set(object);
            Ok(())
        })?;
        for (number, object) in numbers.iter().zip(objects) {
            let name = || log_name(root.volume, *number);
            let Some((object, checksum, bytes)) = object.into_inner().flatten() else {
                return Ok(Err(name()));
            };
            if object.previous != found.checksum {
                return Err(damaged(requester, &name(), Flaw::Value("predecessor")));
            }
            if !found.layers.admits(&object) {
                return Err(damaged(requester, &name(), Flaw::Value("object")));
            }
            found.replay(object, checksum, bytes, now);
        }
        next += AT_ONCE;
    }
    Ok(Ok(found))
}

impl Recovered {
    fn replay(&mut self, object: LogObject, checksum: u32, bytes: u64, now: i64) {
        self.layers.apply(&object, now);
        if object.content == Content::Fence && !self.is_closed() {
            self.fences.insert(object.number);
        }
        self.checksum = checksum;
        self.behind += 1;
        self.behind_bytes += bytes;
        self.last = Some(object);
    }

    /// True if no writer has the volume open.
    fn is_closed(&self) -> bool {
        match &self.last {
            Some(last) => last.content == Content::Close,
            None => self.base == MapId::FIRST,
        }
    }

    fn number(&self) -> u64 {
        self.last
            .as_ref()
            .map_or(self.base.number, |last| last.number)
    }
}

/// Decides whether this writer may go on from a state. None if the other one did.
fn await_turn(
    requester: &Requester,
    root: &Root,
    opening: &Opening,
    found: Recovered,
) -> Result<Option<Recovered>> {
    let Some(last) = found.last.as_ref().filter(|_| !found.is_closed()) else {
        return Ok(Some(found));
    };
    if last.holder.has_ended() {
        return Ok(Some(found));
    }
    match opening.takeover {
        Takeover::Now => Ok(Some(found)),
        Takeover::Never => {
            let idle = opening.clock.now_ns().saturating_sub(last.time);
            Err(Error::InUse {
                store: requester.name(),
                holder: last.holder.clone(),
                idle: Duration::from_nanos(u64::try_from(idle).unwrap_or(0)),
            })
        }
        Takeover::Idle(time) => {
            // By the clock of this host only, as those of two may differ.
            let begun = opening.clock.monotonic_ns();
            let next = log_name(root.volume, found.number() + 1);
            let passed = || opening.clock.monotonic_ns().saturating_sub(begun);
            while u128::from(passed()) < time.as_nanos() {
                requester.pause((time / 8).min(Duration::from_secs(5)));
                if requester.get(&next)?.is_some() {
                    return Ok(None);
                }
            }
            Ok(Some(found))
        }
    }
}

/// Creates the fence of a writer behind a state. None if another writer went on.
fn fence(
    requester: &Requester,
    root: &Root,
    opening: &Opening,
    found: &Recovered,
) -> Result<Option<Chain>> {
    let maps = match &found.last {
        Some(last) => last.maps.clone(),
        None => vec![found.base],
    };
    let object = LogObject {
        number: found.number() + 1,
        epoch: found.last.as_ref().map_or(0, |last| last.epoch) + 1,
        identity: opening.identity,
        previous: found.checksum,
        time: opening.clock.now_ns(),
        size: found.layers.size,
        maps: maps.clone(),
        holder: opening.settings.holder.clone(),
        content: Content::Fence,
    };
    let bytes = object.encode();
    let name = log_name(root.volume, object.number);
    if let Created::Other(_) = requester.create(&name, &bytes)? {
        return Ok(None);
    }
    // A number is free again once its log object was deleted. The map is deleted first.
    if requester.get(&map_name(root.volume, found.base))?.is_none() {
        return Ok(None);
    }
    let mut fences = found.fences.clone();
    if !found.is_closed() {
        fences.insert(object.number);
    }
    Ok(Some(Chain {
        number: object.number,
        previous: checksum_of(&bytes),
        epoch: object.epoch,
        identity: object.identity,
        name_epoch: match opening.settings.planted(Planted::NamesUsedAgain) {
            true => 1,
            false => object.epoch,
        },
        serial: 0,
        oldest: maps[0].number + 1,
        named: maps.len(),
        maps: VecDeque::from(maps),
        behind: found.behind + 1,
        behind_bytes: found.behind_bytes + bytes.len() as u64,
        fences,
        swept: false,
        stopped: None,
    }))
}
