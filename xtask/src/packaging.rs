//! Checks `packaging/` without installing it: the systemd unit with systemd's own tool, and the
//! container recipe for required instructions.

use std::path::Path;
use std::process::Command;

use crate::Shop;

/// The maximum exposure of the unit, from 0 to 100.
const EXPOSURE: &str = "--threshold=20";

pub(crate) fn check(shop: &Shop) -> Result<(), String> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        crate::install_packages(shop, "systemd", &["systemd"])?;
    }
    let said = |error: std::io::Error| format!("packaging: {error}");
    let unit = std::fs::read_to_string(shop.root.join("packaging/systemd/tiffany.service"));
    // The unit's program is not installed here, so another one replaces it.
    let unit = unit.map_err(said)?.replace("/usr/bin/tiffany", "/bin/true");
    let place = std::env::temp_dir().join(format!("tiffany-unit-{}", std::process::id()));
    std::fs::create_dir_all(&place).map_err(said)?;
    let file = place.join("tiffany.service");
    std::fs::write(&file, unit).map_err(said)?;
    let checked = verify(shop, &file);
    std::fs::remove_dir_all(&place).map_err(said)?;
    checked?;
    recipe(&shop.root)
}

fn verify(shop: &Shop, file: &Path) -> Result<(), String> {
    let mut verify = Command::new("systemd-analyze");
    shop.step("the systemd unit", verify.args(["verify", "--man=no"]).arg(file))?;
    let mut security = Command::new("systemd-analyze");
    let security = security.args(["security", "--offline=true", "--no-pager", EXPOSURE]).arg(file);
    shop.step("what the unit allows", security.stdout(std::process::Stdio::null()))
}

/// Checks that the container recipe has all required instructions, including `USER`, so that it
/// does not run as root.
fn recipe(root: &Path) -> Result<(), String> {
    let file = "packaging/container/Containerfile";
    let text = std::fs::read_to_string(root.join(file)).map_err(|error| error.to_string())?;
    let has = |word: &str| text.lines().any(|line| line.split(' ').next() == Some(word));
    let missing = ["FROM", "USER", "VOLUME", "HEALTHCHECK", "ENTRYPOINT"];
    if let Some(word) = missing.into_iter().find(|word| !has(word)) {
        return Err(format!("{file} has no {word}"));
    }
    if text.lines().filter(|line| line.starts_with("FROM ")).any(|line| !line.contains(':')) {
        return Err(format!("{file} takes an image of any version"));
    }
    let binary = "--package tiffany-cli --bin tiffany";
    match text.contains(binary) && root.join("crates/cli/src/main.rs").is_file() {
        true => Ok(()),
        false => Err(format!("{file} does not build `{binary}`")),
    }
}
