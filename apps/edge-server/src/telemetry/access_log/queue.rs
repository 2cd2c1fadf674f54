//! Queue between those who respond and the thread that writes: lines gather in one buffer, so that a
//! line costs a copy. It is bounded, and nobody waits for the disk.

use std::sync::mpsc::Sender;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

/// The most that waits to be written, in bytes. As much again is being written.
const BYTES_MAX: usize = 4 << 20;

/// Lines that are written before they have gathered for that long, in bytes: a buffer that stays in the
/// processor's cache costs less.
const BATCH_BYTES: usize = 64 << 10;

/// How long lines gather before they are written together: to wake the thread for each would cost
/// more than the line.
const GATHERING: Duration = Duration::from_millis(50);

/// What the thread has to do.
pub enum LogMessage {
    /// Write these lines.
    Lines(Vec<u8>),

    /// Reopen the file, after it was rotated, and tell whether that succeeded.
    Reopen(Option<Sender<anyhow::Result<()>>>),

    /// Confirm that everything is written, and end.
    Close(Sender<()>),
}

/// Messages in their order.
#[derive(Default)]
pub struct LogQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    messages: Vec<LogMessage>,

    /// Of all lines.
    bytes: usize,

    /// Buffer of lines that were written, for the next ones.
    spare: Vec<u8>,

    /// The thread waits for a message; it need not be woken while lines gather.
    is_awaited: bool,

    /// Somebody waits for a message to be handled, or a batch of lines is there.
    is_urgent: bool,
}

/// Error: the queue is full.
pub struct Full;

impl LogQueue {
    /// Adds a line.
    ///
    /// # Errors
    ///
    /// The queue has no room for it.
    pub fn push_line(&self, line: &[u8]) -> Result<(), Full> {
        let mut state = self.state();
        if state.bytes + line.len() > BYTES_MAX {
            return Err(Full);
        }
        state.bytes += line.len();
        match state.messages.last_mut() {
            Some(LogMessage::Lines(lines)) => lines.extend_from_slice(line),
            _ => {
                let mut lines = std::mem::take(&mut state.spare);
                lines.extend_from_slice(line);
                state.messages.push(LogMessage::Lines(lines));
            }
        }
        let is_batch = state.bytes >= BATCH_BYTES && !state.is_urgent;
        state.is_urgent |= is_batch;
        if std::mem::take(&mut state.is_awaited) || is_batch {
            drop(state);
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Adds a message that is handled at once, behind the lines before it.
    pub fn push(&self, message: LogMessage) {
        let mut state = self.state();
        state.messages.push(message);
        state.is_urgent = true;
        drop(state);
        self.changed.notify_one();
    }

    /// Takes back the buffer of lines that are written.
    pub fn recycle(&self, mut lines: Vec<u8>) {
        lines.clear();
        self.state().spare = lines;
    }

    /// Takes all messages that are there.
    pub fn take(&self) -> Vec<LogMessage> {
        Self::take_from(&mut self.state())
    }

    /// Waits until lines have gathered, or a message comes. Only the first line after a pause does not
    /// wait for others.
    pub fn wait(&self) -> Vec<LogMessage> {
        let gathering = self
            .changed
            .wait_timeout_while(self.state(), GATHERING, |state| !state.is_urgent)
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = gathering.0;
        while state.messages.is_empty() {
            state.is_awaited = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Self::take_from(&mut state)
    }

    fn take_from(state: &mut QueueState) -> Vec<LogMessage> {
        state.bytes = 0;
        state.is_urgent = false;
        state.is_awaited = false;
        std::mem::take(&mut state.messages)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_gather_between_other_messages() {
        let queue = LogQueue::default();
        for line in ["a\n", "b\n"] {
            assert!(queue.push_line(line.as_bytes()).is_ok());
        }
        queue.push(LogMessage::Reopen(None));
        assert!(queue.push_line(b"c\n").is_ok());
        let messages = queue.take();
        let [LogMessage::Lines(before), LogMessage::Reopen(None), LogMessage::Lines(after)] =
            &messages[..]
        else {
            panic!("{} messages", messages.len());
        };
        assert_eq!((&before[..], &after[..]), (&b"a\nb\n"[..], &b"c\n"[..]));
    }

    #[test]
    fn batch_does_not_wait_for_more_lines() {
        let queue = LogQueue::default();
        let half = [b'x'; BATCH_BYTES / 2];
        for is_urgent in [false, true, true] {
            assert!(queue.push_line(&half).is_ok());
            assert_eq!(queue.state().is_urgent, is_urgent);
        }
        assert_eq!(queue.wait().len(), 1);
        assert!(!queue.state().is_urgent);
    }

    #[test]
    fn full_queue_refuses_lines_until_they_are_taken() {
        let queue = LogQueue::default();
        let line = [b'x'; 1 << 20];
        let pushed = |_| queue.push_line(&line).is_ok();
        assert_eq!([0; 5].map(pushed), [true, true, true, true, false]);
        queue.push(LogMessage::Reopen(None));
        assert_eq!(queue.take().len(), 2);
        assert!(pushed(0));
    }
}
