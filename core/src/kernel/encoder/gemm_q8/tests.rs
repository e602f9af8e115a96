//! The two kernels against each other and against whole numbers in 64 bits.

use super::super::linear::Epilogue;
use super::super::tests::Numbers;
use super::*;

/// Returns the products `[m, n]` of `x` `[m, k]` with weights `[n, k]`, all of scale 1, by one kernel.
fn products(kernel: Kernel, x: &[f32], weights: &[i8], k: usize) -> Vec<f32> {
    let n = weights.len() / k;
    let panels = QuantizedPanels::new(kernel, &[(weights, &vec![1.0; n], 1.0)], k);
    let bias = vec![0.0; n.next_multiple_of(OUTPUTS)];
    let mut out = vec![0.0; x.len() / k * n];
    let to = Output::new(&bias, n, Epilogue::Store, &mut out);
    panels.apply(Isa::detect(), x, &mut QuantizedInput::default(), to);
    out
}

#[test]
fn whole_sums_are_equal_between_plain_and_relaxed_simd() {
    let mut numbers = Numbers(11);
    for (n, k) in [(1, 1), (7, 5), (8, 16), (49, 33), (16, 384), (9, 1538), (3, 4096)] {
        for extreme in [false, true] {
            let weights: Vec<i8> = numbers.take(n * k).iter().map(|x| (x * 127.9).floor() as i8).collect();
            let weights = if extreme {
                weights.iter().map(|w| if *w < 0 { -128 } else { 127 }).collect()
            } else {
                weights
            };
            let mut x = numbers.take(5 * k);
            if extreme {
                x.iter_mut().for_each(|x| *x = x.signum() * 3.0);
            }
            // Rows of zeros, and of numbers that are none.
            x[..k].fill(0.0);
            x[k..2 * k].iter_mut().step_by(3).for_each(|x| *x = f32::NAN);
            let pairs = products(Kernel::Pairs, &x, &weights, k);
            let halves = products(Kernel::Halves, &x, &weights, k);
            for (a, b) in pairs.iter().zip(&halves) {
                assert_eq!(a.to_bits(), b.to_bits(), "{n} outputs of {k} inputs: {a} and {b}");
            }
        }
    }
}

#[test]
fn whole_sums_are_those_of_64_bits() {
    let mut numbers = Numbers(12);
    for k in [1, 2, 3, 4, 383, 1536, 3072, 16_384] {
        let weights: Vec<i8> =
            numbers.take(3 * k).iter().map(|x| if *x < 0.0 { -128 } else { 127 }).collect();
        // The row's own signs, so that all products add up.
        let x: Vec<f32> = weights[..k].iter().map(|w| if *w < 0 { -0.7 } else { 0.7 }).collect();
        let limit = input_limit(k);
        let whole = |row: &[i8]| -> i64 {
            row.iter().zip(&x).map(|(w, x)| i64::from(*w) * (x / 0.7 * limit).round() as i64).sum()
        };
        for kernel in [Kernel::Pairs, Kernel::Halves] {
            for (row, got) in weights.chunks_exact(k).zip(products(kernel, &x, &weights, k)) {
                let exact = whole(row);
                assert!(i32::try_from(exact).is_ok(), "{k} inputs");
                assert_eq!(got, exact as f32 * (0.7 / limit), "{kernel:?}, {k} inputs");
            }
        }
    }
}

#[test]
fn inputs_of_seven_bits_are_multiplied_alike_by_every_instruction() {
    let bytes = |x: i32| x as u8;
    for weight in i8::MIN..=i8::MAX {
        for input in [0, 1, 63, 64, 126, 127] {
            let product = i32::from(weight) * input;
            // `pmaddubsw` takes it without a sign and saturates pairs, `vpdpbusd` does not, `sdot` takes it with a sign.
            let saturated = (2 * product).clamp(i32::from(i16::MIN), i32::from(i16::MAX));
            let unsigned = 2 * i32::from(weight) * i32::from(bytes(input));
            let signed = 2 * i32::from(weight) * i32::from(bytes(input) as i8);
            assert_eq!((saturated, signed), (unsigned, unsigned), "{weight} times {input}");
        }
    }
}
