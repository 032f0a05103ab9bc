//! A small disk for tests that fill one.

use std::path::PathBuf;
use std::process::Command;

/// A file system of its own, which is taken away again whatever happens.
pub(crate) struct Tmpfs(pub(crate) PathBuf);

impl Tmpfs {
    /// The reason if there can be none here.
    pub(crate) fn new(name: &str, size: &str) -> Result<Tmpfs, String> {
        let dir = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let tmpfs = Tmpfs(dir);
        tmpfs.mount(&format!("size={size}"))?;
        Ok(tmpfs)
    }

    pub(crate) fn mount(&self, options: &str) -> Result<(), String> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(said)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}
