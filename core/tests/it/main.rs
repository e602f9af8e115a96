//! The encoders and the tokenizer held against Python's transformers and tokenizers.

mod golden;
mod gradients;
mod parity;
mod tokens;
