//! Checks that all files in `crates/*/tests` are compiled. The `main.rs` there must declare a file
//! as a module, or `Cargo.toml` as a binary; otherwise its tests never run.

use std::fs;
use std::path::Path;

/// Fails if there are files that no binary includes, and names them.
pub(crate) fn all_declared(root: &Path) -> Result<(), String> {
    let mut forgotten = Vec::new();
    for folder in names(&root.join("crates")) {
        let tests = root.join("crates").join(&folder).join("tests");
        let Ok(main) = fs::read_to_string(tests.join("main.rs")) else {
            continue;
        };
        let manifest = root.join("crates").join(&folder).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap_or_default();
        for name in names(&tests) {
            if let Some(file) = module_file(&tests, &name)
                && !declares(&main, &name)
                && !manifest.contains(&format!("path = \"tests/{file}\""))
            {
                forgotten.push(format!("crates/{folder}/tests/{file}"));
            }
        }
    }
    match forgotten.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "no test binary has these files; declare them in the `main.rs` of their folder, with `mod.rs` in \
             folders\n  {}",
            forgotten.join("\n  ")
        )),
    }
}

/// Returns the source file of an entry in a directory of tests, if it has one.
fn module_file(tests: &Path, name: &str) -> Option<String> {
    let inside =
        ["mod.rs", "main.rs"].into_iter().find(|file| tests.join(name).join(file).exists());
    match inside {
        Some(file) => Some(format!("{name}/{file}")),
        None => (name.ends_with(".rs") && name != "main.rs").then(|| name.to_string()),
    }
}

fn declares(main: &str, name: &str) -> bool {
    let declaration = format!("mod {};", name.trim_end_matches(".rs"));
    main.lines().any(|line| line == declaration)
}

/// Returns the names in a directory, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undeclared_test_files_are_named() {
        let root = std::env::temp_dir().join(format!("tiffany-test-files-{}", std::process::id()));
        let tests = root.join("crates/one/tests");
        for folder in ["golden", "kit", "lost", "other"] {
            fs::create_dir_all(tests.join(folder)).unwrap();
        }
        for file in ["known.rs", "kit/mod.rs", "golden/data.json", "other/main.rs"] {
            fs::write(tests.join(file), "").unwrap();
        }
        fs::write(tests.join("main.rs"), "mod kit;\n#[cfg(unix)]\nmod known;\n").unwrap();
        fs::write(tests.with_file_name("Cargo.toml"), "path = \"tests/other/main.rs\"\n").unwrap();
        assert_eq!(all_declared(&root), Ok(()));
        fs::write(tests.join("new.rs"), "").unwrap();
        fs::write(tests.join("lost/main.rs"), "").unwrap();
        let error = all_declared(&root).unwrap_err();
        assert!(
            error.ends_with("\n  crates/one/tests/lost/main.rs\n  crates/one/tests/new.rs"),
            "{error}"
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
