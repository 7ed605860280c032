//! osdpl.

pub mod api;
