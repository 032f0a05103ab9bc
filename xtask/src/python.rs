//! Builds and checks the Python package. The tools live in virtual environments below
//! `target/python`, which are made once for each list of tools and each Python.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Shop;

/// The oldest Python version that the wheel supports.
const OLDEST: (u32, u32) = (3, 11);

/// A Python interpreter on this machine.
struct Python {
    program: PathBuf,
    version: String,
}

/// A virtual environment.
struct Venv(PathBuf);

impl Venv {
    /// Makes a command for a program in the environment.
    fn command(&self, shop: &Shop, name: &str) -> Command {
        let mut command = Command::new(self.0.join("bin").join(name));
        command.current_dir(&shop.root).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        crate::forget_cargo(&mut command);
        command
    }
}

/// Makes sure that there is a Python to build with.
pub(crate) fn install(shop: &Shop) -> Result<(), String> {
    find(shop).map(drop)
}

/// Makes the environment with the servers that Rust tests use; the tests look for them here.
pub(crate) fn servers(shop: &Shop) -> Result<(), String> {
    venv(shop, &find(shop)?, "servers").map(drop)
}

/// Installs Node for the dashboard from its package on PyPI, if the machine's own is missing or too
/// old.
pub(crate) fn node(shop: &Shop) -> Result<(), String> {
    venv(shop, &find(shop)?, "node").map(drop)
}

/// Returns the directory in which [`node`] puts the programs.
pub(crate) fn node_place(shop: &Shop) -> PathBuf {
    home(shop).join("node/bin")
}

/// The architectures that portable wheels are built for.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

/// Builds the wheel as users get it, without debug information: without arguments, for this machine
/// in `target/wheels`; with architectures, portable wheels in `target/wheels-portable`.
pub(crate) fn wheel(shop: &Shop, architectures: &[String]) -> Result<(), String> {
    let python = find(shop)?;
    if !architectures.is_empty() {
        return portable_wheels(shop, &python, architectures);
    }
    let wheel = build(shop, &python, &shop.target().join("wheels"), &["--profile", "dist"])?;
    println!("\nthe wheel is {0}; `pip install {0}` installs it", wheel.display());
    Ok(())
}

/// Builds wheels for the oldest glibc that Rust supports. zig, from its package on PyPI, compiles
/// the C code and links.
fn portable_wheels(shop: &Shop, python: &Python, architectures: &[String]) -> Result<(), String> {
    let unknown = architectures.iter().find(|name| !ARCHITECTURES.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        let known = ARCHITECTURES.join(", ");
        return Err(format!("no wheels are built for `{unknown}`; there are {known}"));
    }
    let tools = venv(shop, python, "wheel")?;
    let to = shop.target().join("wheels-portable");
    for architecture in architectures {
        let target = format!("{architecture}-unknown-linux-gnu");
        let mut add = Command::new("rustup");
        add.current_dir(&shop.root).args(["target", "add", &target]);
        shop.step(&format!("Rust for {target}"), &mut add)?;
        let mut maturin = tools.command(shop, "maturin");
        maturin.args(["build", "--quiet", "--profile", "dist", "--zig", "--target", &target]);
        maturin.args(["--compatibility", "manylinux2014", "--out"]).arg(&to);
        maturin.arg("--interpreter").arg(&python.program);
        maturin.env("CARGO_ZIGBUILD_PYTHON_PATH", tools.0.join("bin/python"));
        shop.step(&format!("the wheel for {architecture}"), &mut maturin)?;
    }
    println!("\nthe wheels are in {}", to.display());
    Ok(())
}

/// Checks lints and formatting, which needs no wheel and takes less than a second.
pub(crate) fn style(shop: &Shop) -> Result<(), String> {
    let tools = venv(shop, &find(shop)?, "test")?;
    let places = places(shop);
    let mut lints = tools.command(shop, "ruff");
    shop.step("lints of Python", lints.args(["check", "--no-cache", "--quiet"]).args(&places))?;
    let mut format = tools.command(shop, "ruff");
    let format = format.args(["format", "--check", "--no-cache", "--quiet"]).args(&places);
    shop.step("format of Python", format)?;
    Ok(())
}

/// Runs all checks of the package on a wheel that was just built. Arguments are passed to pytest;
/// if there are any, nothing else runs.
pub(crate) fn check(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let python = find(shop)?;
    let wheel = build(shop, &python, &home(shop).join("wheels"), &[])?;
    let tools = venv(shop, &python, "test")?;
    let install = ["install", "--quiet", "--force-reinstall", "--no-deps"];
    let mut installing = tools.command(shop, "pip");
    shop.step("the wheel, installed", installing.args(install).arg(&wheel))?;
    let pytest = || {
        let mut pytest = tools.command(shop, "python");
        pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml"]);
        pytest.args(["--rootdir", "."]).env("TIFFANY_WHEEL", &wheel);
        pytest
    };
    if !arguments.is_empty() {
        return shop.step("tests of Python", pytest().args(arguments));
    }
    style(shop)?;
    let mut types = tools.command(shop, "mypy");
    let types = types.arg("--strict").arg("--cache-dir").arg(home(shop).join("mypy"));
    shop.step("types of Python", types)?;
    tests(shop, &pytest)?;
    // The tests of the installed package.
    shop.step("documentation tests of Python", pytest().args(["--pyargs", "tiffany"]))?;
    let tools_of_ours = ["python/generate_errors.py", "bench/python/tiffany_bench"];
    // Services import what they are built with, which not every machine has.
    let services = ["--ignore", "bench/python/tiffany_bench/services"];
    shop.step("documentation tests of tools", pytest().args(tools_of_ours).args(services))?;
    if shop.root.join("bench/python").is_dir() {
        let mut bench = tools.command(shop, "python");
        shop.step("benchmark of Python, short", bench.args(["bench/python", "--quick"]))?;
    }
    Ok(())
}

