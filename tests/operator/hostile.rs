//! Hostile tenants, and states of the cluster that nobody planned: forged records, cloned namespaces, bombs and floods,
//! frozen operators, removed definitions. Each test shows that osdpl runs nothing that nobody approved, keeps the data,
//! uses bounded memory, and says what to do.
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
