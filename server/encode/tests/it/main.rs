//! Model directories: imported as other programs save them, compared as they were trained, and cut down for a page.

mod arriving;
mod calibrated;
mod cross_encoder;
mod distance;
mod files;
mod heads;
mod listed;
mod narrower;
mod precision;
mod reader;
mod shrink;
mod torch;
mod vocabulary;
mod web_pairs;
