//! osdpl.

pub mod api;
pub mod catalog;
pub mod expr;
pub mod health;
pub mod helm;
pub mod observed;
pub mod release;
pub mod scrub;
pub mod tasks;
pub mod values;
pub mod yaml;
