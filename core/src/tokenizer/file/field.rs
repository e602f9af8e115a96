//! A value of a JSON file with its path, for errors that name it.

use serde_json::Value;

/// A value and where it stands: `model.vocab`.
pub(super) struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    /// Returns the whole file.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// Returns the field of an object; null where there is none.
    pub(super) fn get(&self, name: &str) -> Field<'a> {
        let path = if self.path.is_empty() { name.to_owned() } else { [&*self.path, ".", name].concat() };
        Field { path, value: &self.value[name] }
    }

    /// Returns the field unless it is null or not there.
    pub(super) fn some(self) -> Option<Self> {
        (!self.value.is_null()).then_some(self)
    }

    /// Returns the value.
    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the error of a value that is something else than asked.
    pub(super) fn is_not(&self, what: &str) -> String {
        [if self.value.is_null() { "it lacks " } else { "its " }, &*self.path]
            .concat()
            .chars()
            .chain(if self.value.is_null() { ", " } else { " is not " }.chars())
            .chain(what.chars())
            .collect()
    }

    pub(super) fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.is_not("a string"))
    }

    pub(super) fn flag(&self) -> Result<bool, String> {
        self.value.as_bool().ok_or_else(|| self.is_not("true or false"))
    }

    /// Returns the flag, or `default` where there is none.
    pub(super) fn flag_or(&self, default: bool) -> Result<bool, String> {
        if self.value.is_null() { Ok(default) } else { self.flag() }
    }

    pub(super) fn number(&self) -> Result<usize, String> {
        let number = self.value.as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| self.is_not("a whole number"))
    }

    /// Returns a string's one character.
    pub(super) fn character(&self) -> Result<char, String> {
        let mut all = self.text()?.chars();
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(self.is_not("one character")),
        }
    }

    /// Returns the items of an array.
    pub(super) fn items(&self) -> Result<impl Iterator<Item = Field<'a>> + use<'a>, String> {
        let items = self.value.as_array().ok_or_else(|| self.is_not("an array"))?;
        let path = self.path.clone();
        Ok(items.iter().enumerate().map(move |(at, value)| Field { path: format!("{path}[{at}]"), value }))
    }
}
