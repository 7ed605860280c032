//! osdpl.

pub mod api;
pub mod catalog;
pub mod expr;
pub mod helm;
pub mod release;
pub mod scrub;
pub mod values;
pub mod yaml;
