//! The browsers of the tests: Chromium for all of them, Firefox and WebKitGTK for a few pages.

use std::path::{Path, PathBuf};

use super::apt;
use super::tools::shown;
use crate::failure::Outcome;
use crate::process;

/// The variable that names a program, and the names that it has on PATH.
struct Browser {
    variable: &'static str,
    names: &'static [&'static str],
}

const CHROMIUM: Browser = Browser {
    variable: "CHROMIUM",
    names: &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"],
};
const FIREFOX: Browser = Browser { variable: "FIREFOX", names: &["firefox-esr", "firefox"] };
/// Starts WebKitGTK's MiniBrowser by itself.
const WEBKIT_DRIVER: Browser = Browser { variable: "WEBKIT_DRIVER", names: &["WebKitWebDriver"] };
/// WebKitGTK draws on an X display, and on this one nobody looks.
const XVFB: &str = "Xvfb";

impl Browser {
    /// The program that the variable names, else the first of the usual names on PATH.
    fn path(&self) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable) {
            return Some(PathBuf::from(named)).filter(|program| program.is_file());
        }
        self.names.iter().copied().find_map(process::find_on_path)
    }

    fn find(&self) -> Option<String> {
        self.path().map(|program| shown(&program))
    }

    fn install(&self, packages: &[&str]) -> Outcome {
        apt::install(packages).map_err(|failure| {
            let (program, variable) = (self.names[0], self.variable);
            failure.fix(format!("install {program} and name its program in the variable {variable}"))
        })
    }
}

/// Returns the variables that tell test runners which browsers there are, with their programs.
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, PathBuf)> {
    [CHROMIUM, FIREFOX, WEBKIT_DRIVER]
        .into_iter()
        .filter_map(|browser| browser.path().map(|program| (browser.variable, program)))
}

pub(super) fn find_chromium() -> Option<String> {
    CHROMIUM.find()
}

pub(super) fn install_chromium() -> Outcome {
    CHROMIUM.install(&["chromium"])
}

/// Returns the driver manifest of SwiftShader, the software Vulkan driver that comes with Chromium.
///
/// It compiles a kernel in about a quarter of the time that Mesa's takes, and has no f16.
pub(crate) fn swiftshader() -> Option<PathBuf> {
    let beside = CHROMIUM.path().and_then(|program| Some(program.canonicalize().ok()?.parent()?.to_owned()));
    let folders = beside.into_iter().chain([PathBuf::from("/usr/lib/chromium")]);
    folders.map(|folder| folder.join("vk_swiftshader_icd.json")).find(|file| file.is_file())
}

pub(super) fn find_firefox() -> Option<String> {
    FIREFOX.find()
}

pub(super) fn install_firefox() -> Outcome {
    FIREFOX.install(&["firefox-esr"])
}

pub(super) fn find_webkit() -> Option<String> {
    let [driver, display] = [WEBKIT_DRIVER.path()?, process::find_on_path(XVFB)?];
    Some(format!("{} on {}", shown(&driver), shown(Path::new(&display))))
}

pub(super) fn install_webkit() -> Outcome {
    WEBKIT_DRIVER.install(&["webkit2gtk-driver", "xvfb"])
}
