//! Ranking in a segment: MaxScore (Turtle and Flood 1995) over spans of documents.
//!
//! A span whose bounds do not reach the threshold, the k-th best score so far, is passed over. In the others, the terms
//! whose bounds together do not reach it are left out at first: the scores of the other terms (the essential ones) are
//! summed, and only those documents look for the terms left out that could then reach the threshold. A score is the sum
//! of the terms' scores in the order of the question, whichever terms were left out, so that it is the same as if all
//! had been summed.

use dpr_core::kernel::search::postings::{WINDOW, sums_at_least};

use super::formula::{Formula, SPAN};
use super::lists::List;
use super::top::TopK;
use crate::{CancelToken, Stopped};

/// Spans that are searched first, those with the greatest bounds: they raise the threshold for all others.
const FIRST: usize = 4;
/// Time of looking for a term in a document, in that of scoring a posting.
const LOOKUP: usize = 16;
/// Postings in a span above which all its sums are compared, and not those of the postings alone.
const DENSE: usize = SPAN / 4;

/// Memory that searches of one thread use again.
#[derive(Default)]
pub(super) struct Scratch {
    /// The sums of a span's documents, zeros between spans.
    sums: Vec<[f32; WINDOW]>,
    /// The documents of a span that reach the threshold, with their sums.
    found: Vec<(u32, f32)>,
    part: Vec<(u32, f32)>,
    /// The terms, by their bounds in the span.
    order: Vec<usize>,
    /// Sums of the bounds of the first terms in that order.
    below: Vec<f32>,
    is_essential: Vec<bool>,
    /// The scores of the terms left out in one document.
    others: Vec<f32>,
}

/// Offers the documents of a segment to `top`: `rows` are theirs. The lists are those of the question's terms, in its
/// order.
pub(super) fn rank(
    lists: &mut [List],
    formula: &Formula<'_>,
    rows: &[u32],
    scratch: &mut Scratch,
    top: &mut TopK<'_>,
    cancel: &CancelToken,
) -> Result<(), Stopped> {
    let mut bounds = vec![0f32; formula.spans()];
    for list in &*lists {
        bounds.iter_mut().zip(&list.bounds).for_each(|(sum, bound)| *sum += bound);
    }
    let mut spans: Vec<usize> = (0..bounds.len()).filter(|span| bounds[*span] > 0.0).collect();
    spans.sort_unstable_by(|a, b| bounds[*b].total_cmp(&bounds[*a]));
    scratch.sums.resize(SPAN / WINDOW, [0.0; WINDOW]);
    let count = spans.len();
    let (first, rest) = spans.split_at_mut(FIRST.min(count));
    for (number, pass) in [first, rest].into_iter().enumerate() {
        // Posting lists are read forward.
        pass.sort_unstable();
        if number > 0 {
            lists.iter_mut().for_each(List::rewind);
        }
        for span in &*pass {
            cancel.check()?;
            if bounds[*span] >= top.least() {
                rank_span(*span, lists, formula, rows, scratch, top);
            }
        }
        top.choose();
    }
    Ok(())
}

