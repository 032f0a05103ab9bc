//! Where a task panicked, and within which labels. The payload does not say; the panic hook knows.

use std::sync::Once;

use tiffany_kernel::Site;

use crate::context;

/// Makes the panic hook note the line of panics inside tasks. What it did before, it still does.
pub(crate) fn note_where() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            context::with(|context| {
                if context.port.task().is_some() {
                    let site = info
                        .location()
                        .map(|at| Site { file: at.file().to_string().into(), line: at.line() });
                    context.panicked_at.set(site);
                    // A panic in here would end the process, so nothing is taken for granted.
                    if let (Ok(mut within), Ok(labels)) =
                        (context.panicked_within.try_borrow_mut(), context.labels.try_borrow())
                    {
                        within.clone_from(&labels);
                    }
                }
            });
            before(info);
        }));
    });
}
