//! One training step equals PyTorch's, and chunked encoding equals the whole batch.

use std::collections::BTreeSet;

use crate::support::golden;

use dpr_train::{
    AdamW, Batch, DualEncoder, LossKind, Objective, OptimiserOptions, Precision, StepNoise, StepOptions,
    Targets, TrainDevice, Update, norm, step,
};
use golden::{Case, Golden, cosine, device, difference, dual_encoder, lists};

const STILL: StepNoise = StepNoise { dropout: 0.0, seed: 0 };

fn whole() -> StepOptions {
    StepOptions {
        chunk_rows: 1000,
        chunk_tokens: 1 << 20,
        tape_tokens: 1 << 20,
        threads: 1,
        ..StepOptions::default()
    }
}

fn gradients(
    case: &Case,
    options: &StepOptions,
    noise: StepNoise,
    device: &TrainDevice,
) -> (f64, Vec<Vec<Vec<f32>>>) {
    let model = dual_encoder(&case.model, device);
    let outcome = step(&model, &case.batch, &case.objective, options, noise, 1.0, device).unwrap();
    (outcome.loss, lists(&outcome.gradients))
}

#[test]
fn loss_and_gradients_of_one_step_equal_pytorch_s() {
    let device = device();
    for case in Golden::read().cases {
        let name = format!("{} {:?} {:?}", case.model, case.objective.loss, case.objective.similarity);
        let model = dual_encoder(&case.model, &device);
        let (loss, gradients) = gradients(&case, &whole(), STILL, &device);
        assert!((loss - case.loss).abs() <= 1e-5, "{name}: loss {loss}, PyTorch {}", case.loss);
        let total =
            case.gradients.iter().flat_map(|g| g.values()).map(|g| g.norm.powi(2)).sum::<f64>().sqrt();
        let mut worst = (1.0, String::new());
        let mut compared = 0;
        for ((encoder, gradient), expected) in model.encoders.iter().zip(&gradients).zip(&case.gradients) {
            assert_eq!(expected.len(), encoder.parameters.len(), "{name}: a gradient for each parameter");
            for (parameter, values) in encoder.parameters.iter().zip(gradient) {
                let got = parameter.reorder(values, true);
                let expected = &expected[&parameter.name];
                let length = golden::length(&got);
                // Adding one number to all keys changes no probability: the key's bias has a gradient of zero,
                // and what is left of it is rounding, in both.
                if expected.norm < 1e-7 * total {
                    assert!(length < 1e-5 * total, "{name}: {} should be 0, is {length}", parameter.name);
                    continue;
                }
                let cosine = cosine(&got, &expected.values);
                assert!(cosine >= 0.9999, "{name}: gradient of {} has cosine {cosine}", parameter.name);
                let off = (length / expected.norm - 1.0).abs();
                assert!(off < 1e-3, "{name}: length of {} is off by {off}", parameter.name);
                compared += 1;
                if cosine < worst.0 {
                    worst = (cosine, parameter.name.clone());
                }
            }
        }
        println!(
            "{name}: loss differs by {:.1e}; {compared} gradients, least cosine {:.7} ({})",
            (loss - case.loss).abs(),
            worst.0,
            worst.1
        );
    }
}

#[test]
fn a_gpu_gives_the_same_loss_and_gradients() {
    let Some(gpu) = golden::gpu() else { return };
    for case in Golden::read().cases {
        let (loss, got) = gradients(&case, &whole(), STILL, &gpu);
        let off = difference(&got, &gradients(&case, &whole(), STILL, &device()).1);
        println!(
            "{} {:?} on {}: gradients differ by {off:.1e}",
            case.model, case.objective.similarity, gpu.name
        );
        assert!((loss - case.loss).abs() <= 1e-3, "loss {loss}, PyTorch {}", case.loss);
        assert!(off <= 1e-4, "gradients differ by {off}");
        // Dropout is drawn by the device, from a seed: the pass that is run again leaves out the same.
        let noise = StepNoise { dropout: 0.1, seed: 7 };
        let chunks = |tape_tokens| StepOptions { chunk_rows: 4, tape_tokens, ..whole() };
        let [kept, again] = [1 << 20, 0].map(|tokens| gradients(&case, &chunks(tokens), noise, &gpu).1);
        assert!(difference(&again, &kept) <= 1e-3, "{}", difference(&again, &kept));
        if gpu.name.contains("a software adapter") {
            break; // it takes a minute a case
        }
    }
}

