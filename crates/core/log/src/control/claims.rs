//! Reservation of segments, by which several cleaners divide the work.
//!
//! A reservation keeps other cleaners from a segment, and has no other effect.
//! Correctness never depends on it: a move is tested when it is appended (protocol rules
//! 18 and 19), and a segment is reused when no record needs it (rule 20,
//! `docs/design/reuse.md`), regardless of the cleaner that emptied it. So a reservation
//! that is lost, doubled or never released costs work and no data.
//!
//! A cleaner of another process has a *lease* that each of its calls renews. When the
//! lease has expired, the process counts as ended, and its reservations are released. The
//! mount's own cleaner has no lease; it releases its reservations at the end of each
//! pass.

use std::collections::BTreeMap;

/// Nanoseconds without a call after which a cleaner's lease expires.
pub const LEASE_NS: u64 = 10_000_000_000;
/// Most cleaners of other processes at a time.
pub const MAX_CLEANERS: usize = 16;
/// Most segments that one of them may have reserved.
pub const MAX_CLAIMS: usize = 8;

/// A cleaner: the mount's own, or one of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CleanerId(pub u64);

impl CleanerId {
    /// The cleaner in the mount itself.
    pub const OWN: CleanerId = CleanerId(0);
}

/// The reason for which a segment was not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The cleaner has not joined, or its lease has expired.
    Unknown,
    /// Another cleaner has the segment.
    Taken,
    /// The number of cleaners, or of this one's reservations, is at its limit.
    TooMany,
}

/// The lease of one cleaner of another process.
#[derive(Clone, Debug)]
struct Lease {
    until_ns: u64,
    /// Name of its policy, as it states it.
    policy: String,
    /// Its process, as reported by the kernel.
    pid: u32,
    cleaned: u64,
    /// Monotonic time in nanoseconds at which it last cleaned a segment.
    cleaned_ns: Option<u64>,
}

/// Description of a cleaner of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanerInfo {
    /// Its number.
    pub id: CleanerId,
    /// Name of its policy, as it states it.
    pub policy: String,
    /// Its process, as reported by the kernel when it joined.
    pub pid: u32,
    /// Segments that it has reserved.
    pub claims: usize,
    /// Segments it has cleaned.
    pub cleaned: u64,
    /// Nanoseconds since its last call.
    pub silent_ns: u64,
}

#[derive(Clone, Debug)]
struct Claim<T> {
    by: CleanerId,
    what: T,
}

/// All reservations on one volume, each with its owner's data about the segment. Times
/// are monotonic nanoseconds.
#[derive(Debug)]
pub struct Claims<T> {
    segments: BTreeMap<u32, Claim<T>>,
    cleaners: BTreeMap<CleanerId, Lease>,
    next: u64,
}

impl<T> Claims<T> {
    /// No reservations. Numbers of cleaners follow `first`, so that those of one mount
    /// are invalid in another.
    pub fn new(first: u64) -> Self {
        Claims {
            segments: BTreeMap::new(),
            cleaners: BTreeMap::new(),
            next: first,
        }
    }

    /// Removes cleaners whose lease has expired. Returns the number of reservations
    /// released.
    pub fn expire(&mut self, now_ns: u64) -> usize {
        let before = self.segments.len();
        if self.cleaners.values().any(|lease| lease.until_ns < now_ns) {
            self.cleaners.retain(|_, lease| lease.until_ns >= now_ns);
            let known = &self.cleaners;
            self.segments
                .retain(|_, claim| claim.by == CleanerId::OWN || known.contains_key(&claim.by));
        }
        before - self.segments.len()
    }

    /// Adds a cleaner.
    ///
    /// # Errors
    /// `TooMany`.
    pub fn join(&mut self, policy: &str, pid: u32, now_ns: u64) -> Result<CleanerId, ClaimError> {
        self.expire(now_ns);
        if self.cleaners.len() >= MAX_CLEANERS {
            return Err(ClaimError::TooMany);
        }
        let taken = |id: u64, known: &BTreeMap<CleanerId, Lease>| {
            id == CleanerId::OWN.0 || known.contains_key(&CleanerId(id))
        };
        while taken(self.next, &self.cleaners) {
            self.next = self.next.wrapping_add(1);
        }
        let id = CleanerId(self.next);
        self.next = self.next.wrapping_add(1);
        let lease = Lease {
            until_ns: now_ns.saturating_add(LEASE_NS),
            policy: policy.to_owned(),
            pid,
            cleaned: 0,
            cleaned_ns: None,
        };
        let former = self.cleaners.insert(id, lease);
        assert!(former.is_none(), "cleaner {id:?} joins twice");
        assert!(self.cleaners.len() <= MAX_CLEANERS, "too many cleaners");
        Ok(id)
    }

