//! Building the graph on all threads: the same rows give the same graph, byte for byte, whatever their number.
//!
//! Rows are inserted in an order drawn at random, in batches of at most a fiftieth of what the graph holds. All rows
//! of a batch look for their neighbours in the graph as it was before, each on any thread; then the links back are put
//! in, each row's by one thread and in one order. A row misses only neighbours of its own batch (Dobson et al. 2023,
//! ParlayANN). Which links are kept is decided as in Malkov and Yashunin 2016, algorithm 4, without what pruning left
//! out. Copies of a row are linked in the end, to it and to each other alone.

use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::random::SplitMix;
use rayon::prelude::*;

use super::buffers::Buffers;
use super::copies::Copies;
use super::graph::MAX_LAYERS;
use super::repair::connect;
use super::search::{LayerView, descend, search_layer};
use super::{Graph, HnswParams};
use crate::quantized::{GraphQuery, Quantized};
use crate::ranking::Candidate;
use crate::{BuildError, CancelToken, Matrix};
use dpr_files::progress::Progress;

/// A batch is this part of what the graph holds.
const BATCH_SHARE: usize = 50;

/// The purposes of random draws: each has numbers of its own.
const ORDER: u64 = 1;
const LAYERS: u64 = 2;

/// Builds the graph of all rows.
pub(crate) fn build(
    matrix: &Matrix,
    codes: &Quantized,
    params: HnswParams,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Graph, BuildError> {
    params.check()?;
    let mut builder = Builder::new(matrix, codes, params);
    let order = builder.order();
    progress.start("linking", "passages", order.len() as u64);
    progress.advance(1);
    let mut done = 1;
    while done < order.len() {
        let batch = &order[done..order.len().min(done + (done / BATCH_SHARE).max(1))];
        let found: Vec<Found> = batch
            .par_iter()
            .map_init(|| Scratch::new(codes.count()), |scratch, row| builder.find(*row, stop, scratch))
            .collect();
        if stop.load(Ordering::Relaxed) {
            progress.finish();
            return Err(BuildError::Interrupted);
        }
        builder.link(batch, found);
        done += batch.len();
        progress.advance(batch.len() as u64);
    }
    progress.finish();
    Ok(builder.into_graph())
}

/// The neighbours of a row on each layer, the lowest first.
type Found = Vec<Vec<Candidate>>;

/// The buffers of one thread.
struct Scratch {
    buffers: Buffers,
    query: GraphQuery,
}

impl Scratch {
    fn new(rows: usize) -> Self {
        Self { buffers: Buffers::new(rows), query: GraphQuery::default() }
    }
}

/// A layer of the graph as it is, for the row that is inserted.
struct Inserted<'a> {
    builder: &'a Builder<'a>,
    row: u32,
    query: &'a mut GraphQuery,
    layer: usize,
}

impl LayerView for Inserted<'_> {
    fn links(&self, row: u32) -> &[u32] {
        self.builder.links(self.layer, row)
    }

    fn score(&mut self, rows: &mut Vec<u32>, _floor: f32, scores: &mut Vec<f32>) {
        self.builder.near(self.row, self.query, rows, scores);
    }
}

struct Builder<'a> {
    codes: &'a Quantized,
    copies: Copies,
    params: HnswParams,
    /// sqrt(phi - |p|^2) of each row: with it as one more number all rows are of one length, so that the greatest inner
    /// product is the smallest distance (Bachrach et al. 2014).
    extra: Vec<f32>,
    /// The layers of a row above the lowest.
    above: Vec<u8>,
    /// `[rows, 2 m]`, of which `degrees` are in use.
    lowest: Vec<u32>,
    degrees: Vec<u32>,
    /// Links on each layer above the lowest, of rows that are on one.
    upper: Vec<Vec<Vec<u32>>>,
    upper_of: Vec<u32>,
    entry: u32,
}

