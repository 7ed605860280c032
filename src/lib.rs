//! osdpl.

pub mod api;
pub mod catalog;
pub mod charts;
pub mod cluster;
pub mod credentials;
pub mod desired;
pub mod expr;
pub mod health;
pub mod helm;
pub mod observed;
pub mod plan;
pub mod release;
pub mod scrub;
pub mod status;
pub mod values;
pub mod yaml;
