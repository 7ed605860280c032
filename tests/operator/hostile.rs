//! Tests attacks by tenants and unexpected states of the cluster: forged records, cloned namespaces, inputs that need
//! huge amounts of time or memory, frozen operators, removed CRDs. Each test shows that osdpl changes nothing without
//! approval, keeps the data, uses bounded memory, and names the remedy.
//!
//! Long tests are ignored; `make faults` runs them.

mod bombs;
mod chart;
mod clone;
mod crd;
mod floods;
mod forged;
mod memory;
mod operators;
mod roles;