#[test]
fn twenty_steps_of_adamw_follow_pytorch_s() {
    let device = device();
    let run = Golden::read().run;
    let mut model: DualEncoder = dual_encoder("dpr", &device);
    let mut optimisers: Vec<AdamW> =
        model.encoders.iter().map(|encoder| AdamW::new(&encoder.parameters)).collect();
    let options = OptimiserOptions {
        learning_rate: run.learning_rate,
        warm_up: run.warm_up,
        clip: run.clip,
        weight_decay: run.weight_decay,
        ..OptimiserOptions::default()
    };
    let steps = run.losses.len();
    let (mut furthest, mut furthest_norm) = (0f64, 0f64);
    for taken in 0..steps {
        let batch = &run.batches[taken % run.batches.len()];
        let outcome = step(&model, batch, &Objective::default(), &whole(), STILL, 1.0, &device).unwrap();
        furthest = furthest.max((outcome.loss - run.losses[taken]).abs());
        let length = norm(&outcome.gradients).unwrap();
        furthest_norm = furthest_norm.max((length / run.norms[taken] - 1.0).abs());
        let scale = if length > options.clip { options.clip / (length + 1e-6) } else { 1.0 };
        let rate = options.rate(taken, steps);
        let update = Update { options: &options, rate, taken, scale };
        let encoders = model.encoders.iter_mut();
        for ((encoder, optimiser), gradient) in encoders.zip(&mut optimisers).zip(outcome.gradients) {
            optimiser.step(encoder, gradient, &update, &device).unwrap();
        }
    }
    println!("20 steps: losses within {furthest:.1e}, lengths of the gradient within {furthest_norm:.1e}");
    assert!(furthest <= 1e-3, "{furthest}");
}

#[test]
fn chunks_of_four_on_two_threads_equal_the_whole_batch_with_and_without_dropout() {
    let device = device();
    for case in Golden::read().cases {
        for tape_tokens in [0, 300, 1 << 20] {
            let options =
                StepOptions { chunk_rows: 4, chunk_tokens: 1 << 20, tape_tokens, threads: 2, ..whole() };
            let (loss, got) = gradients(&case, &options, STILL, &device);
            let (expected_loss, expected) = gradients(&case, &whole(), STILL, &device);
            let name = format!("{} {:?}, {tape_tokens} tokens on tape", case.model, case.objective.loss);
            assert!((loss - expected_loss).abs() <= 1e-5, "{name}: {loss} {expected_loss}");
            let off = difference(&got, &expected);
            assert!(off <= 1e-5, "{name}: gradients differ by {off}");
        }
        // With dropout the reference is the same chunks with every tape kept: nothing is encoded twice.
        let noise = StepNoise { dropout: 0.1, seed: 7 };
        let chunks = |tape_tokens| StepOptions {
            chunk_rows: 4,
            chunk_tokens: 1 << 20,
            tape_tokens,
            threads: 2,
            ..whole()
        };
        let (kept_loss, kept) = gradients(&case, &chunks(1 << 20), noise, &device);
        let (loss, again) = gradients(&case, &chunks(0), noise, &device);
        assert!((loss - kept_loss).abs() <= 1e-5);
        assert!(difference(&again, &kept) <= 1e-5, "{}", difference(&again, &kept));
        let (other_loss, _) = gradients(&case, &chunks(0), StepNoise { seed: 8, ..noise }, &device);
        assert!((other_loss - loss).abs() > 1e-4, "another seed leaves out other numbers");
    }
}

#[test]
fn frozen_embeddings_have_no_gradient_and_the_others_the_same() {
    let device = device();
    let case = &Golden::read().cases[0];
    let mut model = dual_encoder(&case.model, &device);
    model.encoders.iter_mut().for_each(|encoder| encoder.freeze_embeddings());
    let outcome = step(&model, &case.batch, &case.objective, &whole(), STILL, 1.0, &device).unwrap();
    let (_, full) = gradients(case, &whole(), STILL, &device);
    for ((encoder, got), full) in model.encoders.iter().zip(lists(&outcome.gradients)).zip(&full) {
        for ((parameter, got), full) in encoder.parameters.iter().zip(&got).zip(full) {
            match parameter.is_embedding() {
                true => assert!(got.is_empty(), "{}", parameter.name),
                false => assert_eq!(got, full, "{}", parameter.name),
            }
        }
    }
}