    /// Renews the lease of a cleaner.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn renew(&mut self, id: CleanerId, now_ns: u64) -> Result<(), ClaimError> {
        self.expire(now_ns);
        let lease = self.cleaners.get_mut(&id).ok_or(ClaimError::Unknown)?;
        lease.until_ns = now_ns.saturating_add(LEASE_NS);
        Ok(())
    }

    /// Removes a cleaner, and releases its reservations.
    pub fn leave(&mut self, id: CleanerId) {
        self.cleaners.remove(&id);
        self.release_all(id);
    }

    /// True if `id` may clean `segment`: no other cleaner has reserved it.
    pub fn is_free_for(&self, id: CleanerId, segment: u32) -> bool {
        self.segments.get(&segment).is_none_or(|c| c.by == id)
    }

    /// Reserves a segment, or stores `what` for one that it has reserved already.
    ///
    /// # Errors
    /// `Taken`, `TooMany`; `Unknown` for a process that has not joined.
    pub fn claim(&mut self, id: CleanerId, segment: u32, what: T) -> Result<(), ClaimError> {
        if !self.is_free_for(id, segment) {
            return Err(ClaimError::Taken);
        }
        if id != CleanerId::OWN {
            if !self.cleaners.contains_key(&id) {
                return Err(ClaimError::Unknown);
            }
            let held = self
                .segments
                .iter()
                .filter(|(s, c)| c.by == id && **s != segment);
            if held.count() >= MAX_CLAIMS {
                return Err(ClaimError::TooMany);
            }
        }
        let former = self.segments.insert(segment, Claim { by: id, what });
        assert!(former.is_none_or(|claim| claim.by == id), "claimed by two");
        Ok(())
    }

    /// The data that `id` stored for a segment it has reserved.
    pub fn held(&self, id: CleanerId, segment: u32) -> Option<&T> {
        let claim = self.segments.get(&segment)?;
        (claim.by == id).then_some(&claim.what)
    }

    /// Releases one segment. Returns false if `id` had not reserved it.
    pub fn release(&mut self, id: CleanerId, segment: u32) -> bool {
        let held = self.held(id, segment).is_some();
        if held {
            self.segments.remove(&segment);
        }
        held
    }

    /// Releases all segments that `id` has reserved.
    pub fn release_all(&mut self, id: CleanerId) {
        self.segments.retain(|_, claim| claim.by != id);
    }

    /// Counts a segment that `id` has cleaned.
    pub fn count_cleaned(&mut self, id: CleanerId, now_ns: u64) {
        if let Some(lease) = self.cleaners.get_mut(&id) {
            lease.cleaned += 1;
            lease.cleaned_ns = Some(now_ns);
        }
    }

    /// True if there is a cleaner of another process.
    pub fn has_cleaners(&self) -> bool {
        !self.cleaners.is_empty()
    }

    /// True if one of them has cleaned a segment within the time of a lease.
    pub fn gains(&self, now_ns: u64) -> bool {
        let fresh = |lease: &Lease| {
            let at = lease.cleaned_ns;
            at.is_some_and(|at| now_ns.saturating_sub(at) < LEASE_NS)
        };
        self.cleaners.values().any(fresh)
    }

    /// The cleaners of other processes.
    pub fn cleaners(&self, now_ns: u64) -> Vec<CleanerInfo> {
        let info = |(id, lease): (&CleanerId, &Lease)| CleanerInfo {
            id: *id,
            policy: lease.policy.clone(),
            pid: lease.pid,
            claims: self.segments.values().filter(|c| c.by == *id).count(),
            cleaned: lease.cleaned,
            silent_ns: (now_ns + LEASE_NS).saturating_sub(lease.until_ns),
        };
        self.cleaners.iter().map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: CleanerId = CleanerId::OWN;

    #[test]
    fn one_cleaner_at_a_time_has_a_segment() {
        let mut claims = Claims::new(7);
        let a = claims.join("greedy", 1, 0).unwrap();
        let b = claims.join("cost-benefit", 2, 0).unwrap();
        assert_ne!(a, b);
        claims.claim(a, 3, "a").unwrap();
        assert_eq!(claims.claim(b, 3, "b"), Err(ClaimError::Taken));
        assert_eq!(claims.claim(OWN, 3, "own"), Err(ClaimError::Taken));
        claims.claim(a, 3, "again").unwrap();
        assert_eq!(claims.held(a, 3), Some(&"again"));
        assert_eq!(claims.held(b, 3), None);
        assert!(!claims.release(b, 3));
        assert!(claims.release(a, 3));
        claims.claim(b, 3, "b").unwrap();
        claims.leave(b);
        claims.claim(OWN, 3, "own").unwrap();
        assert_eq!(claims.claim(a, 3, "a"), Err(ClaimError::Taken));
        claims.release_all(OWN);
        assert!(claims.is_free_for(a, 3));
    }

    #[test]
    fn claims_of_the_silent_expire_and_those_of_the_others_do_not() {
        let mut claims = Claims::new(0);
        let dead = claims.join("greedy", 1, 0).unwrap();
        let alive = claims.join("greedy", 2, 0).unwrap();
        for (id, segment) in [(dead, 1), (alive, 2), (OWN, 3)] {
            claims.claim(id, segment, ()).unwrap();
        }
        claims.renew(alive, LEASE_NS).unwrap();
        assert_eq!(claims.expire(LEASE_NS), 0);
        assert_eq!(claims.expire(LEASE_NS + 1), 1);
        assert!(claims.is_free_for(alive, 1));
        assert!(!claims.is_free_for(OWN, 2));
        assert_eq!(claims.renew(dead, LEASE_NS + 1), Err(ClaimError::Unknown));
        assert_eq!(claims.claim(dead, 5, ()), Err(ClaimError::Unknown));
        assert_eq!(claims.expire(u64::MAX), 1);
        assert!(claims.held(OWN, 3).is_some());
    }

    #[test]
    fn there_are_only_so_many_cleaners_and_claims() {
        let mut claims = Claims::new(u64::MAX);
        let ids: Vec<_> = (0..MAX_CLEANERS)
            .map(|_| claims.join("x", 1, 5).unwrap())
            .collect();
        assert!(!ids.contains(&OWN), "the numbers wrap past the mount's own");
        assert_eq!(claims.join("x", 1, 5), Err(ClaimError::TooMany));
        for segment in 0..MAX_CLAIMS as u32 {
            claims.claim(ids[0], segment, ()).unwrap();
        }
        assert_eq!(claims.claim(ids[0], 99, ()), Err(ClaimError::TooMany));
        claims.claim(ids[0], 0, ()).unwrap();
        claims.claim(ids[1], 99, ()).unwrap();
        let infos = claims.cleaners(6);
        assert_eq!(infos.len(), MAX_CLEANERS);
        let first = infos.iter().find(|info| info.id == ids[0]).unwrap();
        assert_eq!((first.claims, first.silent_ns), (MAX_CLAIMS, 1));
    }

    #[test]
    fn a_cleaner_gains_for_as_long_as_a_lease_after_each_segment() {
        let mut claims: Claims<()> = Claims::new(1);
        assert!(!claims.has_cleaners() && !claims.gains(0));
        let id = claims.join("greedy", 1, 0).unwrap();
        assert!(claims.has_cleaners() && !claims.gains(0));
        claims.count_cleaned(id, 10);
        claims.count_cleaned(id, 20);
        assert!(claims.gains(20 + LEASE_NS - 1) && !claims.gains(20 + LEASE_NS));
        assert_eq!(claims.cleaners(0)[0].cleaned, 2);
    }

    #[test]
    fn a_number_in_use_is_given_to_nobody_else() {
        let mut claims: Claims<()> = Claims::new(3);
        let first = claims.join("x", 1, 0).unwrap();
        claims.next = 3;
        assert_eq!(
            (first, claims.join("x", 1, 0)),
            (CleanerId(3), Ok(CleanerId(4)))
        );
    }
}
