//! Evaluates the conditions in the catalogue.

use super::Finding;
use crate::catalog::Level;
use osdpl_values::expr::{Expression, Scope};

/// Whether a condition of the catalogue holds. A missing condition always holds.
///
/// If osdpl can't evaluate the condition, the function returns false, and adds to `findings` an error about `field`.
/// `location` says where the file with the condition is (see `Catalog::file_location`).
pub(super) fn holds(
    when: Option<&Expression>,
    scope: &Scope,
    location: &str,
    field: &(impl ToString + ?Sized),
    findings: &mut Vec<Finding>,
) -> bool {
    when.is_none_or(|when| {
        when.evaluate_condition(scope).unwrap_or_else(|error| {
            let correction = correction(location);
            findings.push(refused(
                field.to_string(),
                format!("{error}; set the field of the spec that the expression reads; if it is set, {correction}"),
            ));
            false
        })
    })
}

/// Returns how a user corrects a wrong expression at a location in a catalogue file.
pub(super) fn correction(location: &str) -> String {
    if is_added(location) {
        return format!("correct the expression in {location}");
    }
    "report this bug of the catalogue".to_owned()
}

/// Whether a location is in a catalogue file that a user added. If so, the user can correct errors at this location.
pub(super) fn is_added(location: &str) -> bool {
    location.starts_with("ConfigMap ")
}

pub(super) fn refused(field: impl Into<String>, message: impl Into<String>) -> Finding {
    Finding::new(Level::Error, field, message)
}
