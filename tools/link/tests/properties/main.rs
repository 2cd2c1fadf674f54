//! Properties of every link and every history of arrivals.

mod changing;
mod codel;
mod ecn;
mod histories;
mod steady;
