//! A block of lines at the bottom of a terminal that is drawn anew in its place, and lines that stay, above it. It knows nothing of what the lines say.

use super::error::Ending;
use super::out::Out;

/// What is drawn at present.
#[derive(Default)]
pub(super) struct Screen {
    /// How many lines the block has.
    drawn: usize,
}

impl Screen {
    /// Draws the block; its lines are clean and fit the terminal.
    pub(super) fn draw(&mut self, out: &mut Out, lines: &[String]) -> Result<(), Ending> {
        self.clear(out)?;
        // A block that is higher than the terminal cannot be drawn in its place: its end is what counts.
        let room = out.height().saturating_sub(1).max(1);
        let hidden = lines.len().saturating_sub(room);
        for line in &lines[hidden..] {
            out.line(line)?;
        }
        self.drawn = lines.len() - hidden;
        out.flush()
    }

    /// Takes the block away, so that something that stays can be written.
    pub(super) fn clear(&mut self, out: &mut Out) -> Result<(), Ending> {
        if self.drawn > 0 {
            out.raw(format!("\x1b[{}A\x1b[J", self.drawn).as_bytes())?;
            self.drawn = 0;
        }
        Ok(())
    }

    /// What is drawn stays where it is.
    pub(super) fn leave(&mut self) {
        self.drawn = 0;
    }
}
