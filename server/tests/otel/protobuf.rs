//! What an export of traces holds, read by the numbers of its fields in opentelemetry/proto/trace/v1/trace.proto.

use std::collections::BTreeMap;

/// A span as it was exported.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    /// Ids in hexadecimal digits.
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty where there is none.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    /// Nanoseconds since 1970.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: BTreeMap<String, Value>,
    /// The name of the service.
    pub(crate) service: String,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Returns the spans of an `ExportTraceServiceRequest`.
pub(crate) fn spans(request: &[u8]) -> Vec<Span> {
    let mut all = Vec::new();
    for of_resource in parts(request, 1) {
        let resource = parts(of_resource, 1).next().unwrap_or_default();
        let service = match attributes(resource, 1).remove("service.name") {
            Some(Value::Text(name)) => name,
            other => panic!("the service's name is {other:?}"),
        };
        for of_scope in parts(of_resource, 2) {
            all.extend(parts(of_scope, 2).map(|span| self::span(span, &service)));
        }
    }
    all
}

fn span(message: &[u8], service: &str) -> Span {
    let id = |number| parts(message, number).flatten().map(|byte| format!("{byte:02x}")).collect();
    Span {
        trace: id(1),
        id: id(2),
        parent: id(4),
        name: text(parts(message, 5).next().unwrap()),
        kind: number(message, 6),
        start: number(message, 7),
        end: number(message, 8),
        attributes: attributes(message, 9),
        service: service.to_owned(),
    }
}

/// Returns the attributes (`KeyValue`) that a message has in this field.
fn attributes(message: &[u8], field: u64) -> BTreeMap<String, Value> {
    let attribute = |pair: &[u8]| {
        let value = parts(pair, 2).next().unwrap();
        let value = match parts(value, 1).next() {
            Some(text) => Value::Text(self::text(text)),
            None => Value::Number(number(value, 3)),
        };
        (text(parts(pair, 1).next().unwrap()), value)
    };
    parts(message, field).map(attribute).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the messages, texts and bytes that a message has in this field.
fn parts(message: &[u8], field: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter_map(move |(number, value)| match value {
        Field::Bytes(bytes) if number == field => Some(bytes),
        _ => None,
    })
}

fn number(message: &[u8], field: u64) -> u64 {
    let mut numbers = fields(message).into_iter().filter_map(|(number, value)| match value {
        Field::Number(value) if number == field => Some(value),
        _ => None,
    });
    numbers.next_back().unwrap_or(0)
}

fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut message)),
            1 => Field::Number(u64::from_le_bytes(take(&mut message, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut message);
                Field::Bytes(take(&mut message, usize::try_from(length).unwrap()))
            }
            5 => Field::Number(u32::from_le_bytes(take(&mut message, 4).try_into().unwrap()).into()),
            kind => panic!("no kind of field: {kind}"),
        };
        all.push((tag >> 3, value));
    }
    all
}

fn varint(message: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

fn take<'a>(message: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(bytes);
    *message = rest;
    taken
}
