//! The file of tokens. A change writes a new file that replaces the old one atomically, so readers
//! see one or the other. A running daemon reads the file again after a change, so a removed token
//! stops working at once.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tiffany::binding::NotInherited;

use super::token::{self, Kept, Token};
use crate::auth::error::AuthError;
use crate::auth::role::Role;
use crate::file_lock::{self, LOCK_TIMEOUT};
use crate::private;

/// The name of the file in a log directory.
pub const TOKENS: &str = "tokens.json";
/// The most letters in a name.
const MAX_NAME_CHARS: usize = 64;

/// The tokens in a file.
///
/// ```
/// use tiffany_daemon::auth::{Role, Tokens};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-tokens-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let tokens = Tokens::at(&dir);
/// let token = tokens.add("ada", Role::Operator, None)?;
/// assert_eq!(tokens.find(token.reveal())?.name, "ada");
/// tokens.remove("ada")?;
/// assert_eq!(tokens.find(token.reveal()).unwrap_err().code(), "TFY0171");
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany_daemon::auth::AuthError>(())
/// ```
#[derive(Debug)]
pub struct Tokens {
    file: PathBuf,
    seen: Mutex<Seen>,
}

/// The tokens as last read, and the state of the file at that time.
#[derive(Debug, Default)]
struct Seen {
    of: Option<Stamp>,
    all: Vec<Kept>,
}

/// The state of a file. A file that replaces it has another inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    number: u64,
    size: u64,
    /// When its content changed, and when its owner or permissions changed.
    changed: [(i64, i64); 2],
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        let content = (metadata.mtime(), metadata.mtime_nsec());
        let rights = (metadata.ctime(), metadata.ctime_nsec());
        Stamp { number: metadata.ino(), size: metadata.size(), changed: [content, rights] }
    }
}

impl Tokens {
    /// Returns the tokens of a log directory.
    pub fn at(dir: &Path) -> Tokens {
        Tokens { file: dir.join(TOKENS), seen: Mutex::default() }
    }

    /// Returns the current state of the file.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        fs::symlink_metadata(&self.file).ok().map(|metadata| Stamp::of(&metadata))
    }

    /// Returns all tokens. A file that other users can read or write, or that another user owns, is
    /// refused.
    pub fn all(&self) -> Result<Vec<Kept>, AuthError> {
        let metadata = match fs::symlink_metadata(&self.file) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(AuthError::file(&self.file, "read", &error)),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.of != Some(Stamp::of(&metadata)) {
            let (of, all) = self.read()?;
            *seen = Seen { of: Some(of), all };
        }
        Ok(seen.all.clone())
    }

    /// Returns the stored token that the text matches.
    pub fn find(&self, text: &str) -> Result<Kept, AuthError> {
        let all = self.all()?;
        let kept = token::id_of(text).and_then(|id| all.iter().find(|kept| kept.id == id));
        let Some(kept) = kept else {
            // Takes as long as checking a known token.
            std::hint::black_box(token::hash(text));
            return Err(AuthError::BadToken);
        };
        match kept.is(text) {
            false => Err(AuthError::BadToken),
            true if kept.has_expired(SystemTime::now()) => {
                Err(AuthError::Expired(kept.name.clone()))
            }
            true => Ok(kept.clone()),
        }
    }

    /// Returns an error if the token with this id is no longer valid, or its role is now less than
    /// `role`.
    pub fn is_good(&self, id: &str, role: Role) -> Result<(), AuthError> {
        let all = self.all()?;
        let kept = all.iter().find(|kept| kept.id == id && kept.role >= role);
        match kept {
            None => Err(AuthError::BadToken),
            Some(kept) if kept.has_expired(SystemTime::now()) => {
                Err(AuthError::Expired(kept.name.clone()))
            }
            Some(_) => Ok(()),
        }
    }

    /// Creates a token. Its text cannot be retrieved later.
    pub fn add(
        &self,
        name: &str,
        role: Role,
        good_for: Option<Duration>,
    ) -> Result<Token, AuthError> {
        check_name(name)?;
        let token = Token::draw().map_err(|error| AuthError::file(&self.file, "made", &error))?;
        let expires =
            good_for.map(|time| token::seconds(SystemTime::now()).saturating_add(time.as_secs()));
        self.change(|all| {
            if all.iter().any(|kept| kept.name == name) {
                let message = format!("there is a token of `{name}` already");
                return Err(AuthError::TokenName(message));
            }
            all.push(Kept::new(&token, name, role, expires));
            Ok(())
        })?;
        Ok(token)
    }

    /// Removes a token by its owner's name or by its id. From then on it is refused.
    pub fn remove(&self, name: &str) -> Result<Kept, AuthError> {
        self.change(|all| {
            let place = all.iter().position(|kept| kept.name == name || kept.id == name);
            let nobody = || AuthError::TokenName(format!("there is no token of `{name}`"));
            place.map(|place| all.remove(place)).ok_or_else(nobody)
        })
    }

    fn read(&self) -> Result<(Stamp, Vec<Kept>), AuthError> {
        let wrong = |why| AuthError::TokenFile { file: self.file.clone(), did: "read", why };
        let failed = |error: io::Error| wrong(private::why_not_open(&error));
        let file = private::open(OpenOptions::new().read(true), &self.file);
        let mut file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if let Some(why) = private::why_not_ours(&self.file, &metadata) {
            return Err(wrong(why));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(wrong("others than its owner can read or write it".into()));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let all = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Ok((Stamp::of(&metadata), all))
    }

    /// Changes the file's content while holding a lock.
    fn change<R>(
        &self,
        act: impl FnOnce(&mut Vec<Kept>) -> Result<R, AuthError>,
    ) -> Result<R, AuthError> {
        let failed = |error: io::Error| AuthError::file(&self.file, "written", &error);
        let dir = private::dir_of(&self.file);
        // Tokens can be created before the log exists.
        private::make_dir(dir).map_err(failed)?;
        let path = dir;
        let dir = NotInherited::open(|| File::open(path)).map_err(failed)?;
        file_lock::lock(&dir, path, LOCK_TIMEOUT).map_err(failed)?;
        let mut all = match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            _ => self.read()?.1,
        };
        let result = act(&mut all)?;
        let text = serde_json::to_string_pretty(&all).map_err(|error| failed(error.into()))?;
        replace(&self.file, &dir, text.as_bytes()).map_err(failed)?;
        Ok(result)
    }
}