#[test]
fn a_shared_encoder_gathers_what_both_sides_give() {
    // A shared encoder's gradient is the sum of what two equal encoders get.
    let device = device();
    let case = Golden::read().cases.into_iter().find(|case| case.model == "mpnet").unwrap();
    let (_, shared) = gradients(&case, &whole(), STILL, &device);
    let mut apart = dual_encoder("mpnet", &device);
    apart.encoders.extend(dual_encoder("mpnet", &device).encoders);
    let outcome = step(&apart, &case.batch, &case.objective, &whole(), STILL, 1.0, &device).unwrap();
    let [question, passage]: [Vec<Vec<f32>>; 2] = lists(&outcome.gradients).try_into().unwrap();
    let sum: Vec<Vec<f32>> =
        question.iter().zip(&passage).map(|(q, p)| q.iter().zip(p).map(|(q, p)| q + p).collect()).collect();
    assert!(difference(&[sum], &shared) < 1e-5);
}

#[test]
fn damaged_weights_give_an_error_and_no_gradient() {
    let device = device();
    let case = &Golden::read().cases[0];
    let mut model = dual_encoder(&case.model, &device);
    model.encoders[0].weights[3][0] = f32::NAN;
    model.encoders[0].upload(&device);
    let result = step(&model, &case.batch, &case.objective, &whole(), STILL, 1.0, &device);
    assert!(result.unwrap_err().to_string().starts_with("the loss is NaN"));
    let empty = Batch::default();
    assert!(step(&model, &empty, &Objective::default(), &whole(), STILL, 1.0, &device).is_err());
    assert_eq!(case.objective.loss, LossKind::Nll);
}

/// Returns a case of texts that all take 16 tokens with padding, as many questions as passages: a software GPU takes
/// seconds to compile the kernels of each shape of a matrix product.
fn of_one_shape(case: Case) -> Case {
    let first = |texts: Vec<Vec<u32>>| -> Vec<Vec<u32>> {
        texts
            .into_iter()
            .take(4)
            .enumerate()
            .map(|(i, ids)| ids.into_iter().take(16 - 2 * i).collect())
            .collect()
    };
    let batch = Batch {
        questions: first(case.batch.questions),
        passages: first(case.batch.passages),
        targets: Targets { positive: (0..4).collect(), masked: vec![(0, 2)], ..Targets::default() },
    };
    Case { batch, ..case }
}

#[test]
fn half_precision_leads_where_single_precision_does() {
    let Some(gpu) = golden::gpu() else { return };
    if gpu.check(Precision::F16).is_err() {
        assert!(std::env::var_os("CI").is_none(), "{} does not compute in f16", gpu.name);
        eprintln!("skipped: {} does not compute in f16", gpu.name);
        return;
    }
    let case = of_one_shape(Golden::read().cases.swap_remove(0));
    for texts in [&case.batch.questions, &case.batch.passages] {
        let lengths: BTreeSet<_> = texts.iter().map(Vec::len).collect();
        assert!(lengths.len() > 1, "some texts have padding");
    }
    let half = StepOptions { precision: Precision::F16, ..whole() };
    let (expected_loss, expected) = gradients(&case, &whole(), STILL, &device());
    let (loss, got) = gradients(&case, &half, STILL, &gpu);
    // Single precision on a GPU is nearer to the CPU's than this (`a_gpu_gives_the_same_loss_and_gradients`).
    let apart = difference(&got, &expected);
    assert!(apart > 1e-4, "f16 is not what f32 is: gradients differ by {apart}");
    let [got, expected] = [got, expected].map(|gradients| gradients.concat().concat());
    let cosine = cosine(&got, &expected);
    let length = golden::length(&got) / golden::length(&expected);
    println!("f16 on {}: loss {loss}, f32 {expected_loss}; cosine {cosine:.6}, length {length:.4}", gpu.name);
    assert!((loss - expected_loss).abs() <= 1e-2, "{loss} {expected_loss}");
    assert!(cosine >= 0.999 && (length - 1.0).abs() < 1e-2, "{cosine} {length}");
}

#[test]
fn the_cpu_refuses_half_precision() {
    let message = device().check(Precision::F16).unwrap_err().to_string();
    assert!(message.contains("compute.precision is f16") && message.contains("say f32"), "{message}");
}
