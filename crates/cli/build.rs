//! Sets the program's build id, `TIFFANY_BUILD`: the commit of the checkout that it is built from.
//! It reads the repository's files and doesn't need `git`. If a file is missing, the id is
//! `unknown` and the build continues.
//!
//! Only optimised builds have an id: in others, each commit would rebuild the commands and
//! everything that depends on them.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIFFANY_BUILD_ID");
    let given = env::var("TIFFANY_BUILD_ID").ok().filter(|id| is_plain(id));
    let is_optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let id = match given {
        Some(id) => Some(id),
        None if is_optimised => commit(),
        None => Some("debug".into()),
    };
    println!("cargo::rustc-env=TIFFANY_BUILD={}", id.unwrap_or_else(|| "unknown".into()));
}

/// Returns the first letters of the commit that is checked out.
fn commit() -> Option<String> {
    let home = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let entry = home.ancestors().map(|dir| dir.join(".git")).find(|entry| entry.exists())?;
    let git = git_dir(&entry)?;
    let head = watched(&git.join("HEAD"))?;
    let id = match head.strip_prefix("ref: ") {
        None => head,
        Some(name) => branch(&git, name)?,
    };
    (id.len() >= 40 && is_plain(&id)).then(|| id[..12].to_string())
}

/// Returns the directory of a repository. In a linked working tree, `.git` is a file that names it.
fn git_dir(entry: &Path) -> Option<PathBuf> {
    if entry.is_dir() {
        return Some(entry.to_path_buf());
    }
    let text = watched(entry)?;
    Some(entry.parent()?.join(text.strip_prefix("gitdir: ")?))
}

/// Returns the commit of a branch, which is in a file of its own or in a line of `packed-refs`.
fn branch(git: &Path, name: &str) -> Option<String> {
    let common = fs::read_to_string(git.join("commondir")).ok();
    let common = common.map_or_else(|| git.to_path_buf(), |dir| git.join(dir.trim()));
    if let Some(id) = watched(&common.join(name)) {
        return Some(id);
    }
    let packed = watched(&common.join("packed-refs"))?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, branch)| *branch == name).map(|(id, _)| id.to_string())
}

/// Reads a file, and runs the build script again when it changes.
fn watched(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    println!("cargo::rerun-if-changed={}", file.display());
    Some(text.trim().to_string())
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte))
}
