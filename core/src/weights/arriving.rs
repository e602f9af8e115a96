//! Safetensors whose bytes arrive piece by piece: each tensor is there as soon as its last byte is.

use std::collections::VecDeque;

use safetensors::tensor::{Dtype, Metadata};

use super::{TensorMap, WeightsError, canonical};

/// Bytes of the number in front, the length of the header.
const LENGTH: usize = 8;

/// The longest header, as the library has it.
const MAX_HEADER: u64 = 100_000_000;

/// A safetensors file of which only a beginning has arrived. It holds the header until that is read, and the one tensor
/// that is arriving.
pub struct ArrivingTensors {
    /// Name of the file, for errors.
    name: String,
    /// Length of the file.
    bytes: usize,
    received: usize,
    /// The length of the header and the header, as far as they are there; empty once the header is read.
    head: Vec<u8>,
    has_header: bool,
    /// Tensors that are not whole, in the order of their bytes.
    awaited: VecDeque<Awaited>,
    /// The bytes of the first of them.
    part: Vec<u8>,
}

struct Awaited {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: usize,
}

impl ArrivingTensors {
    /// Returns a file of this name and length in bytes, of which nothing has arrived.
    pub fn new(name: &str, bytes: usize) -> Self {
        Self {
            name: name.into(),
            bytes,
            received: 0,
            head: Vec::new(),
            has_header: false,
            awaited: VecDeque::new(),
            part: Vec::new(),
        }
    }

    /// Takes the next bytes of the file, and puts the tensors that are whole with them into `to`. Returns their
    /// number.
    ///
    /// # Errors
    /// [`WeightsError::Format`] for a damaged header or more bytes than the file has, [`WeightsError::Duplicate`] for a
    /// tensor that is in `to`.
    pub fn push(&mut self, bytes: &[u8], to: &mut TensorMap) -> Result<usize, WeightsError> {
        if bytes.len() > self.bytes - self.received {
            return Err(self.damaged(&format!("more bytes than the {} of the file arrived", self.bytes)));
        }
        self.received += bytes.len();
        let mut rest = bytes;
        if !self.has_header {
            rest = self.read_header(rest)?;
        }
        let mut whole = 0;
        while let Some(Awaited { bytes, .. }) = self.awaited.front() {
            let missing = bytes - self.part.len();
            if self.part.capacity() == 0 {
                self.part.reserve_exact(missing);
            }
            let (now, later) = rest.split_at(missing.min(rest.len()));
            self.part.extend_from_slice(now);
            rest = later;
            if now.len() < missing {
                break;
            }
            let bytes = std::mem::take(&mut self.part);
            if let Some(Awaited { name, dtype, shape, .. }) = self.awaited.pop_front() {
                to.insert(&name, dtype, &shape, || Ok::<_, WeightsError>(bytes))?;
                whole += 1;
            }
        }
        Ok(whole)
    }

    /// Returns whether a tensor whose canonical name begins so has yet to arrive, as far as is known.
    pub fn awaits(&self, beginning: &str) -> bool {
        let is_awaited =
            |tensor: &Awaited| canonical(&tensor.name).is_some_and(|name| name.starts_with(beginning));
        !self.has_header || self.awaited.iter().any(is_awaited)
    }

    /// Checks that the file is whole.
    ///
    /// # Errors
    /// [`WeightsError::Format`] when it is not.
    pub fn finish(self) -> Result<(), WeightsError> {
        if self.received == self.bytes && self.has_header && self.awaited.is_empty() {
            return Ok(());
        }
        Err(self.damaged(&format!("{} bytes arrived", self.received)))
    }

