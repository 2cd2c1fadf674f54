//! Unused memory of streams, which an idle connection releases.

use super::*;

impl<F: BufFactory> StreamMap<F> {
    pub(crate) fn shrink_to_fit(&mut self) {
        for stream in self.streams.values_mut() {
            stream.recv.shrink_to_fit();
            stream.send.shrink_to_fit();
        }

        self.streams.shrink_to_fit();
    }
}
