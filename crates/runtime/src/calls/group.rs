//! Groups: tasks that end together.

use std::fmt;
use std::rc::Rc;

use tiffany_kernel::{ObjectRef, Release, Reply, SystemCall, TaskError};

use crate::calls::call::{Call, FromReply, TryCall, unexpected};
use crate::calls::context;

/// A group of tasks that end together: a failed member cancels the others, and so does dropping the
/// group.
///
/// ```
/// use tiffany::{group, spawn, try_spawn, sleep};
/// use std::time::Duration;
///
/// tiffany::run(async {
///     let group = group().await;
///     drop(spawn(sleep(Duration::from_secs(3600))).group(&group).await);
///     drop(try_spawn(async { Err::<(), _>("no luck") }).group(&group).await);
///     // The failure has cancelled the sleeper, so this returns at once.
///     assert_eq!(group.join().await.unwrap_err().message(), "no luck");
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[must_use = "dropping a group cancels its members"]
pub struct Group {
    object: ObjectRef,
    not_send: std::marker::PhantomData<Rc<()>>,
}

/// Creates an empty group. Tasks join it with [`Spawn::group`](crate::calls::sys::Spawn::group).
#[track_caller]
pub fn group() -> Call<Group> {
    Call::new(SystemCall::CreateGroup)
}

impl Group {
    /// Waits until every member is finished. The first failure cancels the others and is the
    /// result.
    #[track_caller]
    pub fn join(&self) -> TryCall<()> {
        TryCall::new(SystemCall::JoinGroup(self.object))
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

impl FromReply for Group {
    fn from_reply(reply: Reply) -> Result<Group, TaskError> {
        match reply {
            Reply::Object(object) => Ok(Group { object, not_send: std::marker::PhantomData }),
            _ => unexpected("group"),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        context::release(Release::Group(self.object));
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.object.id)
    }
}
