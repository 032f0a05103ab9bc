//! Dispatches the parsed arguments to the commands. A command with several forms has one arm for
//! each.

use clap::ArgMatches;
use tiffany::Builder;

use super::args::{Args, Backup, Command};
use super::error::CliError;
use super::out::Out;
use super::place::Place;
use super::remote::needs_files;
use super::{
    Done, Started, active, ahead, approvals, backup, capture, change, completions, daemon_commands,
    diff, dir_of, doctor, doubt, dry_run, events, export, fork, invocation, keep, log,
    log_to_stderr, ls, metrics, replay, replay_all, resume, show, status, step, steps, stuck,
    submit, top, verify, watch,
};

pub(super) fn dispatch(
    builder: Builder,
    args: Args,
    matches: &ArgMatches,
    out: Out,
    started: &Started<'_>,
) -> Done {
    log_to_stderr(args.verbose, args.json);
    let builder = match takes_code(&args.command) {
        true => started.with_app(builder)?,
        false => builder,
    };
    let builder = daemon_commands::configured(matches, builder)?;
    if let Some(rules) = builder.redactions() {
        tiffany_records::redact::install(rules);
    }
    let place = match args.remote.remote()? {
        Some(remote) => {
            if let Some(what) = works_on_files(&args.command) {
                return Err(needs_files(what).into());
            }
            Place::of_daemon(remote, builder)?
        }
        None => {
            let dir = dir_of(args.dir.as_ref(), &builder);
            let audit_hook = daemon_commands::audit_hook(&dir);
            Place::new(dir, builder).audited_by(audit_hook)
        }
    };
    match args.command {
        Command::Submit(options) => submit::submit(place, out, &options),
        Command::Resume(options) => match options.dry_run {
            true => dry_run::dry_run(place, out, &options.runs),
            false => resume::resume(place, out, &options),
        },
        Command::Ls(options) => match (options.active, options.stuck) {
            (true, _) => active::active(&place, out, &options),
            (_, true) => stuck::stuck(&place, args.json, &options),
            _ => ls::ls(&place, out, &options),
        },
        Command::Show(options) => match (&options.blob, options.run.as_deref()) {
            (Some(hash), run) => steps::blob(&place, out, hash, run),
            (None, Some(run)) if options.steps => steps::steps(&place, out, run, &options.filter),
            (None, run) => show::show(place, out, run.unwrap_or_default(), &options),
        },
        Command::Status(options) => match &options.metrics {
            Some(name) => metrics::metrics(&place, out, name.as_deref()),
            None => status::status(&place, out),
        },
        Command::Log(options) => match options.format {
            Some(format) => export::export_run(&place, out, &options, format),
            None => log::log(&place, out, &options),
        },
        Command::Watch(options) => match options.run.as_deref() {
            run if options.events => events::events(&place, out, run, &options.filter),
            Some(run) => watch::watch(&place, out, run, options.approvals),
            None if options.approvals.is_given() => {
                let text = "`--approvals` and `--deny-approvals` are for one run: `watch RUN`";
                Err(CliError::Usage(text.into()).into())
            }
            None => {
                let colour = args.color.is_wanted() && !args.json;
                let relaunch = invocation::relaunch(started);
                Ok(top::top(&place.dir, colour, relaunch, options.every)?)
            }
        },
        Command::Diff(options) => diff::diff_runs(&place, out, &options),
        Command::Send(options) => change::send(&place, out, &options),
        Command::Settle(options) => change::settle(&place, out, &options),
        Command::Query(options) => change::query(&place, out, &options),
        Command::Cancel(options) => change::cancel(&place, out, &options),
        Command::Hold(options) => match options.release {
            true => change::release(&place, out, &options),
            false => change::hold(&place, out, &options),
        },
        Command::Approve(options) => match options.lists() {
            true => approvals::list(&place, out, options.question.as_deref()),
            false => approvals::decide(&place, out, &options),
        },
        Command::Doubt(options) => doubt::doubt(&place, out, &options),
        Command::Replay(options) => match (options.run.as_deref(), &options.capture) {
            (run, _) if options.all => {
                let runs = run.into_iter().map(str::to_owned).chain(options.more);
                replay_all::replay_all(place, out, &runs.collect::<Vec<_>>())
            }
            (Some(run), _) if options.ahead => ahead::ahead(place, out, run),
            (Some(run), _) if options.step => step::step(place, out, run, &options.place),
            (Some(run), Some(dir)) => {
                capture::capture(place, out, (run, dir), &options.fixture, started)
            }
            _ => replay::replay(place, out, &options),
        },
        Command::Fork(options) => match (options.at, &options.allow) {
            (None, Some(names)) => fork::allow(&place, out, &options.run, names),
            (at, _) => fork::fork(place, out, at.unwrap_or_default(), &options),
        },
        Command::Rm(options) => match options.rules.any() {
            true => keep::prune(&place, out, &options.rules),
            false if options.compact => keep::compact(&place, out, &options),
            false => keep::rm(&place, out, &options),
        },
        Command::Backup(Backup::Create(options)) => backup::create(&place, out, &options),
        Command::Backup(Backup::Restore(options)) => backup::restore(out, &options),
        Command::Backup(Backup::Check(options)) => backup::check(out, &options),
        Command::Doctor(options) => match options.verify {
            true => verify::verify(&place, out, &options),
            false => doctor::doctor(&place, out),
        },
        Command::Completions(options) => completions(out, options.shell, started, &place.dir),
    }
}

/// Returns whether a command can use the code of the runs.
fn takes_code(command: &Command) -> bool {
    match command {
        Command::Submit(_) | Command::Resume(_) | Command::Replay(_) => true,
        Command::Show(options) => !options.steps && options.blob.is_none(),
        Command::Fork(options) => options.at.is_some(),
        // These commands take the directory that a program sets in its code.
        Command::Watch(options) => options.run.is_none() && !options.events,
        Command::Ls(options) => options.stuck,
        _ => false,
    }
}

/// What a command does that a daemon cannot do for it over HTTP.
fn works_on_files(command: &Command) -> Option<&'static str> {
    match command {
        Command::Resume(_) => Some("`resume`"),
        Command::Replay(_) => Some("`replay`"),
        Command::Backup(_) => Some("`backup`"),
        Command::Doctor(_) => Some("`doctor`"),
        Command::Completions(_) => Some("`completions`"),
        Command::Watch(options) if options.run.is_none() && !options.events => {
            Some("the screen of all runs (`watch` without a run)")
        }
        Command::Rm(options) if options.rules.any() || options.compact || options.damaged => {
            Some("`rm` by a rule, with `--compact` or with `--damaged`")
        }
        Command::Fork(options) if options.drives => Some("driving a fork here"),
        Command::Show(options) if options.forks => Some("`show --forks`"),
        Command::Show(options) if options.blob.is_some() && options.run.is_none() => {
            Some("`show --blob` without a run")
        }
        _ => None,
    }
}
