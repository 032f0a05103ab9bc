//! A block of lines at the bottom of a terminal that is redrawn in place, with permanent lines
//! above it. It doesn't know what the lines say.

use super::error::Ending;
use super::out::Out;

/// The block that is currently drawn.
#[derive(Default)]
pub(super) struct Screen {
    /// The number of lines of the block.
    drawn: usize,
}

impl Screen {
    /// Draws the block; its lines are escaped and fit the terminal.
    pub(super) fn draw(&mut self, out: &mut Out, lines: &[String]) -> Result<(), Ending> {
        self.clear(out)?;
        // A block that is higher than the terminal cannot be redrawn in place, so only its end is
        // drawn.
        let room = out.height().saturating_sub(1).max(1);
        let hidden = lines.len().saturating_sub(room);
        for line in &lines[hidden..] {
            out.line(line)?;
        }
        self.drawn = lines.len() - hidden;
        out.flush()
    }

    /// Removes the block, so that permanent lines can be printed.
    pub(super) fn clear(&mut self, out: &mut Out) -> Result<(), Ending> {
        if self.drawn > 0 {
            out.raw(format!("\x1b[{}A\x1b[J", self.drawn).as_bytes())?;
            self.drawn = 0;
        }
        Ok(())
    }

    /// Leaves what is drawn in place.
    pub(super) fn leave(&mut self) {
        self.drawn = 0;
    }
}
