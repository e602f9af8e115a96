//! The links of the graph, in memory and on disk.
//!
//! File, all numbers little-endian:
//! ```text
//! "DPRHNSW1"  u64 rows  u64 entry  u64 layers
//! for each layer, the lowest first:
//!   u64 nodes  u64 links
//!   u32 row of each node, ascending     (not on the lowest layer, where every row is a node)
//!   u32 number of links of each node
//!   u32 row at the other end of each link, node after node
//! ```

use std::io::{self, Write};

use dpr_core::kernel::search::prefetch;

const MAGIC: &[u8; 8] = b"DPRHNSW1";

/// The most layers of a graph: as many as `hnsw_rs` can have.
pub(super) const MAX_LAYERS: usize = 16;

/// The links of every row on each layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    entry: u32,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    /// Rows with links here, ascending; empty on the lowest layer, where every row has some.
    nodes: Vec<u32>,
    /// `links[starts[i]..starts[i + 1]]` are node `i`'s.
    starts: Vec<usize>,
    links: Vec<u32>,
}

impl Graph {
    /// Takes links as `(row, rows it is linked to)`: on the lowest layer all rows in order, above those with any.
    pub(super) fn new(entry: u32, lowest: &[Vec<u32>], upper: &[Vec<(u32, Vec<u32>)>]) -> Self {
        let mut layers = vec![Layer::new(Vec::new(), lowest.iter())];
        layers.extend(upper.iter().map(|layer| {
            Layer::new(layer.iter().map(|(row, _)| *row).collect(), layer.iter().map(|(_, links)| links))
        }));
        Self { entry, layers }
    }

    /// Returns the row at which a search begins.
    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    /// Layers, at least one.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Rows that `row` is linked to on `layer`.
    pub(super) fn links(&self, layer: usize, row: u32) -> &[u32] {
        let layer = &self.layers[layer];
        let node = match layer.nodes.is_empty() {
            true => row as usize,
            false => match layer.nodes.binary_search(&row) {
                Ok(node) => node,
                Err(_) => return &[],
            },
        };
        match layer.starts.get(node..node + 2) {
            Some(ends) => &layer.links[ends[0]..ends[1]],
            None => &[],
        }
    }

    /// Prefetches what says where the links of `row` on the lowest layer are.
    #[inline]
    pub(super) fn prefetch_links(&self, row: u32) {
        if let Some(start) =
            self.layers.first().and_then(|lowest| lowest.starts.get(row as usize..=row as usize))
        {
            prefetch(start);
        }
    }

    /// Writes the file.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.layers.first().map_or(0, |layer| layer.starts.len() - 1);
        out.write_all(MAGIC)?;
        for number in [rows, self.entry as usize, self.layers.len()] {
            out.write_all(&(number as u64).to_le_bytes())?;
        }
        for layer in &self.layers {
            out.write_all(&(layer.starts.len() as u64 - 1).to_le_bytes())?;
            out.write_all(&(layer.links.len() as u64).to_le_bytes())?;
            let degrees = layer.starts.windows(2).map(|ends| (ends[1] - ends[0]) as u32);
            for number in layer.nodes.iter().copied().chain(degrees).chain(layer.links.iter().copied()) {
                out.write_all(&number.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Reads a file of a graph of `rows` rows. The error says what about it makes no sense.
    pub(crate) fn parse(bytes: &[u8], rows: usize) -> Result<Self, String> {
        let mut bytes = bytes.strip_prefix(MAGIC.as_slice()).ok_or("it does not begin as a graph")?;
        let input = &mut bytes;
        let (found, entry, layers) = (u64(input)?, u64(input)?, u64(input)?);
        if found != rows {
            return Err(format!("a graph of {found} rows, not {rows}"));
        }
        if entry >= rows {
            return Err(format!("entry {entry} of {rows} rows"));
        }
        if layers == 0 || layers > MAX_LAYERS {
            return Err(format!("{layers} layers"));
        }
        let mut graph = Self { entry: entry as u32, layers: Vec::with_capacity(layers) };
        for layer in 0..layers {
            graph.layers.push(Layer::parse(input, layer, rows)?);
        }
        match input.len() {
            0 => Ok(graph),
            more => Err(format!("{more} bytes too many")),
        }
    }
}

impl Layer {
    fn new<'a>(nodes: Vec<u32>, of_node: impl Iterator<Item = &'a Vec<u32>>) -> Self {
        let mut layer = Self { nodes, starts: vec![0], links: Vec::new() };
        for links in of_node {
            layer.links.extend_from_slice(links);
            layer.starts.push(layer.links.len());
        }
        layer
    }

    fn parse(input: &mut &[u8], number: usize, rows: usize) -> Result<Self, String> {
        let (count, links) = (u64(input)?, u64(input)?);
        if count == 0 || count > rows || (number == 0 && count != rows) {
            return Err(format!("{count} nodes on layer {number} of {rows} rows"));
        }
        let nodes = if number == 0 { Vec::new() } else { u32s(input, count)? };
        if !nodes.is_sorted_by(|a, b| a < b) {
            return Err(format!("nodes of layer {number} are out of order"));
        }
        let mut starts = Vec::with_capacity(count + 1);
        starts.push(0);
        let mut end = 0;
        for degree in u32s(input, count)? {
            end += degree as usize;
            starts.push(end);
        }
        if end != links {
            return Err(format!("{end} links on layer {number}, not {links}"));
        }
        let links = u32s(input, links)?;
        match nodes.iter().chain(&links).find(|row| **row as usize >= rows) {
            Some(row) => Err(format!("a link to row {row} of {rows}")),
            None => Ok(Self { nodes, starts, links }),
        }
    }
}

fn u64(input: &mut &[u8]) -> Result<usize, String> {
    let (bytes, rest) = input.split_first_chunk().ok_or("it ends too early")?;
    *input = rest;
    usize::try_from(u64::from_le_bytes(*bytes)).map_err(|e| e.to_string())
}

fn u32s(input: &mut &[u8], count: usize) -> Result<Vec<u32>, String> {
    let size = count.checked_mul(4).filter(|size| *size <= input.len()).ok_or("it ends too early")?;
    let (bytes, rest) = input.split_at(size);
    *input = rest;
    Ok(bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Graph {
        Graph::new(2, &[vec![1, 2], vec![0], vec![0, 1, 3], vec![]], &[vec![(0, vec![2]), (2, vec![0])]])
    }

    fn bytes(graph: &Graph) -> Vec<u8> {
        let mut bytes = Vec::new();
        graph.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let graph = small();
        assert_eq!(Graph::parse(&bytes(&graph), 4).unwrap(), graph);
        assert_eq!(graph.links(0, 2), [0, 1, 3]);
        assert_eq!(graph.links(1, 2), [0]);
        assert!(graph.links(1, 3).is_empty());
    }

    #[test]
    fn any_cut_and_any_changed_byte_is_an_error_or_a_graph_within_bounds() {
        let whole = bytes(&small());
        for end in 0..whole.len() {
            assert!(Graph::parse(&whole[..end], 4).is_err(), "cut at {end}");
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                if let Ok(graph) = Graph::parse(&bytes, 4) {
                    let rows = (0..graph.layers()).flat_map(|l| (0..4).flat_map(move |r| [(l, r)]));
                    assert!(rows.flat_map(|(l, r)| graph.links(l, r)).all(|row| *row < 4));
                }
            }
        }
        assert!(Graph::parse(&whole, 5).is_err());
    }
}
