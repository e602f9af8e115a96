//! Options of an address: `?OPTION=VALUE&...`, each once, all of them known.

use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;

/// Most bytes of a name: PostgreSQL cuts longer ones, which would name another table.
const MAX_NAME: usize = 63;

/// Options that were read and not yet taken.
pub(crate) struct Options(Vec<(String, String)>);

/// Returns percent-encoded text as it is meant; `what` names it in the error.
pub(crate) fn decode(what: &str, text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| format!("its {what} is not UTF-8"))?;
    match text.contains('\0') {
        true => Err(format!("its {what} holds a NUL byte")),
        false => Ok(text.into_owned()),
    }
}

impl Options {
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut options: Vec<(String, String)> = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').ok_or("after `?` it takes OPTION=VALUE, with & between")?;
            if options.iter().any(|(known, _)| known == name) {
                return Err(format!("its option {} is given twice", name.escape_debug()));
            }
            options.push((name.to_owned(), decode("option", value)?));
        }
        Ok(Self(options))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Takes the name of a table, a schema or a column.
    pub(crate) fn name(&mut self, option: &str) -> Result<Option<String>, String> {
        match self.take(option) {
            Some(name) if name.is_empty() || name.len() > MAX_NAME => {
                Err(format!("its {option} must have 1 to {MAX_NAME} bytes"))
            }
            name => Ok(name),
        }
    }

    pub(crate) fn number(
        &mut self,
        option: &str,
        allowed: RangeInclusive<u64>,
    ) -> Result<Option<u64>, String> {
        let Some(text) = self.take(option) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        let (min, max) = allowed.into_inner();
        number.map(Some).ok_or_else(|| format!("its {option} must be {min} to {max}"))
    }

    pub(crate) fn one_of<T: Copy>(
        &mut self,
        option: &str,
        values: &[(&str, T)],
    ) -> Result<Option<T>, String> {
        let Some(text) = self.take(option) else { return Ok(None) };
        let value = values.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        let names = || values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        value.map(Some).ok_or_else(|| format!("its {option} must be one of {}", names()))
    }

    /// Takes the directory of a socket.
    pub(crate) fn socket(&mut self) -> Result<Option<String>, String> {
        match self.take("host") {
            Some(directory) if !directory.starts_with('/') => {
                Err("its host option, the directory of a socket, must begin with /".into())
            }
            directory => Ok(directory),
        }
    }

    /// Refuses what was not taken.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "there is no option {}: use table, schema, id, title, text, vector, metadata, type, ef_search, \
                 sslmode, sslrootcert, pool, timeout, connect_timeout or host",
                name.escape_debug()
            )),
        }
    }
}
