//! Draws of a number of items by a seed, in place of the first ones of a file.

use dpr_core::random::SplitMix;

/// A draw of at most `most` items out of any number, each as likely as every other (reservoir sampling, Vitter 1985).
/// The items come out in the order they were offered in; where there are no more than `most`, all of them.
pub(super) struct Draw<T> {
    most: usize,
    random: SplitMix,
    offered: usize,
    drawn: Vec<(usize, T)>,
}

impl<T> Draw<T> {
    /// Returns an empty draw. The same seed and purpose draw the same items.
    pub(super) fn new(most: usize, seed: u64, purpose: u64) -> Self {
        let random = SplitMix::keyed(&[seed, purpose]);
        Self { most, random, offered: 0, drawn: Vec::new() }
    }

    /// Offers the next item.
    pub(super) fn offer(&mut self, item: T) {
        let number = self.offered;
        self.offered += 1;
        if self.drawn.len() < self.most {
            self.drawn.push((number, item));
        } else if let Some(place) = self.drawn.get_mut(self.random.below(number + 1)) {
            *place = (number, item);
        }
    }

    /// Returns the drawn items, in order.
    pub(super) fn finish(mut self) -> Vec<T> {
        self.drawn.sort_by_key(|(number, _)| *number);
        self.drawn.into_iter().map(|(_, item)| item).collect()
    }
}

/// Draws at most `most` of `items`; see [`Draw`].
pub(super) fn draw<T>(items: impl IntoIterator<Item = T>, most: usize, seed: u64, purpose: u64) -> Vec<T> {
    let mut draw = Draw::new(most, seed, purpose);
    items.into_iter().for_each(|item| draw.offer(item));
    draw.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_as_likely_as_every_other() {
        let mut counts = [0; 50];
        for seed in 0..2000 {
            let drawn = draw(0..50, 10, seed, 1);
            assert!(drawn.is_sorted() && drawn.len() == 10, "{drawn:?}");
            drawn.into_iter().for_each(|item: usize| counts[item] += 1);
        }
        // 400 expected, standard deviation 18.
        assert!(counts.iter().all(|count| (310..490).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_seed_repeats_itself_and_few_items_are_all_drawn() {
        assert_eq!(draw(0..1000, 20, 7, 1), draw(0..1000, 20, 7, 1));
        assert_ne!(draw(0..1000, 20, 7, 1), draw(0..1000, 20, 8, 1));
        assert_ne!(draw(0..1000, 20, 7, 1), draw(0..1000, 20, 7, 2));
        assert_eq!(draw(0..5, 20, 7, 1), [0, 1, 2, 3, 4]);
        assert_eq!(draw(0..5, 0, 7, 1), [] as [i32; 0]);
    }
}
