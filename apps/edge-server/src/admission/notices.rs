//! Notices to one worker: its connections of which something has changed by what others did.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use crate::quic::handle::ConnectionHandle;

/// Handle of a worker's notices.
#[derive(Clone)]
pub struct Notices(Arc<NoticeQueue>);

struct NoticeQueue {
    handles: Mutex<Vec<ConnectionHandle>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handles().iter()).finish()
    }
}

impl Notices {
    /// Returns the notices of a worker, which `wake` wakes.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(NoticeQueue { handles: Mutex::default(), wake: Box::new(wake) }))
    }

    /// Adds a notice of a connection.
    pub fn push(&self, handle: ConnectionHandle) {
        self.handles().push(handle);
        (self.0.wake)();
    }

    /// Takes those since the last time.
    pub fn take(&self) -> Vec<ConnectionHandle> {
        std::mem::take(&mut *self.handles())
    }

    pub fn is_empty(&self) -> bool {
        self.handles().is_empty()
    }

    fn handles(&self) -> MutexGuard<'_, Vec<ConnectionHandle>> {
        self.0.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
