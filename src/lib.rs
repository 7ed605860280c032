//! osdpl.

pub mod api;
pub mod catalog;
pub mod desired;
pub mod expr;
pub mod observed;
pub mod values;
pub mod yaml;
