//! osdpl.

pub mod api;
pub mod catalog;
pub mod credentials;
pub mod desired;
pub mod expr;
pub mod health;
pub mod observed;
pub mod plan;
pub mod status;
pub mod values;
pub mod yaml;