impl<'a> Builder<'a> {
    fn new(matrix: &Matrix, codes: &'a Quantized, params: HnswParams) -> Self {
        let (count, copies) = (codes.count(), Copies::find(codes));
        let extra = |norm: f64| (matrix.max_squared_norm() - norm).max(0.0).sqrt() as f32;
        let extra = matrix.squared_norms().into_iter().map(extra).collect();
        let per_layer = 1.0 / (params.m as f64).ln();
        let layers = |row: usize| {
            if copies.contains(row as u32) {
                return 0;
            }
            // Above 0, up to 1.
            let drawn =
                ((SplitMix::keyed(&[LAYERS, row as u64]).bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            let above = -drawn.ln() * per_layer;
            above.min((MAX_LAYERS - 1) as f64) as u8
        };
        let above: Vec<u8> = (0..count).map(layers).collect();
        let (mut upper, mut upper_of) = (Vec::new(), vec![0; count]);
        for (row, above) in above.iter().enumerate().filter(|(_, above)| **above > 0) {
            upper_of[row] = upper.len() as u32;
            upper.push(vec![Vec::new(); usize::from(*above)]);
        }
        let linked = (0..count).rev().filter(|row| !copies.contains(*row as u32));
        let entry = linked.max_by_key(|row| above[*row]).unwrap_or_default() as u32;
        let (lowest, degrees) = (vec![0; count * 2 * params.m], vec![0; count]);
        Self { codes, copies, params, extra, above, lowest, degrees, upper, upper_of, entry }
    }

    /// Returns the rows that are no copies in the order of insertion; the entry, which is on the topmost layer, is
    /// first.
    fn order(&self) -> Vec<u32> {
        let rows = 0..self.codes.count() as u32;
        let mut order: Vec<u32> = rows.filter(|row| !self.copies.contains(*row)).collect();
        SplitMix::keyed(&[ORDER, order.len() as u64]).shuffle(&mut order);
        if let Some(at) = order.iter().position(|row| *row == self.entry) {
            order.swap(0, at);
        }
        order
    }

    /// Returns the number of links that a row may have.
    fn room(&self, layer: usize) -> usize {
        if layer == 0 { 2 * self.params.m } else { self.params.m }
    }

    fn links(&self, layer: usize, row: u32) -> &[u32] {
        let at = row as usize;
        match layer {
            0 => &self.lowest[at * 2 * self.params.m..][..self.degrees[at] as usize],
            _ if layer > usize::from(self.above[at]) => &[],
            _ => &self.upper[self.upper_of[at] as usize][layer - 1],
        }
    }

    fn set_links(&mut self, layer: usize, row: u32, links: &[u32]) {
        let at = row as usize;
        if layer == 0 {
            self.lowest[at * 2 * self.params.m..][..links.len()].copy_from_slice(links);
            self.degrees[at] = links.len() as u32;
        } else {
            let to = &mut self.upper[self.upper_of[at] as usize][layer - 1];
            to.clear();
            to.extend_from_slice(links);
        }
    }

    /// Computes how near `rows` are to `row`, of which `query` is made.
    fn near(&self, row: u32, query: &mut GraphQuery, rows: &[u32], scores: &mut Vec<f32>) {
        self.codes.scores_at(query, rows, scores);
        let extra = self.extra[row as usize];
        for (score, other) in scores.iter_mut().zip(rows) {
            *score += extra * self.extra[*other as usize];
        }
    }

    fn nearness(&self, a: u32, b: u32) -> f32 {
        self.codes.product(a, b) + self.extra[a as usize] * self.extra[b as usize]
    }

    /// Finds the neighbours of a row in the graph as it is.
    fn find(&self, row: u32, stop: &AtomicBool, Scratch { buffers, query }: &mut Scratch) -> Found {
        if stop.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.codes.query_of_row(row, query);
        let mut here = Candidate { score: self.nearness(row, self.entry), row: self.entry };
        let (top, above) = (self.above[self.entry as usize].into(), self.above[row as usize].into());
        let mut inserted = Inserted { builder: self, row, query, layer: top };
        for layer in (above + 1..=top).rev() {
            inserted.layer = layer;
            here = descend(here, &mut inserted);
        }
        let mut starts = vec![here];
        let mut found = vec![Vec::new(); above + 1];
        let never = CancelToken::never();
        for layer in (0..=above).rev() {
            inserted.layer = layer;
            let ef = self.params.ef_construction;
            let kept = search_layer(&starts, (ef, ef), None, buffers, &never, &mut inserted);
            found[layer] = self.choose(&kept, self.params.m);
            starts = kept;
        }
        found
    }

    /// Chooses neighbours among candidates, best first: each that is nearer to the row than to any neighbour chosen
    /// before it (the heuristic of the paper, algorithm 4).
    fn choose(&self, candidates: &[Candidate], most: usize) -> Vec<Candidate> {
        let mut chosen: Vec<Candidate> = Vec::with_capacity(most);
        for candidate in candidates {
            if chosen.len() == most {
                break;
            }
            let is_nearer = |other: &Candidate| self.nearness(candidate.row, other.row) > candidate.score;
            if !chosen.iter().any(is_nearer) {
                chosen.push(*candidate);
            }
        }
        chosen
    }

    /// Adds the links of a batch of rows, and the links back to them.
    fn link(&mut self, batch: &[u32], found: Vec<Found>) {
        let mut back: Vec<(usize, u32, Candidate)> = Vec::new();
        for (row, found) in batch.iter().zip(found) {
            for (layer, neighbours) in found.into_iter().enumerate() {
                let rows: Vec<u32> = neighbours.iter().map(|neighbour| neighbour.row).collect();
                self.set_links(layer, *row, &rows);
                back.extend(
                    neighbours.iter().map(|n| (layer, n.row, Candidate { score: n.score, row: *row })),
                );
            }
        }
        back.par_sort_unstable_by_key(|(layer, to, from)| (*layer, *to, from.row));
        let groups: Vec<&[(usize, u32, Candidate)]> =
            back.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
        let changed: Vec<(usize, u32, Vec<u32>)> = groups
            .par_iter()
            .filter_map(|group| {
                let (layer, row, _) = *group.first()?;
                Some((layer, row, self.with_links(layer, row, group)))
            })
            .collect();
        for (layer, row, links) in changed {
            self.set_links(layer, row, &links);
        }
    }

    /// Returns a row's links with `more`, and only the best of them when there is no room for all.
    fn with_links(&self, layer: usize, row: u32, more: &[(usize, u32, Candidate)]) -> Vec<u32> {
        let (links, room) = (self.links(layer, row), self.room(layer));
        let new = more.iter().map(|(_, _, candidate)| *candidate);
        if links.len() + more.len() <= room {
            return links.iter().copied().chain(new.map(|candidate| candidate.row)).collect();
        }
        let (mut query, mut scores) = (GraphQuery::default(), Vec::new());
        self.codes.query_of_row(row, &mut query);
        self.near(row, &mut query, links, &mut scores);
        let old = links.iter().zip(&scores).map(|(row, score)| Candidate { score: *score, row: *row });
        let mut candidates: Vec<Candidate> = old.chain(new).collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        self.choose(&candidates, room).iter().map(|candidate| candidate.row).collect()
    }

    fn into_graph(self) -> Graph {
        let count = self.codes.count();
        let mut lowest: Vec<Vec<u32>> = (0..count as u32).map(|row| self.links(0, row).to_vec()).collect();
        self.copies.link(&mut lowest, self.params.m);
        connect(&mut lowest, self.entry as usize);
        let layers = usize::from(self.above[self.entry as usize]);
        let layer = |layer: usize| -> Vec<(u32, Vec<u32>)> {
            let rows = (0..count as u32).filter(|row| !self.links(layer, *row).is_empty());
            rows.map(|row| (row, self.links(layer, row).to_vec())).collect()
        };
        let mut upper: Vec<_> = (1..=layers).map(layer).collect();
        while upper.last().is_some_and(Vec::is_empty) {
            upper.pop();
        }
        Graph::new(self.entry, &lowest, &upper)
    }
}
