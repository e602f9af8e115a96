//! A head is trained with the rest of its encoder, and exported with it.

use crate::support::common::fixtures;
use crate::support::golden;

use dpr_core::{DeviceChoice, Pooling, Similarity};
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_train::{
    Batch, DualEncoder, Objective, Sharing, StepNoise, StepOptions, Targets, TrainDevice, export, step,
};

const STILL: StepNoise = StepNoise { dropout: 0.0, seed: 0 };

fn loss(model: &DualEncoder, batch: &Batch, objective: &Objective, device: &TrainDevice) -> f64 {
    step(model, batch, objective, &StepOptions::default(), STILL, 1.0, device).unwrap().loss
}

#[test]
fn the_pooler_and_a_dense_layer_have_gradients_and_are_exported_with_prompts_and_similarity() {
    let device = golden::device();
    let dir = tempfile::tempdir().unwrap();
    let (start, out) = (dir.path().join("start"), dir.path().join("trained"));
    let options = ImportOptions {
        pooling: Some(Pooling::Pooler),
        similarity: Some(Similarity::Dot),
        normalize: Some(false),
        query_prompt: Some("who ".into()),
        ..ImportOptions::default()
    };
    import(&fixtures().join("sentence-transformers/dense-6"), None, &start, &options).unwrap();
    let opened = ModelDir::open(&start).unwrap();
    let mut model = DualEncoder::load(&opened, Sharing::Keep, None, None, &device).unwrap();
    assert_eq!(
        model.question_tokens("won").unwrap(),
        opened.question_encoder(DeviceChoice::Cpu).unwrap().question_tokens("won").unwrap(),
        "the prompt is trained with"
    );
    let ids = |texts: [&str; 3]| texts.map(|text| model.passage_tokens("", text).unwrap()).to_vec();
    let batch = Batch {
        questions: ids(["who won the game", "when was the war", "cats"]),
        passages: ids(["the dog", "the cat sleeps most of the day", "war of the night"]),
        targets: Targets { positive: vec![0, 1, 2], ..Targets::default() },
    };
    let objective = Objective { similarity: Similarity::L2, ..Objective::default() };
    let outcome = step(&model, &batch, &objective, &StepOptions::default(), STILL, 1.0, &device).unwrap();
    let gradients: Vec<_> = outcome.gradients.into_iter().map(|g| g.into_host().unwrap()).collect();
    let names: Vec<String> = model.encoders[0].parameters.iter().map(|p| p.name.clone()).collect();
    for name in ["pooler.dense.weight", "pooler.dense.bias", "dense.0.weight", "dense.0.bias"] {
        let place = names.iter().position(|known| known == name).unwrap();
        let gradient = gradients[0][place].clone();
        // The slope along the gradient, by two losses nearby.
        let step_size = 1e-2 / golden::length(&gradient).max(1e-6);
        let mut nearby = |sign: f64| {
            let before = model.encoders[0].weights[place].clone();
            for (weight, slope) in model.encoders[0].weights[place].iter_mut().zip(&gradient) {
                *weight += (sign * step_size * f64::from(*slope)) as f32;
            }
            model.encoders[0].upload(&device);
            let loss = loss(&model, &batch, &objective, &device);
            model.encoders[0].weights[place] = before;
            loss
        };
        let slope = (nearby(1.0) - nearby(-1.0)) / (2.0 * step_size);
        let expected = golden::length(&gradient).powi(2);
        assert!((slope / expected - 1.0).abs() < 0.05, "{name}: {slope} is not {expected}");
    }
    model.encoders[0].upload(&device);

    export(&model, &out, "trained", &objective).unwrap();
    let trained = ModelDir::open(&out).unwrap();
    let manifest = trained.manifest();
    assert_eq!((manifest.pooling, manifest.similarity, manifest.dim), (Pooling::Pooler, Similarity::L2, 9));
    assert_eq!(manifest.prompts.query, "who ");
    let encoder = trained.passage_encoder(DeviceChoice::Cpu).unwrap();
    let row = vec![encoder.passage_tokens("", "the dog").unwrap()];
    let (got, expected) = (encoder.forward(&row).unwrap(), model.encoders[0].encode(&row, &device).unwrap());
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}, {expected:?}");
    let weight = f64::from(encoder.config().l2.unwrap());
    let squared: f64 = expected.iter().map(|x| f64::from(*x).powi(2)).sum();
    assert!((f64::from(got[8]) + squared / (2.0 * weight)).abs() < 1e-5, "{got:?}");

    // What was trained for distance may go on to inner products, and loses the coordinate.
    let plain = ImportOptions { similarity: Some(Similarity::Dot), ..ImportOptions::default() };
    let again = import(&out.join("question_encoder"), None, &dir.path().join("dot"), &plain).unwrap();
    assert_eq!((again.similarity, again.dim), (Similarity::Dot, 8));
}
