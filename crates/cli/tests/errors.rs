//! Every code of the command line has its section in the book, every message its code and a next
//! step; and help, versions and completions exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::kit::Home;
use tiffany_cli::CliError;

fn one_of_each() -> Vec<CliError> {
    let text = || String::from("x");
    vec![
        CliError::NoLog("x".into()),
        CliError::Ambiguous { prefix: text(), runs: vec![text(), text()] },
        CliError::NeedsProgram(text()),
        CliError::BadJson { what: text(), why: text() },
        CliError::Damage(text()),
        CliError::OtherOutcome(text()),
        CliError::Usage(text()),
        CliError::Output(text()),
        CliError::NotAllWell(text()),
        CliError::WouldDiverge(text()),
        CliError::NotFailed(text()),
        CliError::NoDebugger,
        CliError::IsOver(text()),
        CliError::NoReply { file: "x".into(), why: text() },
        CliError::DamagedInLog(text()),
        CliError::SeveralApprovals { what: text(), ids: vec![text(), text()] },
        CliError::Denied(text()),
        CliError::NobodyRuns { function: text(), dir: "x".into() },
        CliError::NoInput { file: "x".into(), why: text() },
        CliError::NobodyMeasures("x".into()),
        CliError::NotErased("data of 1 run may be left".into()),
        CliError::NeedsRules("x".into()),
        CliError::NobodyDrives { run: tiffany::Uuid(1), dir: "x".into() },
    ]
}

/// Codes of older versions, which are never reused.
const RETIRED: [&str; 1] = ["TFY0061"];

#[test]
fn every_error_has_its_code_and_a_next_step() {
    let errors = one_of_each();
    let codes: Vec<&str> = errors.iter().map(CliError::code).collect();
    assert_eq!(codes, CliError::CODES);
    for error in &errors {
        let (text, mark) = (error.to_string(), format!(" [{}]; ", error.code()));
        assert_eq!(text.matches(&mark).count(), 1, "{text}");
        assert!(text.starts_with(|c: char| !c.is_uppercase()), "{text}");
    }
}

#[test]
fn every_code_has_a_section_in_the_book() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/cli.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut seen = BTreeSet::new();
    for section in text.split("\n### TFY").skip(1) {
        let (number, body) = section.split_once('\n').unwrap();
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(body.matches(part).count(), 1, "TFY{number} has no {part}");
        }
        // The codes of `tiffany run` are Python's, from 70 on, and have their own tests.
        if !("0070".."0080").contains(&number) {
            seen.insert(format!("TFY{number}"));
        }
    }
    let codes: BTreeSet<String> =
        CliError::CODES.iter().chain(&RETIRED).map(ToString::to_string).collect();
    assert_eq!(seen, codes);
}

