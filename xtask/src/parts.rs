//! The parts of a task, each of which can be run alone: an enum of each task's own, with the names on the command line.

use crate::failure::{Failure, Outcome};

/// One of a task's parts.
pub(crate) trait Part: Copy + 'static {
    /// The name of the task.
    const TASK: &'static str;
    /// All parts, in the order they run.
    const ALL: &'static [Self];

    /// Returns the name on the command line.
    fn name(self) -> &'static str;

    /// Returns the part that a flag's value names.
    ///
    /// # Errors
    /// [`Failure`] lists the parts.
    fn named(name: Option<&str>) -> Outcome<Self> {
        let name = name.unwrap_or_default();
        Self::ALL.iter().copied().find(|part| part.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|part| part.name()).collect();
            let (task, parts) = (Self::TASK, names.join(", "));
            Failure::new(format!("{task} has no part {name:?}")).fix(format!("name one of {parts}"))
        })
    }
}

/// Defines the enum of a task's parts, in the order they run.
macro_rules! parts {
    ($task:literal: $($part:ident $name:literal),+ $(,)?) => {
        /// The parts, in the order they run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Part {
            $($part),+
        }

        impl crate::parts::Part for Part {
            const TASK: &'static str = $task;
            const ALL: &'static [Self] = &[$(Self::$part),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$part => $name),+
                }
            }
        }
    };
}
pub(crate) use parts;

#[cfg(test)]
mod tests {
    use super::Part as _;

    parts!("bake": Dough "dough", Oven "oven");

    #[test]
    fn a_part_that_a_task_does_not_have_is_an_error_that_lists_the_parts() {
        assert_eq!(Part::named(Some("oven")).unwrap(), Part::Oven);
        for unknown in [Some("over"), None] {
            let error = Part::named(unknown).unwrap_err().to_string();
            assert!(error.contains("bake has no part") && error.contains("dough, oven"), "{error}");
        }
    }
}
