//! Validates resources in files: against the schema and the CEL rules of the CRD (as the API server does), against the
//! catalogue, and against the rules ([`crate::rule`]).
//!
//! Pure module. `osdpl validate` checks the schema, the CEL rules, the catalogue and the rules offline. The webhook
//! checks only the catalogue and the rules, because the API server has already checked the schema and the CEL rules.

mod admission;
mod crd;
mod fields;
mod file;
mod kinds;
mod metadata;
mod nulls;
mod refused;
mod report;
mod review;
mod schema;

pub use crate::field::keys_of_field;
pub use crate::manifests::{addition_references, config_map_data, named_additions};
pub use admission::spec_to_check;
pub use crd::{Schemas, read_spec};
pub use file::{Content, Document, ParsedDocument, split_documents};
pub use kinds::{Kind, is_deployment, likely_mistake, objects};
pub use report::{Argument, Report, Summary, describe_kinds, describe_resource, manifests, report};
pub use review::ReviewInput;