#[test]
fn help_and_version_are_no_errors() {
    let home = Home::new();
    for arguments in
        [&["--help"][..], &["--version"], &["log", "--help"], &["doubt", "decide", "--help"]]
    {
        let ran = home.run(arguments).ok();
        assert!(!ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    }
    let version = home.run(&["--version"]).ok().stdout;
    let build =
        version.trim().strip_prefix(concat!("tiffany ", env!("CARGO_PKG_VERSION"), " (build "));
    let build = build.and_then(|build| build.strip_suffix(')'));
    assert!(build.is_some_and(|build| !build.is_empty()), "{version}");
    let nothing = home.run(&[]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
}

#[test]
fn help_tells_what_holds_where_nothing_is_said() {
    let home = Home::new();
    let help = |arguments: &[&str]| {
        let text = home.run(arguments).ok().stdout;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let serve = help(&["serve", "--help"]);
    for default in ["[default: 127.0.0.1:8787]", "[default: 10s]", "[default: .tiffany]"] {
        assert!(serve.contains(default), "{default}: {serve}");
    }
    for command in ["ls", "watch", "replay", "token"] {
        let text = help(&[command, "--help"]);
        assert!(text.contains("[default: .tiffany]"), "{command}: {text}");
    }
    assert!(help(&["ls", "--help"]).contains("List at most this many. [default: all;"));
}

#[test]
fn a_name_that_is_nearly_right_is_guessed() {
    let home = Home::golden();
    let run = home.run(&["show", "order17"]).failed(1, "TFY0041").stderr;
    assert!(run.contains("did you mean `order-17`?"), "{run}");
    let run = home.run(&["show", "breakfast"]).failed(1, "TFY0041").stderr;
    assert!(!run.contains("did you mean"), "{run}");
    let command = home.run(&["sumbit", "x"]).failed(2, "TFY0067").stderr;
    assert!(command.contains("submit"), "{command}");
}

#[test]
fn what_was_typed_wrong_is_told_with_a_code() {
    let home = Home::golden();
    home.run(&["lss"]).failed(2, "TFY0067");
    home.run(&["ls", "--state", "tired"]).failed(2, "TFY0067");
    home.run(&["log", "order-17", "--from", "x"]).failed(2, "TFY0067");
    home.run(&["lss", "--json"]).failed_json(2, "TFY0067");
    home.run(&["show", "--json"]).failed_json(2, "TFY0067");
    let address = home.run(&["serve", "--listen", "8787"]).failed(2, "TFY0067").stderr;
    assert!(address.contains("such as 127.0.0.1:8787"), "{address}");
    let diff = home.run(&["diff", "nap-1"]).failed(2, "TFY0067").stderr;
    assert!(diff.contains("<OTHER_RUN>"), "{diff}");
}

#[test]
fn no_log_is_an_error_and_none_is_made() {
    let home = Home::new();
    for arguments in [
        &["ls"][..],
        &["show", "x"],
        &["log", "x"],
        &["doctor", "--verify"],
        &["resume", "--dry-run"],
        &["doubt"],
        &["approve"],
        &["approve", "x"],
        &["approve", "--reject"],
        &["send", "x", "y", "1"],
        &["cancel", "x"],
        &["settle", "00000000-0000-4000-8000-000000000000", "1"],
        &["doubt", "decide", "x/1", "--again"],
    ] {
        let told = home.run(arguments).failed(1, "TFY0060").stderr;
        assert!(told.contains("start `tiffany serve --app FILE --dir orders`"), "{told}");
    }
    home.orders(&["resume", "--all"]).failed(1, "TFY0060");
    home.orders(&["replay", "x"]).failed(1, "TFY0060");
    assert_eq!(home.run(&["doctor"]).code, 1);
    assert!(!home.log().exists());
    std::fs::write(home.log(), "a file").unwrap();
    home.run(&["ls"]).failed(1, "TFY0060");
}

#[test]
fn completions_name_every_command() {
    let home = Home::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = home.run(&["completions", shell]).ok().stdout;
        for command in ["ls", "show", "doubt", "completions"] {
            assert!(script.contains(command), "{shell} lacks {command}");
        }
        assert!(script.contains("tiffany"), "{shell}");
    }
    home.run(&["completions", "tcsh"]).failed(2, "TFY0067");
}

#[test]
fn the_doctor_knows_a_clock_that_went_back_and_tells_of_every_check() {
    let home = Home::golden();
    let checks: Vec<String> = home
        .run(&["doctor", "--json"])
        .ok()
        .lines()
        .iter()
        .map(|line| line["check"].as_str().unwrap().to_owned())
        .collect();
    let all = [
        "version",
        "directory",
        "permissions",
        "file system",
        "free space",
        "fdatasync",
        "open files",
        "in use",
        "log",
        "runs",
        "clock",
    ];
    assert_eq!(checks, all);
    assert!(
        !std::fs::read_dir(home.log())
            .unwrap()
            .any(|file| { file.unwrap().file_name().to_string_lossy().contains("doctor") }),
        "its file is left"
    );
    // The doctor doesn't check the last record of a file, so its time can be changed.
    let file = home.run_file("nap-1");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"ts\":\"20", "\"ts\":\"29")).unwrap();
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("clock        bad    it says 20"), "{doctor:?}");
}

/// `config check` reads the file in its argument, or the one of `--config`.
#[test]
fn a_configuration_is_checked_wherever_its_file_is_named() {
    let home = Home::new();
    std::fs::write(home.0.join("good.toml"), "require_token = true\n").unwrap();
    std::fs::write(home.0.join("bad.toml"), "require_tokens = true\n").unwrap();
    let said = home.run(&["--config", "good.toml", "config", "check"]).ok().stdout;
    assert!(said.contains("good.toml is good"), "{said}");
    home.run(&["config", "check", "good.toml"]).ok();
    home.run(&["--config", "bad.toml", "config", "check"]).failed(1, "TFY0177");
    home.run(&["config", "check"]).failed(2, "TFY0067");
}

