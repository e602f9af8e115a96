//! Passwords, and where they are looked for: the address, `PGPASSWORD`, the password file.

use std::io;
use std::path::{Path, PathBuf};

use crate::secret::Secret;
use crate::{PostgresAddress, PostgresError};

/// Returns the password for an address, as PostgreSQL's own programs find it: in the address, in `PGPASSWORD`, or in
/// the file that `PGPASSFILE` names (`~/.pgpass`). `None` leaves it to the server whether one is needed.
pub(crate) fn of(address: &PostgresAddress) -> Result<Option<Secret>, PostgresError> {
    if address.password.is_some() {
        return Ok(address.password.clone());
    }
    match std::env::var("PGPASSWORD") {
        Ok(password) if !password.is_empty() => return Ok(Some(Secret::new(password))),
        Ok(_) | Err(std::env::VarError::NotPresent) => {}
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(PostgresError::Password {
                place: "PGPASSWORD".into(),
                why: "it is not UTF-8".into(),
            });
        }
    }
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let Some(file) = named.or_else(|| Some(std::env::home_dir()?.join(".pgpass"))) else { return Ok(None) };
    from_file(&file, address)
}

/// Returns the password of the first line of a password file that fits; `None` without a file or a line.
fn from_file(file: &Path, address: &PostgresAddress) -> Result<Option<Secret>, PostgresError> {
    let refused = |why: String| PostgresError::Password { place: file.display().to_string(), why };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(error.to_string())),
    };
    if !is_private(file) {
        return Err(refused("others may read it: chmod 600".into()));
    }
    let (host, port) = (address.host.as_str(), address.port.to_string());
    // A socket goes by its directory, and by the name of this machine.
    let host_too = if host.starts_with('/') { "localhost" } else { host };
    let expected =
        [[host, host_too], [port.as_str(); 2], [address.database.as_str(); 2], [address.user.as_str(); 2]];
    let fits = |fields: &[String]| {
        fields
            .iter()
            .zip(expected)
            .all(|(field, expected)| field == "*" || expected.contains(&field.as_str()))
    };
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(fields).find_map(|fields| {
        match fields.as_slice() {
            [place @ .., password] if place.len() == 4 && fits(place) => Some(Secret::new(password.clone())),
            _ => None,
        }
    }))
}

#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 == 0)
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> bool {
    true
}

/// Returns the fields of a line, `host:port:database:user:password`; a backslash keeps a colon or a backslash.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut characters) = (vec![String::new()], line.chars());
    while let Some(character) = characters.next() {
        let field = fields.len() - 1;
        match character {
            ':' => fields.push(String::new()),
            '\\' => fields[field].extend(characters.next()),
            character => fields[field].push(character),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        std::fs::write(&file, text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        (dir, file)
    }

    #[test]
    fn the_first_line_of_the_password_file_that_fits_is_taken() {
        let (_dir, file) = write(
            "# a comment\n\
             db:5432:shop:other:no\n\
             db:*:shop:web:a\\:b\\\\c\n\
             *:*:*:*:last\n",
            0o600,
        );
        let find = |address: &str| from_file(&file, &address.parse().unwrap()).unwrap();
        assert_eq!(find("postgres://web@db/shop"), Some(Secret::new("a:b\\c".into())));
        assert_eq!(find("postgres://web@db/else"), Some(Secret::new("last".into())));
        let (_dir, file) = write("localhost:5432:shop:web:socket\n", 0o600);
        let address = "postgres://web@/shop?host=/run/postgresql".parse().unwrap();
        assert_eq!(from_file(&file, &address).unwrap(), Some(Secret::new("socket".into())));
        let address = "postgres://web@other/shop".parse().unwrap();
        assert_eq!(from_file(&file, &address).unwrap(), None);
        assert_eq!(from_file(Path::new("/nonexistent/pgpass"), &address).unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_password_file_that_others_may_read_is_refused() {
        let (_dir, file) = write("*:*:*:*:secret\n", 0o644);
        let error = from_file(&file, &"postgres://web@db/shop".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
    }
}
