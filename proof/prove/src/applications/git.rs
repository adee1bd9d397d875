//! git: commits, branches, and packs that replace loose objects.
//!
//! The state is every reference and its target. The checker is `git fsck --strict`, and a
//! read of the index.

use super::{Application, Diary, State, at, filler, output, sync_directory};
use crate::random::Random;
use std::path::Path;
use std::process::Command;

/// git, with synced writes.
pub struct Git;

impl Git {
    /// git with `core.fsync=all`. git never syncs a directory, so the harness does after
    /// each command, and only then is the command durable.
    pub const SYNCED: Git = Git;
}

fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir);
    for setting in [
        "core.fsync=all",
        "core.fsyncMethod=fsync",
        "gc.auto=0",
        "safe.directory=*",
        "user.name=n",
        "user.email=e@example.org",
    ] {
        command.args(["-c", setting]);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn references(dir: &Path) -> Result<State, String> {
    let format = "--format=%(refname) %(objectname)";
    let all = output(git(dir).args(["for-each-ref", format]))?;
    let head = output(git(dir).args(["symbolic-ref", "HEAD"]))?;
    Ok(format!("{all}HEAD {head}"))
}

fn commit(dir: &Path, number: u64) -> Result<(), String> {
    let path = dir.join(format!("file{}", number % 5));
    let content = filler(number, 300 + (number as usize * 977) % 6000);
    std::fs::write(&path, content).map_err(at("write", &path))?;
    output(git(dir).args(["add", "."]))?;
    let message = format!("step {number}");
    output(git(dir).args(["commit", "-q", "--allow-empty", "-m", &message]))?;
    Ok(())
}

impl Application for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn program(&self) -> Option<&'static str> {
        Some("git")
    }

    fn prepare(&self, dir: &Path) -> Result<State, String> {
        output(git(dir).args(["init", "-q", "-b", "main", "--template="]))?;
        commit(dir, 0)?;
        references(dir)
    }

    fn work(
        &self,
        dir: &Path,
        steps: u64,
        random: &mut Random,
        diary: &mut Diary<'_>,
    ) -> Result<(), String> {
        for step in 1..=steps {
            let name = format!("b{step}");
            match random.below(8) {
                0 => output(git(dir).args(["repack", "-adq"]))?,
                1 => output(git(dir).args(["pack-refs", "--all"]))?,
                2 => output(git(dir).args(["branch", &name]))?,
                3 => output(git(dir).args(["tag", "-a", "-m", "t", &name]))?,
                _ => commit(dir, step).map(|()| String::new())?,
            };
            sync_directory(dir)?;
            diary.durable_step(|| references(dir))?;
        }
        Ok(())
    }

    fn check(&self, dir: &Path) -> Result<State, String> {
        output(git(dir).args(["fsck", "--full", "--strict", "--no-dangling"]))?;
        output(git(dir).args(["ls-files"]))?;
        references(dir)
    }
}
