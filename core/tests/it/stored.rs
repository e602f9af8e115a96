//! Weights with other tensors, and in 8 bits.

use dpr_core::TensorMap;
use dpr_core::weights::quantize_rows;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// A tensor of a file: name, type, shape and bytes.
pub(crate) type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

/// Returns a file with its tensors under other names or with other contents.
pub(crate) fn edited(weights: &[u8], edit: impl Fn(&str, Dtype, &[usize], &[u8]) -> Vec<Stored>) -> Vec<u8> {
    let parsed = SafeTensors::deserialize(weights).unwrap();
    let stored = parsed.iter().flat_map(|(name, view)| edit(name, view.dtype(), view.shape(), view.data()));
    file(&stored.collect::<Vec<_>>())
}

fn file(stored: &[Stored]) -> Vec<u8> {
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// Returns a file with its matrices in 8 bits, but for positions, token types and the relative bias, as browsers
/// download encoders.
pub(crate) fn in_eight_bits(weights: &[u8]) -> Vec<u8> {
    let small = ["position_embeddings", "token_type_embeddings", "relative_attention_bias"];
    let names: Vec<_> = {
        let parsed = SafeTensors::deserialize(weights).unwrap();
        parsed.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect()
    };
    let mut map = TensorMap::from_safetensors([("m", weights)]).unwrap();
    let canonical: Vec<_> = map.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
    // The pooler may be left by other models, so it is not listed.
    let pooler = names.into_iter().filter_map(|(name, shape)| {
        Some((name.strip_prefix("bert.").filter(|name| name.starts_with("pooler."))?.to_owned(), shape))
    });
    let mut stored: Vec<Stored> = Vec::new();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for (name, shape) in canonical.into_iter().chain(pooler) {
        let values = map.take_f32(&name, &shape).unwrap();
        if shape.len() == 2 && !small.iter().any(|part| name.contains(part)) {
            let (values, scales) = quantize_rows(&values, shape[1]);
            stored.push((format!("{name}.scale"), Dtype::F32, shape[..1].to_vec(), bytes(&scales)));
            let values = values.iter().map(|v| v.to_le_bytes()[0]).collect();
            stored.push((name, Dtype::I8, shape, values));
        } else {
            stored.push((name, Dtype::F32, shape, bytes(&values)));
        }
    }
    file(&stored)
}
