//! Properties of every link and every history of arrivals.

mod changing;
mod codel;
mod dual_queue;
mod ecn;
mod histories;
mod steady;
