//! HTTP cache (RFC 9111): responses of origins that are kept for other requests.
//!
//! A worker looks a request up in memory, and answers a hit at once. All else happens on the threads for
//! origins: one request fetches what several wait for, and all read its body while it comes.

pub mod answer;
mod body_rest;
pub mod compression;
pub mod counts;
mod directives;
pub mod disk;
mod disk_fetch;
mod disk_file;
mod disk_index;
mod entry;
pub mod fetch;
pub mod fetch_source;
mod fill;
mod flight;
mod freshness;
mod invalidation_log;
pub mod lookup;
mod present;
pub mod purge;
pub mod reference;
mod revalidation;
pub mod rules;
mod slice_fetch;
mod sliced_response;
mod slices;
pub mod status;
mod storability;
pub mod store;
mod usability;
mod vary;
