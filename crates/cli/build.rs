//! Gives the program its build id, `TIFFANY_BUILD`: the commit of the checkout it is built from. It reads the files of
//! the repository and needs no `git`; whatever it doesn't find, the build goes on, and the id is `unknown`.
//!
//! Only optimised builds have it: in the others, each commit would build the commands and all that depends on them again.

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

/// The first letters of the commit that is checked out.
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

/// The directory of a repository. In another working tree of it, `.git` is a file that names the directory.
fn git_dir(entry: &Path) -> Option<PathBuf> {
    if entry.is_dir() {
        return Some(entry.to_path_buf());
    }
    let text = watched(entry)?;
    Some(entry.parent()?.join(text.strip_prefix("gitdir: ")?))
}

/// The commit of a branch, which has a file of its own or a line in `packed-refs`.
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

/// The text of a file. When it changes, this runs again.
fn watched(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    println!("cargo::rerun-if-changed={}", file.display());
    Some(text.trim().to_string())
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._+".contains(&byte))
}
