//! The policies by name.

use super::{CostBenefit, Greedy, LifeClasses, Policy};
use std::str::FromStr;

/// A policy's name and constructor: a mount has several instances, each with what it has
/// learnt.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKind {
    name: &'static str,
    make: fn() -> Box<dyn Policy>,
}

impl PolicyKind {
    /// [`Greedy`].
    pub const GREEDY: PolicyKind = PolicyKind::new("greedy", || Box::new(Greedy));
    /// [`CostBenefit`].
    pub const COST_BENEFIT: PolicyKind = PolicyKind::new("cost-benefit", || Box::new(CostBenefit));
    /// [`LifeClasses`].
    pub const LIFE_CLASSES: PolicyKind =
        PolicyKind::new("life-classes", || Box::<LifeClasses>::default());
    /// All policies with a name on the command line.
    pub const ALL: [PolicyKind; 3] = [
        PolicyKind::GREEDY,
        PolicyKind::COST_BENEFIT,
        PolicyKind::LIFE_CLASSES,
    ];

    /// A policy of the caller's own. Two with one name count as the same.
    pub const fn new(name: &'static str, make: fn() -> Box<dyn Policy>) -> Self {
        PolicyKind { name, make }
    }

    /// Name of the policy.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// A new instance of the policy.
    pub fn policy(self) -> Box<dyn Policy> {
        (self.make)()
    }
}

impl Default for PolicyKind {
    fn default() -> Self {
        PolicyKind::GREEDY
    }
}

impl PartialEq for PolicyKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyKind {}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = PolicyKind::ALL;
        all.into_iter()
            .find(|kind| kind.name == name)
            .ok_or_else(|| {
                let known = all.map(PolicyKind::name).join(", ");
                format!("there is no cleaning policy `{name}`, but {known}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_policies() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.policy().name(), kind.name());
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!(
            "none".parse::<PolicyKind>().unwrap_err(),
            "there is no cleaning policy `none`, but greedy, cost-benefit, life-classes"
        );
    }
}
