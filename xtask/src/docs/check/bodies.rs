//! Bodies of requests and answers that the page of HTTP shows, held against the OpenAPI document.

use serde_json::Value;

use crate::docs::markdown::Markdown;

const PAGE: &str = "docs/reference/http.md";

/// Returns a problem for each JSON body of a request that the page does not show, and for each body that it shows in
/// another form than its schema's.
///
/// Under a heading of the third level with a method and a path, the first blocks of JSON are the request, where it has
/// such a body, and the answer.
pub(super) fn problems(openapi: &Value, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, methods) in openapi["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let request = format!("`{} {path}`", method.to_uppercase());
            let (asked, answered) =
                (schema(&operation["requestBody"]), schema(&operation["responses"]["200"]));
            match section(page, &request) {
                Some(section) => {
                    let schemas = [("request", asked), ("answer", answered)];
                    let schemas = schemas.into_iter().filter_map(|(what, schema)| Some((what, schema?)));
                    let found = compared(openapi, section, schemas);
                    problems.extend(found.into_iter().map(|problem| format!("{PAGE}: {request}: {problem}")));
                }
                None if asked.is_some() => {
                    problems.push(format!("{PAGE}: it does not show the body of {request}"));
                }
                None => {}
            }
        }
    }
    problems
}

/// Returns the schema of a JSON body, where there is one.
fn schema(body: &Value) -> Option<&Value> {
    body.pointer("/content/application~1json/schema")
}

/// Returns what stands below the heading of a request, up to the next heading.
fn section<'a>(page: &'a str, request: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("\n### {request}\n"))?;
    let end = ["\n## ", "\n### "].iter().filter_map(|heading| rest.find(heading)).min();
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// Returns what is wrong with the blocks of JSON of a section, which follow these schemas in their order.
fn compared<'a>(
    openapi: &Value,
    section: &str,
    schemas: impl Iterator<Item = (&'static str, &'a Value)>,
) -> Vec<String> {
    let blocks = Markdown::parse(section).blocks;
    let mut shown =
        blocks.iter().filter(|block| block.language == "json").map(|block| block.lines.join("\n"));
    let mut problems = Vec::new();
    for (what, schema) in schemas {
        match shown.next().map(|text| serde_json::from_str::<Value>(&text)) {
            Some(Ok(body)) => problems.extend(differences(openapi, schema, &body, what)),
            Some(Err(error)) => problems.push(format!("the {what} is not JSON: {error}")),
            None => problems.push(format!("it does not show the {what}")),
        }
    }
    problems
}

/// Returns in what a value differs from a schema. `at` is its place in the body.
fn differences(openapi: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = openapi.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
        return differences(openapi, target, value, at);
    }
    if let Some(forms) = schema["oneOf"].as_array() {
        let is_one = forms.iter().any(|form| differences(openapi, form, value, at).is_empty());
        return if is_one { Vec::new() } else { vec![format!("`{at}` is of none of its forms")] };
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.as_slice(),
        kind => std::slice::from_ref(kind),
    };
    if !kinds.iter().filter_map(Value::as_str).any(|kind| is_of(kind, value)) {
        return vec![format!("`{at}` is of another type")];
    }
    let mut problems = Vec::new();
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        problems.push(format!("`{at}` has a value that it cannot have"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            problems.push(format!("`{at}` has no `{name}`"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let any = schema.get("additionalProperties").filter(|schema| schema.is_object());
        match schema["properties"].get(name).or(any) {
            Some(schema) => problems.extend(differences(openapi, schema, value, &format!("{at}.{name}"))),
            None => problems.push(format!("`{at}` cannot have `{name}`")),
        }
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        problems.extend(differences(openapi, &schema["items"], item, &format!("{at}[{place}]")));
    }
    problems
}

/// Returns whether a value is of a type of JSON schemas.
fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn openapi() -> Value {
        let body = |schema: &str| json!({"content": {"application/json": {"schema": {"$ref": format!("#/schemas/{schema}")}}}});
        json!({
            "paths": {
                "/a": {"post": {"requestBody": body("Request"), "responses": {"200": body("Answer")}}},
                "/b": {"get": {"responses": {"200": body("Answer")}}},
            },
            "schemas": {
                "Request": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {
                        "k": {"type": ["integer", "null"]},
                        "method": {"type": "string", "enum": ["dense"]},
                        "vector": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
                    },
                },
                "Answer": {
                    "type": "object",
                    "required": ["names"],
                    "properties": {"names": {"type": "object", "additionalProperties": {"type": "boolean"}}},
                },
            },
        })
    }

    fn page(request: &str, answer: &str) -> String {
        format!("# HTTP\n\n### `POST /a`\n\n```json\n{request}\n```\n\n```json\n{answer}\n```\n\n## End\n")
    }

    #[test]
    fn bodies_of_their_schemas_are_no_problem() {
        let page = page(r#"{"k": 5, "method": "dense", "vector": [0.5]}"#, r#"{"names": {"x": true}}"#);
        assert_eq!(problems(&openapi(), &page), [""; 0]);
    }

    #[test]
    fn bodies_of_another_form_are_named_with_their_place() {
        let page = page(r#"{"method": "bm25", "text": "", "vector": ["a"]}"#, r#"{"names": {"x": 1}}"#);
        let told = [
            "`request` has no `k`",
            "`request.method` has a value that it cannot have",
            "`request` cannot have `text`",
            "`request.vector` is of none of its forms",
            "`answer.names.x` is of another type",
        ];
        let told = told.map(|problem| format!("docs/reference/http.md: `POST /a`: {problem}"));
        assert_eq!(problems(&openapi(), &page), told);
    }

    #[test]
    fn bodies_that_are_not_shown_are_named() {
        assert_eq!(
            problems(&openapi(), "# HTTP\n"),
            ["docs/reference/http.md: it does not show the body of `POST /a`"]
        );
        let page = "# HTTP\n\n### `POST /a`\n\n```json\n{\n```\n";
        let told = problems(&openapi(), page);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("the request is not JSON"), "{told:?}");
        assert!(told[1].ends_with("it does not show the answer"), "{told:?}");
    }
}
