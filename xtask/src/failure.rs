//! The one error of these tasks: what went wrong and what to do about it.

use std::fmt;

/// A task that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    fix: Option<String>,
}

/// The result of a task.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure that says what went wrong.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), fix: None }
    }

    /// One failure that says all of these; none when there are none.
    pub(crate) fn all(failures: Vec<Self>) -> Option<Self> {
        match failures.len() {
            0 | 1 => failures.into_iter().next(),
            many => {
                let each: Vec<_> = failures.iter().map(Self::to_string).collect();
                Some(Self::new(format!("{many} jobs failed\n{}", each.join("\n"))))
            }
        }
    }

    /// Adds what to do; the first advice, given nearest to the cause, stays.
    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix.get_or_insert_with(|| fix.into());
        self
    }

    /// Puts what was being done in front: `step: what`.
    pub(crate) fn during(mut self, step: &str) -> Self {
        self.what = format!("{step}: {}", self.what);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.fix {
            Some(fix) => write!(f, "\n  what to do: {fix}"),
            None => Ok(()),
        }
    }
}
