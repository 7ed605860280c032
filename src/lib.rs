//! osdpl.

pub mod api;
pub mod expr;
pub mod values;
pub mod yaml;