/// Runs the tests in two concurrent processes. Each runs the test files that it is the first to
/// claim in a directory (`tests/python/conftest.py`). pytest-xdist is not used because its workers
/// have an additional thread, and some tests are about processes without other threads. Tests
/// marked `alone` measure time, and run when nothing else does.
fn tests(shop: &Shop, pytest: &(impl Fn() -> Command + Sync)) -> Result<(), String> {
    let claims = home(shop).join("claims");
    let failed = |error: std::io::Error| format!("{}: {error}", claims.display());
    let _ = fs::remove_dir_all(&claims);
    fs::create_dir_all(&claims).map_err(failed)?;
    let output = claims.join("output of the second process");
    let to_file = fs::File::create(&output).map_err(failed)?;
    let also = to_file.try_clone().map_err(failed)?;
    let share = || {
        let mut share = pytest();
        share.args(["-m", "not alone", "tests/python"]).env("TIFFANY_TEST_CLAIMS", &claims);
        share
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let mut share = share();
            shop.step("tests of Python, second process", share.stdout(to_file).stderr(also))
        });
        let first = shop.step("tests of Python, first process", &mut share());
        (first, second.join().unwrap_or_else(|_| Err("the second process was lost".into())))
    });
    println!("\n{}", fs::read_to_string(&output).map_err(failed)?);
    first.and(second)?;
    shop.step("tests of Python that measure time", pytest().args(["-m", "alone", "tests/python"]))
}

/// Returns the directories with Python code.
fn places(shop: &Shop) -> Vec<&'static str> {
    let all = ["python", "tests/python", "examples/python", "bench/python"];
    all.into_iter().filter(|place| shop.root.join(place).is_dir()).collect()
}

fn home(shop: &Shop) -> PathBuf {
    shop.target().join("python")
}

/// Builds the wheel into a directory that contains nothing else. What cargo has built already is
/// not rebuilt.
fn build(shop: &Shop, python: &Python, to: &Path, options: &[&str]) -> Result<PathBuf, String> {
    let tools = venv(shop, python, "build")?;
    let said = |error: std::io::Error| format!("{}: {error}", to.display());
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(said)?;
    let mut maturin = tools.command(shop, "maturin");
    maturin.args(["build", "--quiet"]).args(options).arg("--out").arg(to);
    maturin.arg("--interpreter").arg(&python.program);
    shop.step("the wheel", &mut maturin)?;
    let made = fs::read_dir(to).map_err(said)?.flatten().map(|entry| entry.path());
    let is_wheel = |path: &PathBuf| path.extension() == Some(OsStr::new("whl"));
    made.into_iter().find(is_wheel).ok_or_else(|| "maturin made no wheel".into())
}

/// Returns a virtual environment with a list of tools. It is made again when the list or Python has
/// changed.
fn venv(shop: &Shop, python: &Python, list: &str) -> Result<Venv, String> {
    let file = shop.root.join(format!("python/requirements-{list}.txt"));
    let wanted =
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let wanted = format!("{} {}\n{wanted}", python.program.display(), python.version);
    let venv = Venv(home(shop).join(list));
    let stamp = venv.0.join("made-for");
    if fs::read_to_string(&stamp).is_ok_and(|made_for| made_for == wanted) {
        return Ok(venv);
    }
    let mut make = Command::new(&python.program);
    make.args(["-m", "venv", "--clear"]).arg(&venv.0);
    shop.step(&format!("an environment to {list} in, once"), &mut make)?;
    let mut install = venv.command(shop, "pip");
    install.args(["install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&file);
    shop.step(&format!("tools to {list} with, once"), &mut install)?;
    fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(venv)
}

/// Finds a Python that is recent enough, can make environments and can be linked with; installs one
/// from the system's packages if there is none.
fn find(shop: &Shop) -> Result<Python, String> {
    if let Some(python) = candidates().find(is_complete) {
        return Ok(python);
    }
    let packages = ["python3", "python3-venv", "python3-dev"];
    crate::install_packages(shop, "Python", &packages)?;
    candidates().find(is_complete).ok_or_else(|| {
        let (major, minor) = OLDEST;
        format!("Python {major}.{minor} or later is needed, with `venv` and its headers; install it by hand")
    })
}

fn candidates() -> impl Iterator<Item = Python> {
    let given = std::env::var("PYO3_PYTHON").ok();
    let newer = (OLDEST.1..OLDEST.1 + 5).map(|minor| format!("python{}.{minor}", OLDEST.0));
    given.into_iter().chain(["python3".to_owned()]).chain(newer).filter_map(|name| inspect(&name))
}

/// Asks a Python interpreter for its version and path.
fn inspect(name: &str) -> Option<Python> {
    let script = "import sys; print(sys.version_info[0], sys.version_info[1]); print(sys.version.split()[0]); print(sys.executable)";
    let output = Command::new(name).args(["-c", script]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let (major, minor) = lines.next()?.split_once(' ')?;
    let is_new = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?) >= OLDEST;
    let (version, program) = (lines.next()?.to_owned(), PathBuf::from(lines.next()?));
    is_new.then_some(Python { program, version })
}

/// Returns whether a Python can make environments, and Rust tests can be linked with it.
fn is_complete(python: &Python) -> bool {
    let script = "import ensurepip, os, sysconfig as s; places = [s.get_config_var('LIBDIR'), s.get_config_var('LIBPL')]; \
                  library = s.get_config_var('LDLIBRARY'); raise SystemExit(not any(os.path.exists(os.path.join(p, library)) for p in places if p))";
    let found = Command::new(&python.program).args(["-c", script]).output();
    found.is_ok_and(|output| output.status.success())
}
