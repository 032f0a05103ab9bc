//! The line that lets new code live with a run that began in the old one.

use tiffany_kernel::Site;

use crate::program::language::Way;
use crate::run_log::replay::divergence::{Cause, Divergence};

/// A change that is proposed where code and log part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// Where.
    pub at: Site,
    /// The id that is given to [`patched`](crate::calls::receive::patched).
    pub id: String,
    /// The code, as lines.
    pub lines: Vec<String>,
    /// What it does, in words.
    pub why: &'static str,
}

/// How a language writes which code a run takes.
pub(crate) type Condition<'a> = &'a dyn Fn(&str, Way) -> Vec<String>;

/// The proposed lines in Rust.
pub(crate) fn rust(id: &str, way: Way) -> Vec<String> {
    match way {
        Way::New => vec![format!("if patched({id:?}).await {{ … }}")],
        Way::Old => vec![format!("if !patched({id:?}).await {{ … }}")],
        Way::Both => vec![
            format!("if patched({id:?}).await {{"),
            "    … // the new code".into(),
            "} else {".into(),
            "    … // the old code".into(),
            "}".into(),
        ],
    }
}

impl Divergence {
    /// What could be written where the two part; nothing if the code is not the same twice, or the place is not known.
    pub(crate) fn proposal(&self, cause: Cause, condition: Condition<'_>) -> Option<Proposal> {
        let made = self.made.as_ref();
        let now = made.map(|made| made.called());
        let was = self.recorded.as_ref().map(|recorded| recorded.called());
        let at = made.map(|made| made.at().clone()).or_else(|| {
            let (_, at) = self.recorded.as_ref()?.shown();
            let (file, line) = at.rsplit_once(':')?;
            Some(Site { file: file.to_owned().into(), line: line.parse().ok()? })
        })?;
        let (id, lines, why) = match cause {
            Cause::Unsteady => return None,
            Cause::Added => {
                let id = id("add", now?);
                let lines = condition(&id, Way::New);
                (id, lines, "make the new call only in runs that have not reached this place")
            }
            Cause::Removed => {
                let id = id("remove", &was?);
                let lines = condition(&id, Way::Old);
                (id, lines, "keep the call that was taken out for runs that have made it")
            }
            Cause::Renamed | Cause::Argument | Cause::Reordered => {
                let id = id("change", &was?);
                let lines = condition(&id, Way::Both);
                (id, lines, "keep the old code beside the new code")
            }
        };
        Some(Proposal { at, id, lines, why })
    }
}

/// An id out of a name.
fn id(what: &str, name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' });
    format!("{what}-{}", plain.collect::<String>())
}
