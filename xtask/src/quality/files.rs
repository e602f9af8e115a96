//! Small files of a run, and the accuracies in them.

use std::path::Path;
use std::{fs, io};

use super::seeds::{Accuracies, accuracies};
use crate::failure::{Failure, Outcome};
use crate::json::json;

/// The line of `configs/ict.toml` about the weights that training starts from, and that of a run from nothing.
pub(super) const FROM_RANDOM: (&str, &str) = ("weights = \"given\"", "weights = \"random\"");

/// The line of `configs/ict.toml` about the temperature, and that for vectors that are not scaled.
pub(super) const UNSCALED: (&str, &str) = ("temperature = 0.05", "temperature = 1.0");

pub(super) fn read(path: &str) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {path}: {error}")))
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &str, text: &str) -> Outcome {
    let part = format!("{path}.part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| Failure::new(format!("cannot write {path}: {error}")))
}

/// Removes a file, or a folder with all it holds, where there is one.
pub(super) fn clear(path: &str) -> Outcome {
    let is_folder = Path::new(path).is_dir();
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot clear {path}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Notes in the file `settings` what a run is asked for. Where it was begun with other settings, `forget` removes it
/// before, so that it is begun anew.
pub(super) fn note(settings: &str, asked: &str, forget: impl FnOnce() -> Outcome) -> Outcome {
    if fs::read_to_string(settings).is_ok_and(|begun| begun != asked) {
        forget()?;
    }
    write(settings, asked)
}

/// Returns the configuration in the file `path` with other lines in the place of some of its own: pairs of a line and
/// what takes its place.
///
/// # Errors
/// [`Failure`] names a line that is not there: the run would be another one than its name says.
pub(super) fn with_lines(path: &str, lines: &[(&str, &str)]) -> Outcome<String> {
    let mut text = read(path)?;
    for (given, replacement) in lines {
        if !text.contains(given) {
            let failure = Failure::new(format!("{path} has no line `{given}`"));
            return Err(failure.fix("write it as it was, or replace the new one here"));
        }
        text = text.replace(given, replacement);
    }
    Ok(text)
}

/// Returns the accuracies of each method that `dpr eval retrieval --out RESULTS` measured.
pub(super) fn measured(results: &str) -> Outcome<Accuracies> {
    let path = format!("{results}/metrics.json");
    Ok(accuracies(&json(&read(&path)?, &path)?))
}

/// Returns the cells of a method's accuracies, in %.
pub(super) fn cells(measured: &Accuracies, method: &str) -> String {
    let top = measured.iter().find(|(name, _)| name == method).map(|(_, top)| top.as_slice());
    let cells = top.unwrap_or_default().iter().map(|(_, accuracy)| format!("{:.1}", accuracy * 100.0));
    cells.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_other_settings_is_forgotten_and_one_of_the_same_is_not() {
        let folder = std::env::temp_dir().join(format!("dpr-noted-{}", std::process::id()));
        fs::create_dir_all(folder.join("run")).unwrap();
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (settings, run, done) = (at("run.settings"), at("run"), at("run.done"));
        write(&done, "").unwrap();
        let mut forgotten = 0;
        // Without a note, what is there is taken for what was asked for.
        for asked in ["a", "a", "b", "b"] {
            note(&settings, asked, || {
                forgotten += 1;
                clear(&run)?;
                clear(&done)
            })
            .unwrap();
            assert_eq!(read(&settings).unwrap(), asked);
            assert_eq!(Path::new(&run).exists(), asked == "a");
        }
        assert_eq!(forgotten, 1);
        clear(&done).unwrap();
        // Where it cannot be removed, the note stays, and the next one tries again.
        let failure = note(&settings, "c", || Err(Failure::new("full"))).unwrap_err();
        assert_eq!((failure.to_string(), read(&settings).unwrap()), ("full".to_owned(), "b".to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_configuration_without_the_line_that_is_replaced_is_refused() {
        let path = std::env::temp_dir().join(format!("dpr-lines-{}.toml", std::process::id()));
        let path = path.to_string_lossy().into_owned();
        write(&path, "weights = \"given\"\ntemperature = 0.05\n").unwrap();
        let lines =
            [("weights = \"given\"", "weights = \"random\""), ("temperature = 0.05", "temperature = 1.0")];
        assert_eq!(with_lines(&path, &lines).unwrap(), "weights = \"random\"\ntemperature = 1.0\n");
        write(&path, "temperature = 0.05\n").unwrap();
        let failure = with_lines(&path, &lines).unwrap_err().to_string();
        assert!(failure.contains(&format!("{path} has no line `weights = \"given\"`")), "{failure}");
        fs::remove_file(&path).unwrap();
        assert!(with_lines(&path, &lines).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn the_lines_that_are_replaced_stand_in_the_configuration() {
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/ict.toml");
        let text = with_lines(config, &[FROM_RANDOM, UNSCALED]).unwrap();
        assert!(text.contains("weights = \"random\"") && text.contains("temperature = 1.0"), "{text}");
    }

    #[test]
    fn a_table_has_the_accuracies_of_its_method_and_none_of_one_that_is_not_there() {
        let top = |accuracy: f64| vec![(1, accuracy), (20, 0.956)];
        let measured = vec![("bm25".to_owned(), top(0.742)), ("dense".to_owned(), top(0.5))];
        assert_eq!(cells(&measured, "bm25"), "74.2 | 95.6");
        assert_eq!(cells(&measured, "hybrid"), "");
    }
}