fn rank_span(
    span: usize,
    lists: &mut [List],
    formula: &Formula<'_>,
    rows: &[u32],
    scratch: &mut Scratch,
    top: &mut TopK<'_>,
) {
    let Scratch { sums, found, part, order, below, is_essential, others } = scratch;
    let start = (span * SPAN) as u32;
    order.clear();
    order.extend((0..lists.len()).filter(|at| lists[*at].bounds[span] > 0.0));
    order.sort_unstable_by(|a, b| lists[*a].bounds[span].total_cmp(&lists[*b].bounds[span]));
    below.clear();
    below.push(0.0);
    let mut left_out = 0;
    for at in &*order {
        let sum = below[below.len() - 1] + lists[*at].bounds[span];
        below.push(sum);
        left_out += usize::from(sum < top.least());
    }
    // What is left out must leave a threshold that a posting of an essential term does not reach by itself.
    let of_span = |list: &List| list.postings as f32 / formula.spans() as f32;
    while left_out > 0 {
        let least = top.least() - below[left_out];
        let essential = order[left_out..].iter().map(|at| &lists[*at]);
        let found: f32 = essential.filter(|list| list.bounds[span] >= least).map(of_span).sum();
        if found * LOOKUP as f32 <= of_span(&lists[order[left_out - 1]]) {
            break;
        }
        left_out -= 1;
    }
    is_essential.clear();
    is_essential.resize(lists.len(), false);
    loop {
        let mut postings = 0;
        for at in &order[left_out..] {
            if !is_essential[*at] {
                is_essential[*at] = true;
                lists[*at].load(span, formula);
            }
            postings += lists[*at].loaded().0.len();
        }
        let essential = || lists.iter().zip(&*is_essential).filter(|(_, is)| **is).map(|(list, _)| list);
        for list in essential() {
            add(sums.as_flattened_mut(), list.loaded(), list.weight);
        }
        let least = if left_out == 0 {
            top.least()
        } else {
            ((top.least() - below[left_out]) * (2.0 - formula.slack)).max(f32::MIN_POSITIVE)
        };
        found.clear();
        if postings >= DENSE {
            for (window, sums) in sums.iter_mut().enumerate() {
                sums_at_least(&[sums], least, WINDOW, part);
                found
                    .extend(part.iter().map(|(place, sum)| (start + (window * WINDOW) as u32 + place, *sum)));
                sums.fill(0.0);
            }
        } else {
            for list in essential() {
                take(sums.as_flattened_mut(), list.loaded().0, least, found);
            }
        }
        // Where many documents would look for the terms left out, half of these are summed too.
        let Some(next) = left_out.checked_sub(1).map(|at| &lists[order[at]]) else { break };
        if found.len() <= next.postings / formula.spans() / LOOKUP {
            break;
        }
        left_out /= 2;
    }
    if left_out == 0 {
        found.iter().for_each(|(document, score)| top.offer(*score, rows[*document as usize]));
        return;
    }
    // Lists are read forward.
    found.sort_unstable_by_key(|(document, _)| *document);
    others.clear();
    others.resize(lists.len(), 0.0);
    'documents: for (document, sum) in &*found {
        let mut sum = *sum;
        for at in (0..left_out).rev() {
            let list = &mut lists[order[at]];
            let bound = list.bound(span, *document);
            if (sum + bound + below[at]) * formula.slack < top.least() {
                continue 'documents;
            }
            others[order[at]] = if bound > 0.0 { list.score(span, *document, formula) } else { 0.0 };
            sum += others[order[at]];
        }
        if sum * formula.slack < top.least() {
            continue;
        }
        let mut score = 0f32;
        for (at, list) in lists.iter().enumerate() {
            score += if is_essential[at] { list.loaded_score(*document) } else { others[at] };
        }
        top.offer(score, rows[*document as usize]);
    }
}

/// Adds the scores of documents, the shares in them times the weight, to the sums of their span.
#[inline(never)]
fn add(sums: &mut [f32], (documents, shares): (&[u32], &[f32]), weight: f32) {
    let Some(sums) = sums.first_chunk_mut::<SPAN>() else { return };
    for (document, share) in documents.iter().zip(shares) {
        sums[*document as usize % SPAN] += weight * share;
    }
}

/// Sets the sums of documents to 0, and adds to `found` those that are at least `least`, which is above 0.
#[inline(never)]
fn take(sums: &mut [f32], documents: &[u32], least: f32, found: &mut Vec<(u32, f32)>) {
    let Some(sums) = sums.first_chunk_mut::<SPAN>() else { return };
    for document in documents {
        let sum = std::mem::take(&mut sums[*document as usize % SPAN]);
        if sum >= least {
            found.push((*document, sum));
        }
    }
}
