//! Gradients of every family equal PyTorch's.
#![cfg(all(feature = "autodiff", feature = "flex"))]

use crate::golden;

use burn::tensor::{FloatDType, Tensor, TensorData};
use dpr_core::device::Device;
use dpr_core::encoder::{Encoder, TokenBatch, parameter_list};
use dpr_core::{DeviceChoice, TensorMap};
use golden::{Golden, root};

/// Returns the length of a gradient, and its product with the cosines of 0, 1, ….
fn summary(values: &[f32]) -> [f64; 2] {
    let product = values.iter().enumerate().map(|(at, value)| f64::from(*value) * (at as f64).cos()).sum();
    [values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt(), product]
}

#[test]
fn gradients_of_every_family_equal_pytorch_s() {
    for family in golden::FAMILIES {
        let golden = Golden::read(family);
        let dir = root().join("tests/fixtures").join(family);
        let device = Device::open(DeviceChoice::Flex).unwrap();
        let text = golden.encoder(&dir, &device);
        let Device::Burn { device, .. } = &device else { panic!("flex is a device of Burn's") };
        let weights = std::fs::read(dir.join("model.safetensors")).unwrap();
        let tensors = TensorMap::from_safetensors([("model.safetensors", weights.as_slice())]).unwrap();
        let config = text.config();
        let parameters = parameter_list(config);
        let net = Encoder::load(config, tensors, device).unwrap();

        let questions = &golden.questions[golden.questions.len() - 4..];
        let rows: Vec<_> = questions.iter().map(|question| text.question_tokens(question).unwrap()).collect();
        assert!(rows.iter().any(|row| row.len() != rows[0].len()), "the rows differ in length");
        let batch = TokenBatch::new(&rows, config.pad_token_id, 1, config.position_limit());
        let taped = device.clone().autodiff();
        let factors: Vec<f32> = (0..4 * 32).map(|at| ((at / 32 + at % 32) as f32).cos()).collect();
        let factors = Tensor::<2>::from_data(TensorData::new(factors, [4, 32]), &taped);
        let gradients_of = |net: &Encoder| -> Vec<Vec<f32>> {
            let net = net.leaves(&vec![true; parameters.len()]);
            let mut gradients = (net.forward(&batch, config, &taped) * factors.clone()).sum().backward();
            let found = net.take_gradients(&mut gradients).into_iter();
            found.map(|gradient| gradient.unwrap().into_data().try_into_vec::<f32>().unwrap()).collect()
        };
        let expected = golden.json["gradients"].as_object().unwrap();
        assert_eq!(expected.len(), parameters.len(), "{family}");
        let pair = |name: &str| [0, 1].map(|at| expected[name][at].as_f64().unwrap());
        let total = expected.keys().map(|name| pair(name)[0].powi(2)).sum::<f64>().sqrt();
        let found = gradients_of(&net);
        assert_eq!(found.len(), parameters.len(), "{family}");
        for (parameter, values) in parameters.iter().zip(found) {
            let (got, expected) = (summary(&parameter.reorder(&values, true)), pair(&parameter.name));
            // What is left of a gradient of zero, as that of a key's bias, is rounding.
            let limit = 2e-3 * expected[0] + 1e-5 * total;
            for (got, expected) in got.into_iter().zip(expected) {
                assert!(
                    (got - expected).abs() <= limit,
                    "{family}, {}: {got}, not {expected}",
                    parameter.name
                );
            }
        }

        let single = gradients_of(&net).concat();
        let narrow = gradients_of(&net.with_products_in(FloatDType::BF16)).concat();
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let cosine = dot(&single, &narrow) / (dot(&single, &single) * dot(&narrow, &narrow)).sqrt();
        println!("{family}: cosine of the gradient in bf16 with that in f32 {cosine:.6}");
        assert!(cosine > 0.999, "{family}: {cosine}");
        assert_ne!(single, narrow, "{family}: the products are in bf16");
    }
}
