//! One option of a service, and its differences between OpenStack releases.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

/// An option of a service, as it is in some OpenStack releases.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceOption {
    /// The type of the option's value; `None` if this is the old name of another option.
    #[serde(rename = "type")]
    pub option_type: Option<OptionType>,
    /// The value that the service uses if its configuration does not contain the option; `None` if the service has no
    /// default, or if the default is long or depends on the machine.
    pub default: Option<Value>,
    /// The minimum of a number.
    pub min: Option<Number>,
    /// The maximum of a number.
    pub max: Option<Number>,
    /// The only allowed values; empty if the option allows other values, too.
    pub choices: Vec<Value>,
    /// The section and name of the option of which this is an old name, in the form `section.option`.
    pub renamed: Option<String>,
    /// The first OpenStack release, of those in the file, in which the option is deprecated; `None` if the option is
    /// not deprecated.
    pub deprecated: Option<String>,
    /// Why the service deprecates the option, as a sentence; empty if unknown.
    why: String,
    /// The effect of the option; empty if unknown.
    pub help: String,
    /// The OpenStack releases that have this option; empty if every OpenStack release that the file describes has it.
    #[serde(rename = "in")]
    pub releases: Vec<String>,
}

impl ServiceOption {
    /// Returns the section and the name of the option of which this is an old name; `None` if this is no old name.
    pub fn new_name(&self) -> Option<(&str, &str)> {
        self.renamed.as_deref()?.rsplit_once('.')
    }

    /// Returns why the service deprecates the option, without the period at the end; empty if unknown. The `...` at the
    /// end of a shortened text stays.
    pub fn why(&self) -> &str {
        self.why.strip_suffix('.').filter(|why| !why.ends_with('.')).unwrap_or(&self.why)
    }

    /// Whether the service deprecates the option in an OpenStack release.
    pub fn is_deprecated_in(&self, openstack_release: &str) -> bool {
        self.deprecated.as_deref().is_some_and(|first| first <= openstack_release)
    }
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptionType {
    /// Any string.
    String,
    /// A boolean: `true` or `false`, or a word such as `yes` or `off`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// Values that are separated by commas.
    List,
    /// Pairs of key and value that are separated by commas, such as `a:1,b:2`.
    Dict,
    /// A string; the configuration file can set the option several times.
    Multi,
    /// A TCP or UDP port.
    Port,
    /// A URI.
    Uri,
    /// An IP address.
    Ip,
    /// A host name or an IP address.
    Host,
    /// A type that osdpl does not check.
    Other,
}

impl OptionType {
    /// Returns the name of the type, as the files in `values/options/` write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::List => "list",
            Self::Dict => "dict",
            Self::Multi => "multi",
            Self::Port => "port",
            Self::Uri => "uri",
            Self::Ip => "ip",
            Self::Host => "host",
            Self::Other => "other",
        }
    }
}

/// An option of a service: one variant, or several variants if the option differs between OpenStack releases.
#[derive(Debug)]
pub(super) struct Variants(pub Vec<ServiceOption>);

impl Variants {
    /// Returns the variant of an OpenStack release; `None` if the release does not have the option.
    pub(crate) fn of(&self, openstack_release: &str) -> Option<&ServiceOption> {
        let applies = |option: &&ServiceOption| {
            option.releases.is_empty() || option.releases.iter().any(|release| release == openstack_release)
        };
        self.0.iter().find(applies)
    }
}

impl<'de> Deserialize<'de> for Variants {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany)
    }
}

/// Reads one variant or a list of variants. Unlike serde's untagged enums, it keeps the cause of an error.
struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Variants;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an option, or a list of its variants in different OpenStack releases")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Variants, A::Error> {
        ServiceOption::deserialize(MapAccessDeserializer::new(map)).map(|option| Variants(vec![option]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Variants, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Variants)
    }
}
