//! A subscriber's layer that keeps the spans of traces.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use dpr_serve::{TRACE_TARGET, TraceParent};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A span that was closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    id: u64,
    pub(crate) name: &'static str,
    /// The span that this one is a part of.
    parent: Option<u64>,
    /// Numbers as they are printed.
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The span of another program that the request named.
    pub(crate) caller: Option<TraceParent>,
}

impl Kept {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(crate) fn is_part_of(&self, span: &Self) -> bool {
        self.parent == Some(span.id)
    }
}

impl Visit for Kept {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// The spans that were closed, of traces alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<Vec<Kept>>>);

impl Spans {
    pub(crate) fn closed(&self) -> Vec<Kept> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != TRACE_TARGET {
            return;
        }
        let span = context.span(id).unwrap();
        // Ids of closed spans are given again, so that parents are found while they are open.
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<Kept>()?.id));
        let mut kept = Kept { id: id.into_u64(), name: span.name(), parent, ..Kept::default() };
        attributes.record(&mut kept);
        span.extensions_mut().insert(kept);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(kept) = context.span(id).unwrap().extensions_mut().get_mut::<Kept>() {
            values.record(kept);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(mut kept) = context.span(&id).unwrap().extensions_mut().remove::<Kept>() else { return };
        let mut callers = CALLERS.lock().unwrap();
        if let Some(at) = callers.iter().position(|(of, _)| *of == kept.id) {
            kept.caller = Some(callers.swap_remove(at).1);
        }
        self.0.lock().unwrap().push(kept);
    }
}

/// The callers of open spans.
static CALLERS: Mutex<Vec<(u64, TraceParent)>> = Mutex::new(Vec::new());

/// Keeps the caller of a request, as [`dpr_serve::Options::trace_parent`].
pub(crate) fn keep_parent(span: &Span, parent: TraceParent) {
    CALLERS.lock().unwrap().push((span.id().unwrap().into_u64(), parent));
}
