//! The variants of the log for the crash explorer.

use crate::explorer::{Explorer, Plan};
use crate::failure::Failure;
use crate::generator::{Kind, Profile};
use crate::subjects::Log;
use varve_lfs::policy::PolicyKind;

/// A log, the plan of its exploration, and the length of its workloads.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The log.
    pub subject: Log,
    /// The plan of the exploration.
    pub plan: Plan,
    /// Number of operations in a workload.
    pub length: u64,
}

impl Variant {
    /// Returns small segments, blocks of 4096 bytes, the default order.
    pub fn plain(seed: u64) -> Self {
        Variant {
            subject: Log::default(),
            plan: Plan::quick(seed),
            length: 40,
        }
    }

    /// Returns a volume so small that segments are cleaned and reused.
    pub fn under_cleaning(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        variant.subject.device_bytes = 3584 << 10;
        let plan = &mut variant.plan;
        (plan.profile, plan.may_be_full) = (Profile::churn(), true);
        plan.units = vec![4096];
        variant.length = 160;
        variant
    }

    /// Returns the same, with live blocks of several segments moved oldest first.
    pub fn under_sorted_cleaning(seed: u64) -> Self {
        let mut variant = Variant::under_cleaning(seed);
        variant.subject.mount.policy = PolicyKind::COST_BENEFIT;
        variant
    }

    /// Returns a variant in which the cleaner finds live blocks, other operations run,
    /// and then it moves the blocks.
    pub fn with_claims(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        variant.plan.profile.kinds.extend([Kind::Claim; 4]);
        variant.plan.profile.kinds.extend([Kind::Move; 4]);
        variant.plan.units = vec![4096];
        variant
    }

    /// Returns a variant with two cleaners of other processes in addition to the mount's
    /// own, whose policy changes, on a volume so small that segments are reused.
    pub fn with_strangers(seed: u64) -> Self {
        let mut variant = Variant::under_cleaning(seed);
        let kinds = &mut variant.plan.profile.kinds;
        kinds.extend([Kind::Stranger; 30]);
        kinds.extend([Kind::SwitchPolicy, Kind::Maintain, Kind::Kill, Kind::Claim]);
        kinds.push(Kind::Move);
        variant.length = 240;
        variant
    }

    /// Returns a variant in which files are coalesced while they are changed.
    pub fn under_coalescing(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        let profile = &mut variant.plan.profile;
        profile.file_blocks = 8;
        profile.kinds.extend([Kind::Coalesce; 6]);
        variant.plan.units = vec![4096];
        variant
    }

    /// Returns a variant with groups of several partials, and a flush behind the first of
    /// each.
    pub fn with_flushes_between(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        variant.subject.flush_between = true;
        let profile = &mut variant.plan.profile;
        (profile.file_blocks, profile.run_blocks) = (64, 48);
        variant.plan.units = vec![4096];
        variant
    }

    /// Returns a variant with four heads, in which even one block is worth a partial in
    /// another head.
    pub fn with_heads(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        let mount = &mut variant.subject.mount;
        mount.policy = PolicyKind::LIFE_CLASSES;
        (mount.heads, mount.head_bytes) = (4, 4096);
        variant.plan.profile.run_blocks = 8;
        variant.plan.units = vec![4096];
        variant
    }

    /// Returns the same on a volume so small that segments are cleaned and reused.
    pub fn with_heads_under_cleaning(seed: u64) -> Self {
        let mut variant = Variant::under_cleaning(seed);
        variant.subject.mount = Variant::with_heads(seed).subject.mount;
        variant.subject.device_bytes = 6 << 20;
        variant
    }

    /// Returns a variant with heads and a flush behind each partial.
    pub fn with_heads_and_flushes_between(seed: u64) -> Self {
        let mut variant = Variant::with_flushes_between(seed);
        variant.subject.mount = Variant::with_heads(seed).subject.mount;
        variant
    }

    /// Returns a variant in which each life has another number of heads, and some lives
    /// are short.
    pub fn with_changing_heads(seed: u64) -> Self {
        let mut variant = Variant::second_lives(seed);
        variant.subject.mount = Variant::with_heads(seed).subject.mount;
        variant.subject.changing_heads = true;
        variant
    }

    /// Returns a volume so small that segments are cleaned and reused, which grows while
    /// it is used.
    pub fn growing(seed: u64) -> Self {
        let mut variant = Variant::under_cleaning(seed);
        let subject = &mut variant.subject;
        subject.grows_from = Some(subject.device_bytes);
        subject.device_bytes = 16 << 20;
        let kinds = &mut variant.plan.profile.kinds;
        kinds.extend([Kind::SwitchPolicy; 3]);
        kinds.extend([Kind::Kill, Kind::Claim, Kind::Move]);
        variant.plan.units = vec![512, 4096];
        variant
    }

    /// Returns a variant in which holes are filled ahead of the log, and made again when
    /// segments become clean.
    pub fn writing_ahead(seed: u64) -> Self {
        let mut variant = Variant::under_cleaning(seed);
        variant.subject.writes_ahead = true;
        variant.subject.mount.discard = true;
        variant.plan.profile.kinds.extend([Kind::Coalesce; 20]);
        variant
    }

    /// Returns a variant with larger blocks, inodes and segments.
    pub fn with_other_measures(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        variant.subject.device_bytes = 12 << 20;
        variant.subject.format.inode_bytes = 512;
        variant.subject.format.block_bytes = 8192;
        variant.subject.format.segment_bytes = 256 << 10;
        variant.plan.profile.block_bytes = 8192;
        variant
    }

    /// Returns a variant with large holes in files.
    pub fn with_deep_indexes(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        let plan = &mut variant.plan;
        (plan.profile, plan.units) = (Profile::sparse(), vec![4096]);
        variant.length = 30;
        variant
    }

    /// Returns a variant in which everything survives as a prefix, including data.
    pub fn in_strict_order(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        variant.subject.options.strict_order = true;
        variant.plan.strict = true;
        variant
    }

    /// Returns a variant with many unflushed writes, a crash, a short life with similar
    /// writes, and another crash: a partial that one life leaves torn may be completed by
    /// the other.
    pub fn second_lives(seed: u64) -> Self {
        let mut variant = Variant::plain(seed);
        let plan = &mut variant.plan;
        let syncs = [Kind::Fsync, Kind::Sync];
        plan.profile = plan.profile.clone().without(&syncs);
        plan.profile.kinds.extend([Kind::WriteBack; 16]);
        plan.profile.kinds.push(Kind::Fsync);
        (plan.units, plan.nested_one_in) = (vec![512], 3);
        plan.limits.torn_writes = 3;
        variant.length = 20;
        variant
    }

    /// Explores workload number `index` of the plan's seed.
    ///
    /// # Errors
    /// The same as [`Explorer::explore`].
    pub fn explore(&self, explorer: &Explorer<'_, Log>, index: u64) -> Result<(), Failure> {
        explorer.explore_generated(index, self.length, &self.plan)
    }
}