    /// Takes bytes of the header, and returns those behind it.
    fn read_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], WeightsError> {
        let rest = self.fill(LENGTH, bytes);
        let Some(length) = self.head.first_chunk::<LENGTH>() else { return Ok(rest) };
        let length = u64::from_le_bytes(*length);
        let room = (self.bytes - LENGTH.min(self.bytes)) as u64;
        if length > MAX_HEADER.min(room) {
            return Err(self.damaged("its header is longer than the file, or than any is"));
        }
        let end = LENGTH + length as usize;
        let rest = self.fill(end, rest);
        if self.head.len() < end {
            return Ok(rest);
        }
        let head = std::mem::take(&mut self.head);
        let header: Metadata =
            serde_json::from_slice(&head[LENGTH..]).map_err(|e| self.damaged(&e.to_string()))?;
        // The library has checked that the tensors lie one behind the other.
        if header.data_len() != self.bytes - end {
            return Err(self.damaged(&format!("its tensors take {} bytes", header.data_len())));
        }
        self.awaited = header
            .offset_keys()
            .into_iter()
            .filter_map(|name| {
                let info = header.info(&name)?;
                let (start, end) = info.data_offsets;
                Some(Awaited { dtype: info.dtype, shape: info.shape.clone(), bytes: end - start, name })
            })
            .collect();
        self.has_header = true;
        Ok(rest)
    }

    /// Moves bytes to the head until it has this length, and returns the others.
    fn fill<'a>(&mut self, length: usize, bytes: &'a [u8]) -> &'a [u8] {
        let missing = length.saturating_sub(self.head.len());
        let (now, later) = bytes.split_at(missing.min(bytes.len()));
        self.head.extend_from_slice(now);
        later
    }

    fn damaged(&self, reason: &str) -> WeightsError {
        WeightsError::Format { file: self.name.clone(), bytes: self.bytes, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    fn file() -> Vec<u8> {
        let floats: Vec<u8> = (0..6).flat_map(|value| (value as f32).to_le_bytes()).collect();
        let codes = [1, 2, 3, 255];
        let view = |dtype, shape: &[usize], bytes| TensorView::new(dtype, shape.to_vec(), bytes).unwrap();
        let views = [
            ("bert.encoder.layer.0.w", view(Dtype::I8, &[2, 2], &codes[..])),
            ("bert.encoder.layer.0.w.scale", view(Dtype::F32, &[2], &floats[..8])),
            ("bert.embeddings.a", view(Dtype::F32, &[2, 3], &floats)),
            ("bert.empty", view(Dtype::F32, &[0], &[])),
            ("cls.predictions.bias", view(Dtype::F32, &[1], &floats[..4])),
        ];
        safetensors::serialize(views, None).unwrap()
    }

    fn arrived(pieces: &[&[u8]], length: usize) -> Result<TensorMap, WeightsError> {
        let (mut map, mut arriving) = (TensorMap::default(), ArrivingTensors::new("m", length));
        for piece in pieces {
            arriving.push(piece, &mut map)?;
        }
        arriving.finish()?;
        Ok(map)
    }

    fn tensors(map: TensorMap) -> Vec<(String, Vec<usize>, Vec<u8>)> {
        map.tensors.into_iter().map(|(name, stored)| (name, stored.shape, stored.bytes)).collect()
    }

    #[test]
    fn tensors_are_those_of_the_whole_file_however_it_is_cut() {
        let file = file();
        let whole = tensors(TensorMap::from_safetensors([("m", file.as_slice())]).unwrap());
        assert_eq!(whole.len(), 4);
        for size in 1..file.len() + 1 {
            let pieces: Vec<&[u8]> = file.chunks(size).collect();
            assert_eq!(tensors(arrived(&pieces, file.len()).unwrap()), whole, "pieces of {size} bytes");
        }
    }

    #[test]
    fn a_tensor_is_there_with_its_last_byte() {
        let file = file();
        let (mut map, mut arriving) = (TensorMap::default(), ArrivingTensors::new("m", file.len()));
        assert!(arriving.awaits("anything"), "before the header nothing is known");
        let mut order = Vec::new();
        for (at, byte) in file.iter().enumerate() {
            if arriving.push(std::slice::from_ref(byte), &mut map).unwrap() > 0 {
                order.push((file.len() - 1 - at, arriving.awaits("encoder.layer.0.")));
            }
        }
        assert!(!arriving.awaits(""));
        // The floats first, and the codes, which need a byte each, as the last 4 bytes.
        assert_eq!(order.last(), Some(&(0, false)));
        assert!(order[0].1 && order.len() >= 4, "{order:?}");
        arriving.finish().unwrap();
    }

    #[test]
    fn what_is_no_whole_file_is_refused_as_soon_as_it_is_known() {
        let file = file();
        for end in 0..file.len() {
            assert!(arrived(&[&file[..end]], file.len()).is_err(), "cut to {end} bytes");
            assert!(arrived(&[&file[..end]], end).is_err(), "a file of {end} bytes");
        }
        let message =
            |bytes: &[u8], length: usize| arrived(&[bytes], length).map(drop).unwrap_err().to_string();
        assert!(message(&[&file[..], b"x"].concat(), file.len()).contains("more bytes than"));
        assert!(message(&u64::MAX.to_le_bytes(), 1 << 30).contains("header is longer"));
        assert!(message(&file, file.len() + 9).contains("its tensors take"));
        let mut changed = file.clone();
        changed[LENGTH] = b'x';
        assert!(message(&changed, file.len()).contains("not a whole safetensors file (expected value"));
        let twice = [file.as_slice()].map(|file| {
            let (mut map, mut arriving) = (TensorMap::default(), ArrivingTensors::new("m", file.len()));
            map.insert("embeddings.a", Dtype::F32, &[0], || Ok::<_, WeightsError>(Vec::new())).unwrap();
            arriving.push(file, &mut map).unwrap_err()
        });
        assert!(matches!(&twice[0], WeightsError::Duplicate { name } if name == "embeddings.a"));
    }
}
