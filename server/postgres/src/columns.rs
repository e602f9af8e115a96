//! Types of columns, and what values they hold.

/// The type of the column of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdType {
    Text,
    Int2,
    Int4,
    Int8,
    Uuid,
}

impl IdType {
    /// Returns the type of this name in PostgreSQL's catalogue, if ids can be kept in it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "text" | "varchar" => Self::Text,
            "int2" => Self::Int2,
            "int4" => Self::Int4,
            "int8" => Self::Int8,
            "uuid" => Self::Uuid,
            _ => return None,
        })
    }

    /// Returns the name by which values are cast.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int2 => "int2",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Uuid => "uuid",
        }
    }

    /// Returns `true` if an id can be the text of a value of this type: `7` is one of a number, `07` is not.
    pub(crate) fn holds(self, id: &str) -> bool {
        match self {
            Self::Text => !id.contains('\0'),
            Self::Int2 => id.parse().is_ok_and(|number: i16| number.to_string() == id),
            Self::Int4 => id.parse().is_ok_and(|number: i32| number.to_string() == id),
            Self::Int8 => id.parse().is_ok_and(|number: i64| number.to_string() == id),
            Self::Uuid => is_uuid(id),
        }
    }
}

/// Returns `true` for a UUID in the form that PostgreSQL writes: lower-case digits in five groups.
fn is_uuid(id: &str) -> bool {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    id.len() == 36 && id.bytes().enumerate().all(is_right)
}

/// Returns `true` for types of texts.
pub(crate) fn is_text(name: &str) -> bool {
    ["text", "varchar"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_held_by_the_types_that_would_give_it_back() {
        let uuid = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";
        for (id, held_by) in [
            ("7", vec!["text", "int2", "int4", "int8"]),
            ("-40000", vec!["text", "int4", "int8"]),
            ("9223372036854775807", vec!["text", "int8"]),
            ("9223372036854775808", vec!["text"]),
            ("07", vec!["text"]),
            ("+7", vec!["text"]),
            ("1); DROP TABLE passages; --", vec!["text"]),
            (uuid, vec!["text", "uuid"]),
            (&uuid.to_uppercase(), vec!["text"]),
            (&uuid.replace('-', "a"), vec!["text"]),
            ("a\0b", vec![]),
        ] {
            let types = ["text", "int2", "int4", "int8", "uuid"];
            let holds: Vec<_> =
                types.into_iter().filter(|name| IdType::of(name).unwrap().holds(id)).collect();
            assert_eq!(holds, held_by, "{id}");
        }
        assert_eq!(IdType::of("jsonb"), None);
    }
}
