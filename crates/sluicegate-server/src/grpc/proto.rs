//! The messages of Envoy's rate limit service, made from `proto/` when this crate is built.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::as_conversions)]

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

/// What reflection tells clients about the service.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