/// Replaces a file, and returns when the new one is durable.
fn replace(path: &Path, dir: &File, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    // A leftover file may be readable by other users.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    // Root may create tokens for a daemon that runs as another user.
    private::give_to_owner_of(private::dir_of(path), &file)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    dir.sync_all()
}

fn check_name(name: &str) -> Result<(), AuthError> {
    let fits = |c: char| c.is_alphanumeric() || "-_.@+".contains(c);
    match !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && name.chars().all(fits) {
        true => Ok(()),
        false => {
            let message = format!(
                "{name:?} is not a name for the owner of a token, which has letters, digits and `-_.@+`, at most {MAX_NAME_CHARS}"
            );
            Err(AuthError::TokenName(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::scratch::Dir;

    fn code<T: std::fmt::Debug>(result: Result<T, AuthError>) -> &'static str {
        result.unwrap_err().code()
    }

    #[test]
    fn a_token_is_found_by_everybody_until_it_is_removed() {
        let dir = Dir::new();
        let (maker, daemon) = (Tokens::at(&dir.0), Tokens::at(&dir.0));
        assert_eq!(daemon.all().unwrap(), []);
        let ada = maker.add("ada", Role::Admin, None).unwrap();
        let bob = maker.add("bob", Role::Viewer, None).unwrap();
        assert_eq!(daemon.find(ada.reveal()).unwrap().role, Role::Admin);
        assert_eq!(daemon.find(bob.reveal()).unwrap().name, "bob");
        let mixed = format!("{}{}", &ada.reveal()[..13], &bob.reveal()[13..]);
        assert_eq!(code(daemon.find(&mixed)), "TFY0171");
        maker.remove(ada.id()).unwrap();
        assert_eq!(code(daemon.find(ada.reveal())), "TFY0171");
        assert_eq!(daemon.find(bob.reveal()).unwrap().name, "bob");
        assert_eq!(code(maker.remove("ada")), "TFY0178");
        assert_eq!(code(maker.add("bob", Role::Viewer, None)), "TFY0178");
        let mode = fs::metadata(dir.0.join(TOKENS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_file_belongs_to_whom_the_directory_belongs() {
        let dir = Dir::new();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&dir.0, Some(4711), Some(4712)).unwrap();
        }
        let owner = |path: &Path| fs::metadata(path).map(|it| (it.uid(), it.gid())).unwrap();
        let tokens = Tokens::at(&dir.0);
        for name in ["ada", "bob"] {
            tokens.add(name, Role::Viewer, None).unwrap();
            assert_eq!(owner(&dir.0.join(TOKENS)), owner(&dir.0));
        }
    }

    #[test]
    fn a_token_expires() {
        let dir = Dir::new();
        let tokens = Tokens::at(&dir.0);
        let over = tokens.add("over", Role::Viewer, Some(Duration::ZERO)).unwrap();
        let hour = Duration::from_secs(3600);
        let good = tokens.add("good", Role::Viewer, Some(hour)).unwrap();
        assert_eq!(code(tokens.find(over.reveal())), "TFY0172");
        let kept = tokens.find(good.reveal()).unwrap();
        assert!(kept.has_expired(SystemTime::now() + hour));
    }

    #[test]
    fn a_file_that_is_damaged_or_open_to_others_lets_nobody_in() {
        let dir = Dir::new();
        let (file, tokens) = (dir.0.join(TOKENS), Tokens::at(&dir.0));
        let ada = tokens.add("ada", Role::Admin, None).unwrap();
        tokens.find(ada.reveal()).unwrap();
        fs::write(&file, "[{}]").unwrap();
        assert_eq!(code(tokens.find(ada.reveal())), "TFY0175");
        assert_eq!(code(tokens.add("bob", Role::Viewer, None)), "TFY0175");
        fs::write(&file, "[]").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(code(Tokens::at(&dir.0).all()), "TFY0175");
    }

    #[test]
    fn permissions_and_owner_are_checked_whenever_a_token_is_looked_up() {
        let dir = Dir::new();
        let (file, tokens) = (dir.0.join(TOKENS), Tokens::at(&dir.0));
        let ada = tokens.add("ada", Role::Admin, None).unwrap();
        tokens.find(ada.reveal()).unwrap();
        // The content is unchanged.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(code(tokens.find(ada.reveal())), "TFY0175");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        tokens.find(ada.reveal()).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(4711), None).unwrap();
            let refused = tokens.find(ada.reveal()).unwrap_err();
            assert!(refused.to_string().contains("another user, 4711"), "{refused}");
            assert_eq!(code(tokens.add("bob", Role::Viewer, None)), "TFY0175");
        }
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let (dir, other) = (Dir::new(), Dir::new());
        let ada = Tokens::at(&other.0).add("ada", Role::Admin, None).unwrap();
        std::os::unix::fs::symlink(other.0.join(TOKENS), dir.0.join(TOKENS)).unwrap();
        let tokens = Tokens::at(&dir.0);
        assert_eq!(code(tokens.find(ada.reveal())), "TFY0175");
        assert_eq!(code(tokens.add("bob", Role::Admin, None)), "TFY0175");
        fs::remove_file(other.0.join(TOKENS)).unwrap();
        assert_eq!(code(tokens.all()), "TFY0175");
    }

    #[test]
    fn names_are_such_that_can_be_printed() {
        let dir = Dir::new();
        let tokens = Tokens::at(&dir.0);
        let long = "x".repeat(MAX_NAME_CHARS + 1);
        for name in ["", " ", "a b", "\u{1b}[31m", "a\nb", &long] {
            assert_eq!(code(tokens.add(name, Role::Viewer, None)), "TFY0178", "{name:?}");
        }
        for name in ["ada", "ada@example.org", "ci-1", "Zoë"] {
            tokens.add(name, Role::Viewer, None).unwrap();
        }
    }

    #[test]
    fn many_who_make_tokens_at_once_lose_none() {
        let dir = Dir::new();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &dir.0;
                scope.spawn(move || {
                    Tokens::at(path).add(&format!("n{number}"), Role::Viewer, None).unwrap();
                });
            }
        });
        assert_eq!(Tokens::at(&dir.0).all().unwrap().len(), 8);
    }
}
