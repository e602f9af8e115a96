//! Tests of the paired bootstrap.

use super::*;

/// Returns a system that hits question `i` when `hits(i)`.
fn system(name: &str, questions: usize, hits: impl Fn(usize) -> bool) -> System {
    System::from_hits(name, (0..questions).map(hits))
}

#[test]
fn the_interval_is_that_of_the_normal_approximation() {
    // 90 wins and 30 losses in 1,000 questions: mean 0.06, standard error of the paired difference known.
    let systems = [
        system("bm25", 1000, |i| (90..120).contains(&i) || i >= 500),
        system("dense", 1000, |i| !(90..500).contains(&i)),
    ];
    let [found] = &compare(&systems, Bootstrap::default()).unwrap()[..] else { panic!() };
    assert_eq!((found.wins, found.losses), (90, 30));
    assert!((found.difference - 0.06).abs() < 1e-12);
    let error = ((0.12 - 0.06f64.powi(2)) / 1000.0).sqrt();
    assert!((found.low - (0.06 - 1.96 * error)).abs() < 0.001, "{found:?}");
    assert!((found.high - (0.06 + 1.96 * error)).abs() < 0.001, "{found:?}");
    assert!(found.p < 0.001);
}

#[test]
fn p_of_a_small_difference_is_that_of_the_normal_approximation() {
    // 30 wins and 20 losses in 400: z = 0.025 / sqrt((0.125 - 0.025^2) / 400) = 1.418, p = 0.156.
    let systems = [
        system("a", 400, |i| (30..50).contains(&i)),
        system("b", 400, |i| i < 30),
        system("c", 400, |i| i < 20),
    ];
    let found = compare(&systems, Bootstrap::default()).unwrap();
    // Counting resamples without any difference on both sides makes it a little larger.
    assert!((0.15..0.19).contains(&found[0].p), "{found:?}");
    assert!(found[0].low < 0.0 && found[0].high > 0.0);
    assert!((found[1].difference, found[1].wins) == (0.0, 20) && found[1].p > 0.9, "{found:?}");
}

#[test]
fn questions_of_one_article_count_as_one_draw() {
    // 100 articles of 10 questions, alike within an article: 12 articles won and 4 lost. As if there were 100
    // questions, the standard error is sqrt((0.16 - 0.08^2) / 100) = 0.0392, and 0.0124 if there were 1,000.
    let systems = [
        system("a", 1000, |i| (12..16).contains(&(i / 10)) || i >= 500),
        system("b", 1000, |i| i / 10 < 12 || i >= 500),
    ];
    let articles: Vec<usize> = (0..1000).map(|i| i / 10).collect();
    let width = |found: &[Comparison]| (found[0].high - found[0].low) / (2.0 * 1.96);
    let clustered = compare_clusters(&systems, &articles, Bootstrap::default()).unwrap();
    let alone = compare(&systems, Bootstrap::default()).unwrap();
    assert!((width(&clustered) - 0.0392).abs() < 0.0025, "{clustered:?}");
    assert!((width(&alone) - 0.0124).abs() < 0.001, "{alone:?}");
    assert!((clustered[0].difference - 0.08).abs() < 1e-12 && clustered[0].wins == 120);
    assert!(clustered[0].p > 20.0 * alone[0].p, "{clustered:?} {alone:?}");
    let each: Vec<usize> = (0..1000).collect();
    assert_eq!(compare_clusters(&systems, &each, Bootstrap::default()).unwrap(), alone);
}

#[test]
fn the_mean_of_a_resample_is_over_its_questions_not_its_clusters() {
    // One article of 90 questions, all won, and ten of one question, all lost: every resample has a mean between.
    let systems = [system("a", 100, |i| i >= 90), system("b", 100, |i| i < 90)];
    let articles: Vec<usize> = (0..100).map(|i| i.max(89)).collect();
    let found = &compare_clusters(&systems, &articles, Bootstrap::default()).unwrap()[0];
    assert!((found.difference - 0.8).abs() < 1e-12);
    // Without the large article (probability (10/11)^11 = 0.35) the mean is -1, with it above 0.8.
    assert_eq!(found.low, -1.0);
    assert!(found.high > 0.9 && found.p > 0.6, "{found:?}");
}

#[test]
fn clusters_that_do_not_fit_the_questions_are_refused() {
    let systems = [system("a", 3, |_| true), system("b", 3, |_| false)];
    let run = |clusters: &[usize]| compare_clusters(&systems, clusters, Bootstrap::default()).unwrap_err();
    assert_eq!(run(&[1, 2]), CompareError::Clusters { clusters: 2, questions: 3 });
    assert_eq!(run(&[4, 4, 4]), CompareError::OneCluster { questions: 3 });
    let error = run(&[4, 4, 4]).to_string();
    assert!(
        error.contains("1 cluster holds 3 questions") && error.contains("20 clusters or more"),
        "{error}"
    );
    let one = [system("a", 1, |_| true), system("b", 1, |_| false)];
    let error = compare_clusters(&one, &[0], Bootstrap::default()).unwrap_err();
    assert_eq!(error, CompareError::OneCluster { questions: 1 });
}

#[test]
fn equal_systems_do_not_differ() {
    let systems = [system("a", 50, |i| i % 2 == 0), system("b", 50, |i| i % 2 == 0)];
    let found = compare(&systems, Bootstrap::default()).unwrap();
    assert_eq!((found[0].difference, found[0].low, found[0].high, found[0].p), (0.0, 0.0, 0.0, 1.0));
}

#[test]
fn a_seed_repeats_itself_on_any_number_of_threads() {
    let systems = [system("a", 300, |i| i % 3 == 0), system("b", 300, |i| i % 5 == 0)];
    let run = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| compare(&systems, Bootstrap { seed, ..Bootstrap::default() }).unwrap())
    };
    assert_eq!(run(1, 7), run(3, 7));
    assert_ne!(run(1, 7), run(1, 8));
}

#[test]
fn systems_that_do_not_belong_together_are_refused() {
    let (a, b) = (system("a", 3, |_| true), system("b", 4, |_| true));
    let run = |systems: &[System]| compare(systems, Bootstrap::default()).unwrap_err();
    assert_eq!(run(std::slice::from_ref(&a)), CompareError::TooFew { systems: 1 });
    assert!(matches!(run(&[a.clone(), b]), CompareError::Questions { got: 4, expected: 3, .. }));
    let nan = System { name: "c".into(), scores: vec![1.0, f64::NAN, 0.0] };
    assert!(matches!(run(&[a.clone(), nan]), CompareError::Score { question: 2, .. }));
    let none = Bootstrap { resamples: 0, seed: 1 };
    assert_eq!(compare(&[a.clone(), a], none), Err(CompareError::NoResamples));
}
