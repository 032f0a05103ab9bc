//! `top`: runs and their tasks in a terminal, as they are now. `feed.rs` looks, on a thread of its own; `state.rs` is what is on the screen and what keys do to it, and
//! knows neither a terminal nor a run; `draw.rs` paints it. A terminal that is left is as it was before, whatever happens.

mod draw;
mod feed;
mod gauges;
mod stack;
mod state;

use std::io::{self, IsTerminal, stdout};
use std::path::PathBuf;
use std::time::Duration;

use crate::{GuestError, Invocation};
use clap::{self, Args, FromArgMatches};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tiffany::control::Control;
use tiffany::units;

use crate::daemon_commands::refused;
use feed::Feed;
use state::{Top, Wish};

/// The command.
pub(crate) const NAME: &str = "top";
/// How long one waits for a key before the screen is looked after.
const PACE: Duration = Duration::from_millis(50);

/// Watch all runs in the terminal: what goes on, what waits for what, how fast; look into one, cancel one.
#[derive(Args, Debug)]
struct Typed {
    /// How often to look.
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1s")]
    every: Duration,
}

pub(crate) fn command() -> clap::Command {
    Typed::augment_args(clap::Command::new(NAME))
}

pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    let usage = |message: String| GuestError {
        code: "TFY0067".into(),
        text: format!("{message} [TFY0067]; `ps` and `watch` write lines, for pipes and scripts"),
        exit: Some(2),
    };
    let typed = Typed::from_arg_matches(asked.matches).map_err(|error| usage(error.to_string()))?;
    if !stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(usage("`top` takes a terminal".into()));
    }
    let dir: PathBuf = asked.dir.clone();
    // A directory without a log has nothing to show.
    Control::open(&dir).map_err(|error| refused(&error))?;
    let feed = Feed::start(dir.clone(), typed.every.max(Duration::from_millis(100)));
    let feed = feed.map_err(|error| failed(&error))?;
    let top = Top::new(dir.display().to_string(), asked.colour);
    let mut terminal = ratatui::try_init().map_err(|error| failed(&error))?;
    let shown = show(&mut terminal, top, &feed, &stack::Stacks::new(asked.relaunch.clone(), dir));
    ratatui::restore();
    shown.map_err(|error| failed(&error)).map(|()| 0)
}

/// Shows what comes and does what is typed, until it is enough.
fn show(
    terminal: &mut DefaultTerminal,
    mut top: Top,
    feed: &Feed,
    stacks: &stack::Stacks,
) -> io::Result<()> {
    feed.want(top.wanted());
    loop {
        if let Some(picture) = feed.take() {
            top.picture(picture);
        }
        if let Some(stack) = stacks.take() {
            top.stack(stack);
        }
        terminal.draw(|frame| draw::draw(frame, &mut top))?;
        if !event::poll(PACE)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match top.key(key.code, key.modifiers) {
            Some(Wish::Quit) => return Ok(()),
            Some(Wish::Look) => feed.want(top.wanted()),
            Some(Wish::Cancel(run)) => feed.cancel(run),
            Some(Wish::Stack(run)) => stacks.ask(run),
            None => {}
        }
    }
}

fn failed(error: &io::Error) -> GuestError {
    let text = format!("the terminal cannot be used: {error} [TFY0068]; see the system's message");
    GuestError { code: "TFY0068".into(), text, exit: None }
}
