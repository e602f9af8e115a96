//! Metadata and conditions on it as the OpenAPI document describes them. They are read by `dpr-data` and `dpr-index`.

use utoipa::ToSchema;

/// The value of a metadata field.
#[derive(ToSchema)]
#[schema(as = MetadataValue)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes `dpr_data::Value` to OpenAPI")]
pub(super) enum WireValue {
    /// A string.
    Text(String),
    /// A finite number; whole ones up to 2^53.
    Number(f64),
    /// True or false.
    Boolean(bool),
}

/// A condition on the metadata of a passage: a comparison of one field, or others combined. At most 16 conditions
/// deep, with at most 256 comparisons of at most 1000 values together. A passage without the field fails a
/// comparison, and passes its negation.
#[derive(ToSchema)]
#[schema(as = Condition)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes `dpr_index::search::Condition` to OpenAPI")]
pub(super) enum WireCondition {
    /// The field has this value.
    Equals {
        /// The name of the field.
        field: String,
        /// Its value.
        eq: WireValue,
    },
    /// The field has one of these values.
    In {
        /// The name of the field.
        field: String,
        /// The values, at least one.
        #[serde(rename = "in")]
        values: Vec<WireValue>,
    },
    /// The field has a value between the bounds: numbers, or strings compared by their UTF-8 bytes. One bound or two.
    Range {
        /// The name of the field.
        field: String,
        /// The value is greater.
        #[schema(required = false)]
        gt: WireValue,
        /// The value is greater or equal.
        #[schema(required = false)]
        gte: WireValue,
        /// The value is less.
        #[schema(required = false)]
        lt: WireValue,
        /// The value is less or equal.
        #[schema(required = false)]
        lte: WireValue,
    },
    /// The condition does not hold.
    #[schema(no_recursion)]
    Not {
        /// The condition.
        not: Box<WireCondition>,
    },
    /// All conditions hold.
    #[schema(no_recursion)]
    And {
        /// The conditions, at least one.
        and: Vec<WireCondition>,
    },
    /// At least one condition holds.
    #[schema(no_recursion)]
    Or {
        /// The conditions, at least one.
        or: Vec<WireCondition>,
    },
}
