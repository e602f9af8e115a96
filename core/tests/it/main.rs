//! The encoders and the tokenizer held against Python's transformers and tokenizers.

mod cross;
mod golden;
mod gradients;
mod parity;
mod precision;
mod readers;
mod stored;
mod tokens;
