//! Lists the files in `assets/` so that the program embeds all of them. The dashboard is built
//! elsewhere; its output is kept in the repository.

use std::fmt::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::var("CARGO_MANIFEST_DIR")?;
    let dir = Path::new(&root).join("assets");
    println!("cargo::rerun-if-changed=assets");
    let mut names = Vec::new();
    if dir.is_dir() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().into_string();
                names.push(name.map_err(|name| format!("{} is no text", name.display()))?);
            }
        }
    }
    // The operating system returns directory entries in any order.
    names.sort();
    let mut table = String::from("&[");
    for name in names {
        let path = dir.join(&name);
        write!(table, "({name:?}, include_bytes!({path:?})),")?;
    }
    table.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("assets.rs"), table)?;
    Ok(())
}
