//! Browser's copies in 4 bits that are rounded for the questions that will be asked.

use crate::files::fixtures;
use crate::vocabulary::{imported, page};

use dpr_encode::model::{
    ImportOptions, ModelDir, Vocabulary, WebFormat, WebManifest, WebOptions, export_web_with,
};

/// Questions to measure with, none of which calibrates.
const ASKED: [&str; 6] = [
    "When did the Normans give their name to Normandy?",
    "Who wrote the first book about the river?",
    "how many people live in the largest city of the north",
    "what is the name of the oldest church in Warsaw",
    "Which team won the game in the year 2016?",
    "where do cats sleep when it rains",
];

/// Exports in 4 bits, and returns what is in the file and each question's cosine with the vector in single precision.
fn export(model: &ModelDir, options: &WebOptions<'_>) -> (WebManifest, Vec<u8>, Vec<f32>) {
    let manifest =
        export_web_with(model, &WebOptions { formats: &[WebFormat::Q4], ..*options }).unwrap().manifest;
    let [single, narrow] = ["f32", "q4"].map(|dtype| {
        let encoder = page(model, &manifest, dtype);
        ASKED.map(|question| encoder.forward(&[encoder.question_tokens(question).unwrap()]).unwrap())
    });
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let cosines =
        single.iter().zip(&narrow).map(|(a, b)| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).collect();
    let file = fs_err::read(model.path().join(&manifest.weights["q4"].path)).unwrap();
    (manifest, file, cosines)
}

#[test]
fn calibrated_layers_have_nearer_vectors_in_as_many_bytes() {
    let (_out, model) = imported(&fixtures().join("dpr-tiny/question"), &ImportOptions::default());
    let words = ["river", "church", "king", "game", "song", "law", "north", "year", "cat", "book"];
    let questions: Vec<String> = (0..60)
        .map(|at| format!("what did the {} of {} {} know", words[at % 10], words[at * 7 % 9], words[at / 6]))
        .collect();
    let (manifest, plain, cosines) = export(&model, &WebOptions::default());
    let calibrated = WebOptions { calibration: &questions, ..WebOptions::default() };
    let (again, weights, nearer) = export(&model, &calibrated);
    let mean = |cosines: &[f32]| 1.0 - cosines.iter().sum::<f32>() / cosines.len() as f32;
    println!("1 - cosine: {} and {}", mean(&cosines), mean(&nearer));
    assert!(mean(&nearer) < 0.8 * mean(&cosines), "{cosines:?} {nearer:?}");
    let count = |web: &WebManifest, dtype: &str| web.weights[dtype].calibrated;
    assert_eq!((count(&manifest, "q4"), count(&again, "q4"), count(&again, "f32")), (None, Some(60), None));
    assert_eq!(plain.len(), weights.len());
    assert_eq!(manifest.fingerprint, again.fingerprint, "the vectors are of the same space");
    assert!(export(&model, &calibrated).1 == weights, "the same questions make the same file");

    // A smaller vocabulary leaves the layers as they are.
    let mut vocabulary = Vocabulary::of(&model).unwrap();
    vocabulary.keep_texts(&ASKED).unwrap();
    let (_, pruned, of_pruned) = export(&model, &WebOptions { vocabulary: Some(&vocabulary), ..calibrated });
    assert!(pruned.len() < weights.len());
    assert_eq!(of_pruned, nearer);
}
