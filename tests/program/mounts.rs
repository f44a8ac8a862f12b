//! Small, full and read-only places, for which the system must be asked. Where it refuses, because the tests do not
//! run as root or not on Linux, a test says so and is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something mounted; dropping it takes it away.
pub(crate) struct Mount {
    at: PathBuf,
}

impl Mount {
    /// A file system in memory, so many KiB large.
    pub(crate) fn small(at: &Path, kib: u32) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        mounted(at, &["-t", "tmpfs", "-o", &format!("size={kib}k"), "legwork-test"])
    }

    /// A file or folder through which nothing can be written, seen at another place or at its own.
    pub(crate) fn read_only(what: &Path, at: &Path) -> Option<Self> {
        if what.is_dir() {
            std::fs::create_dir_all(at).unwrap();
        }
        let mount = mounted(at, &["--bind", &what.to_string_lossy()])?;
        asked(at, &["-o", "remount,ro,bind"]).then_some(mount)
    }

    /// Makes it larger.
    pub(crate) fn grow(&self, kib: u32) {
        assert!(asked(&self.at, &["-o", &format!("remount,size={kib}k")]));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _is_said = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

#[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
fn mounted(at: &Path, how: &[&str]) -> Option<Mount> {
    if asked(at, how) {
        return Some(Mount { at: at.to_path_buf() });
    }
    eprintln!("skipped: `mount {}` is not allowed here; run the tests as root to include it", how.join(" "));
    None
}

fn asked(at: &Path, how: &[&str]) -> bool {
    let status = Command::new("mount").args(how).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