/// Every command of earlier versions with some arguments, and the answer to it.
const OLD_COMMANDS: [(&[&str], &str); 24] = [
    (&["allow", "f", "touch"], "`allow` is now `fork FORK --allow NAME…`"),
    (&["approvals"], "`approvals` is now `approve` without arguments"),
    (&["backup", "--to", "copy"], "`backup --to DEST` is now `backup create DEST`"),
    (&["backup", "orders", "--to", "copy"], "`backup --to DEST` is now `backup create DEST`"),
    (&["blob", "0011"], "`blob` is now `show --blob HASH`"),
    (&["capture", "toast", "--out", "x"], "`capture` is now `replay RUN --capture DIR`"),
    (&["check"], "`check` is now `replay --all`"),
    (&["compact", "--all"], "`compact` is now `rm --compact`"),
    (&["effects", "toast"], "`effects` is now `show RUN --steps`"),
    (&["events", "--follow"], "`events` is now `watch --events`"),
    (&["export", "toast", "--format", "json"], "`export` is now `log RUN --format FORMAT`"),
    (&["inspect"], "`inspect` is now `resume --dry-run`"),
    (&["metrics", "tiffany_runs"], "`metrics` is now `status --metrics`"),
    (&["prune", "--keep", "1"], "`prune` is now `rm` with rules: `rm --older-than 30d`"),
    (&["ps"], "`ps` is now `ls --active`"),
    (&["--dir", "orders", "ps", "nap-1"], "`ps` is now `ls --active`"),
    (&["reject", "x"], "`reject` is now `approve RUN --reject`"),
    (&["release", "x"], "`release` is now `hold RUN --release`"),
    (
        &["restore", "copy", "--check"],
        "`restore` is now `backup restore`, and `restore --check` is `backup check`",
    ),
    (&["step", "toast", "--at", "1"], "`step` is now `replay RUN --step`"),
    (&["stuck"], "`stuck` is now `ls --stuck`"),
    (&["top"], "`top` is now `watch` without a run"),
    (&["try", "toast"], "`try` is now `replay RUN --ahead`"),
    (&["verify", "--erased", "x"], "`verify` is now `doctor --verify`"),
];

#[test]
fn old_commands_are_answered_with_the_new_ones() {
    let home = Home::golden();
    for (arguments, expected) in OLD_COMMANDS {
        let ran = home.run(arguments).failed(2, "TFY0067");
        assert_eq!(ran.stderr.lines().next(), Some(&*format!("error[TFY0067]: {expected}")));
        let json = home.run(&[&["--json"], arguments].concat()).failed_json(2, "TFY0067").stderr;
        assert!(json.contains(&format!("\"message\":\"{expected}\"")), "{json}");
    }
    let other = home.run(&["nonsense"]).failed(2, "TFY0067").stderr;
    assert!(other.contains("unrecognized subcommand 'nonsense'"), "{other}");
}

/// Options of one form of a command are refused with another form.
#[test]
fn forms_of_a_command_are_not_mixed() {
    let home = Home::golden();
    for arguments in [
        &["ls", "nap-1"][..],
        &["ls", "--active", "--stuck"],
        &["ls", "--active", "--state", "live"],
        &["ls", "--after", "5m"],
        &["ls", "--stuck", "--limit", "0"],
        &["show"],
        &["show", "nap-1", "--blob", "00"],
        &["show", "nap-1", "--task", "1"],
        &["resume"],
        &["resume", "--dry-run", "--for", "1"],
        &["log", "nap-1", "--format", "json", "--failed"],
        &["watch", "nap-1", "--follow"],
        &["watch", "nap-1", "--every", "1s"],
        &["watch", "--deny-approvals"],
        &["watch", "--events", "--deny-approvals"],
        &["approve", "x", "--choice", "yes", "--reject"],
        &["approve", "--list", "--reject"],
        &["replay"],
        &["replay", "nap-1", "nap-2"],
        &["replay", "nap-1", "--ahead", "--step"],
        &["replay", "nap-1", "--at", "1"],
        &["replay", "--all", "--ahead"],
        &["replay", "nap-1", "--force"],
        &["fork", "nap-1"],
        &["fork", "nap-1", "--allow", "x", "--id", "other"],
        &["rm", "--all"],
        &["rm", "--compact"],
        &["rm", "nap-1", "--keep", "1"],
        &["rm", "nap-1", "--dry-run"],
        &["rm", "nap-1", "--compact", "--damaged"],
        &["backup"],
        &["doctor", "nap-1"],
        &["doctor", "--erased", "nap-1"],
        &["doctor", "--verify", "--erased"],
    ] {
        assert_eq!(home.run(arguments).code, 2, "{arguments:?}");
    }
}
