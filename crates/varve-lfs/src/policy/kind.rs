//! The policies by name.

use super::{
    Adaptive, AgeThreshold, CostBenefit, Greedy, HolePlugging, LifeClasses, Policy, SepBit,
    TransferModel,
};
use std::str::FromStr;

/// The policies by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// [`Greedy`].
    #[default]
    Greedy,
    /// [`CostBenefit`].
    CostBenefit,
    /// [`AgeThreshold`].
    AgeThreshold,
    /// [`HolePlugging`].
    HolePlugging,
    /// [`Adaptive`] with one buffer, for a disk.
    Adaptive,
    /// [`SepBit`].
    SepBit,
    /// [`LifeClasses`].
    LifeClasses,
}

impl PolicyKind {
    /// Every one.
    pub const ALL: [PolicyKind; 7] = [
        PolicyKind::Greedy,
        PolicyKind::CostBenefit,
        PolicyKind::AgeThreshold,
        PolicyKind::HolePlugging,
        PolicyKind::Adaptive,
        PolicyKind::SepBit,
        PolicyKind::LifeClasses,
    ];

    /// The policy itself.
    pub fn policy(self) -> Box<dyn Policy> {
        match self {
            PolicyKind::Greedy => Box::new(Greedy),
            PolicyKind::CostBenefit => Box::new(CostBenefit),
            PolicyKind::AgeThreshold => Box::new(AgeThreshold),
            PolicyKind::HolePlugging => Box::new(HolePlugging),
            PolicyKind::Adaptive => Box::new(Adaptive::new(TransferModel::ATLAS_10K, 1)),
            PolicyKind::SepBit => Box::<SepBit>::default(),
            PolicyKind::LifeClasses => Box::<LifeClasses>::default(),
        }
    }

    /// The names of those that a mount can follow, for people.
    pub fn names_for_mounts() -> String {
        let mounted = PolicyKind::ALL.iter().filter(|kind| !kind.needs_holes());
        let names: Vec<&str> = mounted.map(|kind| kind.policy().name()).collect();
        names.join(", ")
    }

    /// Whether it plugs holes, which only the simulator can.
    pub fn needs_holes(self) -> bool {
        matches!(self, PolicyKind::HolePlugging | PolicyKind::Adaptive)
    }
}

/// Those that a mounted log can follow.
impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mounted = PolicyKind::ALL.iter().filter(|kind| !kind.needs_holes());
        let names: Vec<(&str, PolicyKind)> =
            mounted.map(|kind| (kind.policy().name(), *kind)).collect();
        if let Some((_, kind)) = names.iter().find(|(known, _)| *known == name) {
            return Ok(*kind);
        }
        let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
        Err(format!(
            "there is no cleaning policy `{name}` for a mount, but {}",
            known.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_policies_that_a_mount_can_follow() {
        for kind in PolicyKind::ALL {
            let parsed = kind.policy().name().parse::<PolicyKind>();
            assert_eq!(parsed.is_ok(), !kind.needs_holes(), "{kind:?}");
            assert!(parsed.is_err() || parsed == Ok(kind));
        }
        assert_eq!(
            "none".parse::<PolicyKind>().unwrap_err(),
            "there is no cleaning policy `none` for a mount, but greedy, cost-benefit, age-threshold, \
             sepbit, life-classes"
        );
    }
}
