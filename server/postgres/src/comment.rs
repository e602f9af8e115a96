//! The comment of a table, which names the model of its vectors.

use dpr_index::search::ServiceError;
use dpr_index::{HnswParams, IndexManifest};
use serde::{Deserialize, Serialize};

use crate::{PostgresAddress, PostgresError};

/// The format of the comment that this program writes, and the newest it reads.
const FORMAT: u32 = 1;

/// The content of a table's comment, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// 1.
    #[serde(rename = "dpr_format")]
    format: u32,
    /// Fingerprint of the model whose vectors the table holds.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// The metric by which vectors are compared: `inner_product`.
    pub metric: String,
    /// Parameters of the graph, and of searches in it.
    #[serde(default)]
    pub hnsw: HnswParams,
    /// `true` if the table was made by `dpr`, and not by the user.
    #[serde(default)]
    pub table_made: bool,
    /// The program that wrote the comment.
    #[serde(default)]
    pub created_by: String,
}

impl Described {
    pub(crate) fn new(model_fingerprint: &str, dim: usize, hnsw: HnswParams, table_made: bool) -> Self {
        Self {
            format: FORMAT,
            model_fingerprint: model_fingerprint.to_owned(),
            dim,
            metric: IndexManifest::INNER_PRODUCT.to_owned(),
            hnsw,
            table_made,
            created_by: concat!("dpr ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    pub(crate) fn parse(address: &PostgresAddress, comment: Option<&str>) -> Result<Self, PostgresError> {
        #[derive(Deserialize)]
        struct Format {
            dpr_format: u32,
        }
        let refused =
            |why: &str| PostgresError::NoModel { address: address.to_string(), why: why.to_owned() };
        let comment = comment.ok_or_else(|| refused("there is none"))?;
        let Format { dpr_format: found } =
            serde_json::from_str(comment).map_err(|_| refused("it is a text of somebody else"))?;
        ServiceError::check_format(address, found, FORMAT)?;
        let described: Self =
            serde_json::from_str(comment).map_err(|error| refused(&format!("it cannot be read: {error}")))?;
        match described.metric == IndexManifest::INNER_PRODUCT {
            true => Ok(described),
            false => Err(refused("its metric is not inner_product")),
        }
    }

    /// Returns the comment as it is written.
    pub(crate) fn json(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Refuses vectors of another model or length.
    pub(crate) fn check(
        &self,
        address: &PostgresAddress,
        model: &str,
        dim: usize,
    ) -> Result<(), ServiceError> {
        ServiceError::check_model(address, (&self.model_fingerprint, self.dim), (model, dim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_read_as_it_was_written_and_others_are_refused() {
        let address = "postgres://u@localhost/d".parse().unwrap();
        let parse = |text: Option<&str>| Described::parse(&address, text).map_err(|error| error.to_string());
        let described = Described::new("ab", 3, HnswParams::default(), true);
        assert_eq!(parse(Some(&described.json())), Ok(described));
        let short = r#"{"dpr_format":1,"model_fingerprint":"ab","dim":3,"metric":"inner_product"}"#;
        assert!(!parse(Some(short)).unwrap().table_made);
        for (comment, part) in [
            (None, "there is none"),
            (Some("the shop's articles"), "somebody else"),
            (Some(r#"{"dpr_format":2}"#), "format 2"),
            (Some(r#"{"dpr_format":1,"dim":3}"#), "model_fingerprint"),
            (Some(&short.replace("inner_product", "cosine")), "inner_product"),
        ] {
            let error = parse(comment).unwrap_err();
            assert!(error.contains(part), "{comment:?}: {error}");
        }
    }
}
