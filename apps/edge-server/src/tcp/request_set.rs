//! Requests of one HTTP/2 connection that are under way, run by the task of the connection: responses
//! that are ready together leave together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;

use futures_util::stream::FuturesUnordered;
use futures_util::Stream;
use hyper::rt::Executor;

/// How often a connection is polled in one turn: responses to what has arrived leave in it.
const ROUNDS_MAX: usize = 4;

/// Future of one request.
type BoxedRequest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Executor of a connection, which hands its requests to the [`RequestSet`].
#[derive(Clone, Default)]
pub struct RequestExecutor(Arc<Mutex<Vec<BoxedRequest>>>);

/// Requests under way.
#[derive(Default)]
pub struct RequestSet {
    begun: RequestExecutor,
    under_way: FuturesUnordered<BoxedRequest>,
}

impl<F> Executor<F> for RequestExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(request));
    }
}

impl RequestSet {
    /// Returns the executor for its connection.
    pub fn executor(&self) -> RequestExecutor {
        self.begun.clone()
    }

    /// Polls the connection and its requests until nothing moves, or its turn is over.
    pub fn poll_with<C: Future>(
        &mut self,
        mut connection: Pin<&mut C>,
        cx: &mut Context<'_>,
    ) -> Poll<C::Output> {
        for _ in 0..ROUNDS_MAX {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let begun =
                std::mem::take(&mut *self.begun.0.lock().unwrap_or_else(PoisonError::into_inner));
            let is_new = !begun.is_empty();
            self.under_way.extend(begun);
            let mut has_ended = false;
            while let Poll::Ready(Some(())) = Pin::new(&mut self.under_way).poll_next(cx) {
                has_ended = true;
            }
            // What requests have given the connection wakes its task otherwise.
            if !is_new && !has_ended {
                return Poll::Pending;
            }
        }
        // Other connections have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::poll_fn;
    use std::task::Waker;

    /// Ends when it has begun two requests, and both have responded.
    fn connection(
        executor: RequestExecutor,
        responses: Arc<Mutex<Vec<u32>>>,
    ) -> impl Future<Output = usize> {
        let mut left = 2;
        poll_fn(move |_| {
            for number in (0..left).rev() {
                let responses = Arc::clone(&responses);
                executor.execute(async move { responses.lock().unwrap().push(number) });
            }
            left = 0;
            let ready = responses.lock().unwrap().len();
            if ready == 0 {
                Poll::Pending
            } else {
                Poll::Ready(ready)
            }
        })
    }

    #[test]
    fn connection_sees_responses_that_are_ready_together_at_once() {
        let (mut set, responses) = (RequestSet::default(), Arc::default());
        let mut connection = Box::pin(connection(set.executor(), responses));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(set.poll_with(connection.as_mut(), &mut cx), Poll::Ready(2));
    }

    #[test]
    fn request_that_waits_is_woken() {
        let mut set = RequestSet::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let ended = Arc::new(Mutex::new(false));
        let has_ended = Arc::clone(&ended);
        set.executor().execute(async move {
            let _ = receiver.await;
            *ended.lock().unwrap() = true;
        });
        let mut cx = Context::from_waker(Waker::noop());
        let mut connection = Box::pin(poll_fn(|_| match *has_ended.lock().unwrap() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }));
        assert!(set.poll_with(connection.as_mut(), &mut cx).is_pending());
        sender.send(()).unwrap();
        assert!(set.poll_with(connection.as_mut(), &mut cx).is_ready());
    }
}
