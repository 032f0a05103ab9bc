//! `watch` without a run: shows runs and their tasks in a terminal, as they are now. `feed.rs`
//! collects data on a separate thread; `state.rs` has what is on the screen and what keys do,
//! without a terminal; `draw.rs` paints it. The terminal is always restored.

mod draw;
mod feed;
mod gauges;
mod stack;
mod state;

use std::io::{self, IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::GuestError;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tiffany::control::Control;

use crate::daemon_commands::refused;
use feed::Feed;
use state::{Top, Wish};
use tiffany_daemon::Relaunch;

/// How long to wait for a key before the screen is updated.
const PACE: Duration = Duration::from_millis(50);

/// The default interval of updates.
const DEFAULT_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn top(
    dir: &Path,
    colour: bool,
    relaunch: Relaunch,
    every: Option<Duration>,
) -> Result<u8, GuestError> {
    if !stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(GuestError {
            code: "TFY0067".into(),
            text: "`watch` without a run needs a terminal [TFY0067]; in pipes and scripts use `ls --active` or `watch RUN`"
                .into(),
            exit: Some(2),
        });
    }
    let dir: PathBuf = dir.to_owned();
    let every = every.unwrap_or(DEFAULT_EVERY);
    // A directory without a log has nothing to show.
    Control::open(&dir).map_err(|error| refused(&error))?;
    let feed = Feed::start(dir.clone(), every.max(Duration::from_millis(100)));
    let feed = feed.map_err(|error| failed(&error))?;
    let top = Top::new(dir.display().to_string(), colour);
    let mut terminal = ratatui::try_init().map_err(|error| failed(&error))?;
    let shown = show(&mut terminal, top, &feed, &stack::Stacks::new(relaunch, dir));
    ratatui::restore();
    shown.map_err(|error| failed(&error)).map(|()| 0)
}

/// Shows the data and handles keys until the user quits.
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
