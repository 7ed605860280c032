//! osdpl.

pub mod api;
pub mod values;
