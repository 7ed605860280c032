//! osdpl.

pub mod api;
pub mod catalog;
pub mod charts;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod credentials;
pub mod desired;
pub mod expr;
pub mod files;
pub mod health;
pub mod helm;
pub mod observed;
pub mod plan;
pub mod release;
pub mod scrub;
pub mod status;
pub mod tasks;
pub mod telemetry;
pub mod values;
pub mod web;
pub mod yaml;
