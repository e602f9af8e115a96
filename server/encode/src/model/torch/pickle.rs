//! The pickle machine: the instructions that `torch.save` writes for weights, of protocols 2 to 5.
//!
//! The instructions are those of Python's `Lib/pickletools.py`. What calls, imports or makes an object is refused,
//! except for the names in [`globals`](super::globals), which [`calls`](super::calls) knows.

use std::collections::HashMap;

use super::calls;
use super::error::TorchError;
use super::globals;
use super::source::number;
use super::value::{Id, Pickled, Value};

/// Most bytes of a pickle. That of a model with a thousand tensors has 200 kB.
pub(super) const MOST_BYTES: u64 = 16 << 20;
/// Most instructions. A tensor takes about 35.
const MOST_INSTRUCTIONS: usize = 1 << 20;
/// Most values that are remembered at once.
const MOST_MEMO: usize = 1 << 19;
/// Most values on the stack. Python writes dictionaries and lists in batches of 1,000.
const MOST_STACK: usize = 1 << 16;
/// Most open brackets, which is how deep tuples and batches lie in one another.
const MOST_MARKS: usize = 256;
/// The newest protocol.
const PROTOCOL: u8 = 5;

/// Runs the pickle that begins at `start`, and returns its value.
pub(super) fn load(bytes: &[u8], start: usize) -> Result<Pickled<'_>, TorchError> {
    let mut machine = Machine {
        bytes,
        at: start,
        instruction: start,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    for _ in 0..MOST_INSTRUCTIONS {
        machine.instruction = machine.at;
        if let Some(root) = machine.step()? {
            return Ok(Pickled { values: machine.values, root, end: machine.at });
        }
    }
    Err(TorchError::Limit { what: "instructions in its pickle", limit: MOST_INSTRUCTIONS as u64 })
}

struct Machine<'p> {
    bytes: &'p [u8],
    /// The next byte.
    at: usize,
    /// The offset at which the current instruction began.
    instruction: usize,
    values: Vec<Value<'p>>,
    stack: Vec<Id>,
    /// The heights of the stack at open brackets.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
}

