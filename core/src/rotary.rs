//! Angles of rotary positions (Su et al. 2021).

/// Returns the cosines and the sines of the angles, `[tokens, width / 2]` each: angle `j` of a token at position `t` is
/// `t / theta^(2 j / width)`. Frequencies and angles are rounded to f32, as PyTorch has them.
pub(crate) fn angles(theta: f64, width: usize, tokens: usize) -> (Vec<f32>, Vec<f32>) {
    let frequencies: Vec<f32> =
        (0..width / 2).map(|j| theta.powf(-((2 * j) as f64) / width as f64) as f32).collect();
    (0..tokens)
        .flat_map(|token| frequencies.iter().map(move |frequency| f64::from(token as f32 * frequency)))
        .map(|angle| (angle.cos() as f32, angle.sin() as f32))
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::angles;

    #[test]
    fn angles_are_those_of_the_paper() {
        let (cos, sin) = angles(100.0, 4, 3);
        // Frequencies 1 and 1/10.
        let expected = [0.0f32, 0.0, 1.0, 0.1, 2.0, 0.2];
        for ((cos, sin), angle) in cos.iter().zip(&sin).zip(expected) {
            assert!((cos - angle.cos()).abs() < 1e-6 && (sin - angle.sin()).abs() < 1e-6, "{angle}");
        }
        assert_eq!((cos.len(), sin.len()), (6, 6));
    }
}