impl<'p> Machine<'p> {
    /// Runs one instruction; returns the value at the end of the pickle.
    fn step(&mut self) -> Result<Option<Id>, TorchError> {
        let code = self.take(1)?[0];
        match code {
            // PROTO, FRAME: how what follows is written.
            0x80 if self.take(1)?[0] > PROTOCOL => return Err(self.wrong("its protocol is newer than 5")),
            0x80 => {}
            0x95 => drop(self.length::<8>()?),
            // NONE, NEWTRUE, NEWFALSE.
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            // BININT1, BININT2, BININT, LONG1.
            b'K' => self.int::<1>()?,
            b'M' => self.int::<2>()?,
            b'J' => {
                let number = self.number::<4>()? as u32;
                self.push(Value::Int((number as i32).into()))?;
            }
            0x8a => self.long()?,
            // BINFLOAT.
            b'G' => {
                self.take(8)?;
                self.push(Value::Other)?;
            }
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8; SHORT_BINSTRING and BINSTRING, by Python 2.
            0x8c | b'U' => self.text::<1>()?,
            b'X' | b'T' => self.text::<4>()?,
            0x8d => self.text::<8>()?,
            // SHORT_BINBYTES, BINBYTES, BINBYTES8.
            b'C' => self.skipped::<1>()?,
            b'B' => self.skipped::<4>()?,
            0x8e => self.skipped::<8>()?,
            // MARK and the tuples, the list and the dictionary.
            b'(' => {
                if self.marks.len() == MOST_MARKS {
                    return Err(TorchError::Limit { what: "levels in its pickle", limit: MOST_MARKS as u64 });
                }
                self.marks.push(self.stack.len());
            }
            b')' => self.push(Value::Tuple(Vec::new()))?,
            0x85..=0x87 => {
                let items = (0x85..=code).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                self.push(Value::Tuple(items.into_iter().rev().collect()))?;
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push(Value::Tuple(items))?;
            }
            b']' => self.push(Value::List(Vec::new()))?,
            b'}' => self.push(Value::Dict(Vec::new()))?,
            // APPEND, APPENDS, SETITEM, SETITEMS.
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set(&items)?;
            }
            // GLOBAL, STACK_GLOBAL.
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Global(globals::find(module, name)?))?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (&self.values[module], &self.values[name])
                else {
                    return Err(self.wrong("the name of a class is not a string"));
                };
                let global = globals::find(module, name)?;
                self.push(Value::Global(global))?;
            }
            // BINPUT, LONG_BINPUT, MEMOIZE, BINGET, LONG_BINGET.
            b'q' | b'r' | 0x94 => {
                let key = match code {
                    b'q' => self.number::<1>()?,
                    b'r' => self.number::<4>()?,
                    _ => self.memo.len() as u64,
                };
                self.remember(key)?;
            }
            b'h' | b'j' => {
                let key = if code == b'h' { self.number::<1>()? } else { self.number::<4>()? };
                let id = self.memo.get(&key).copied();
                let id = id.ok_or_else(|| self.wrong("it refers to a value that is not there"))?;
                self.push_id(id)?;
            }
            // BINPERSID, REDUCE, BUILD.
            b'Q' => {
                let id = self.pop()?;
                let storage = calls::storage(&self.values, id).map_err(|reason| self.wrong(reason))?;
                self.push(storage)?;
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                match calls::reduce(&self.values, function, arguments).map_err(|reason| self.wrong(reason))? {
                    calls::Made::New(value) => self.push(value)?,
                    calls::Made::Same(id) => self.push_id(id)?,
                }
            }
            b'b' => {
                // The attributes of a state_dict: `_metadata`, the versions of its modules.
                self.pop()?;
                let object = self.top()?;
                if !matches!(self.values[object], Value::Dict(_)) {
                    return Err(self.wrong("attributes are set on what has none"));
                }
            }
            // STOP.
            b'.' => {
                let root = self.pop()?;
                return match self.stack.is_empty() && self.marks.is_empty() {
                    true => Ok(Some(root)),
                    false => Err(self.wrong("it ends with values left over")),
                };
            }
            // INST: the name of the class is part of the instruction.
            b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                globals::find(module, name)?;
                return Err(TorchError::Instruction { code, name: " (INST)", at: self.instruction });
            }
            _ => {
                let name = match code {
                    b'o' => " (OBJ)",
                    0x81 => " (NEWOBJ)",
                    0x82..=0x84 => " (EXT)",
                    0x92 => " (NEWOBJ_EX)",
                    _ => "",
                };
                return Err(TorchError::Instruction { code, name, at: self.instruction });
            }
        }
        Ok(None)
    }

    fn wrong(&self, reason: &'static str) -> TorchError {
        TorchError::Pickle { at: self.instruction, reason }
    }

    fn take(&mut self, count: usize) -> Result<&'p [u8], TorchError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..count));
        let taken = taken.ok_or_else(|| self.wrong("it is cut short"))?;
        self.at += count;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, TorchError> {
        Ok(number::<N>(self.take(N)?, 0).unwrap_or_default())
    }

    /// Reads a length, which is at most that of the bytes that follow.
    fn length<const N: usize>(&mut self) -> Result<usize, TorchError> {
        let length = self.number::<N>()?;
        let rest = self.bytes.len() - self.at;
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= rest)
            .ok_or_else(|| self.wrong("it is cut short"))
    }

    fn int<const N: usize>(&mut self) -> Result<(), TorchError> {
        let number = self.number::<N>()?;
        self.push(Value::Int(number.into()))
    }

    /// Two's complement, least byte first.
    fn long(&mut self) -> Result<(), TorchError> {
        let length = self.length::<1>()?;
        let bytes = self.take(length)?;
        if length > size_of::<i128>() {
            return Err(self.wrong("a number has more than 16 bytes"));
        }
        let sign = bytes.last().map_or(0, |last| if last & 0x80 == 0 { 0 } else { -1 });
        self.push(Value::Int(bytes.iter().rev().fold(sign, |number, byte| number << 8 | i128::from(*byte))))
    }

    fn text<const N: usize>(&mut self) -> Result<(), TorchError> {
        let length = self.length::<N>()?;
        let text = std::str::from_utf8(self.take(length)?);
        let text = text.map_err(|_| self.wrong("a string is not UTF-8"))?;
        self.push(Value::Text(text))
    }

    fn skipped<const N: usize>(&mut self) -> Result<(), TorchError> {
        let length = self.length::<N>()?;
        self.take(length)?;
        self.push(Value::Other)
    }

    fn line(&mut self) -> Result<&'p str, TorchError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| self.wrong("it is cut short"))?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).map_err(|_| self.wrong("a name is not UTF-8"))
    }

    fn push(&mut self, value: Value<'p>) -> Result<(), TorchError> {
        self.values.push(value);
        self.push_id(self.values.len() - 1)
    }

    fn push_id(&mut self, id: Id) -> Result<(), TorchError> {
        if self.stack.len() == MOST_STACK {
            return Err(TorchError::Limit {
                what: "values on the stack of its pickle",
                limit: MOST_STACK as u64,
            });
        }
        self.stack.push(id);
        Ok(())
    }

    /// The value on top, within the last bracket.
    fn top(&self) -> Result<Id, TorchError> {
        let floor = self.marks.last().copied().unwrap_or_default();
        let above = self.stack.get(floor..).and_then(<[Id]>::last);
        above.copied().ok_or_else(|| self.wrong("it takes a value that is not there"))
    }

    fn pop(&mut self) -> Result<Id, TorchError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Takes all values since the last bracket, which it closes.
    fn pop_mark(&mut self) -> Result<Vec<Id>, TorchError> {
        let mark = self.marks.pop().ok_or_else(|| self.wrong("it closes what is not open"))?;
        Ok(self.stack.split_off(mark))
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), TorchError> {
        let list = self.top()?;
        let Value::List(list) = &mut self.values[list] else {
            return Err(self.wrong("it appends to what is not a list"));
        };
        list.extend(items);
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<(), TorchError> {
        let dict = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        let (Value::Dict(dict), []) = (&mut self.values[dict], rest) else {
            return Err(self.wrong("it sets items of what is not a dictionary, or half of one"));
        };
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn remember(&mut self, key: u64) -> Result<(), TorchError> {
        let top = self.top()?;
        if self.memo.len() == MOST_MEMO {
            return Err(TorchError::Limit {
                what: "remembered values in its pickle",
                limit: MOST_MEMO as u64,
            });
        }
        self.memo.insert(key, top);
        Ok(())
    }
}
