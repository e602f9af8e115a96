//! The search page's files.

use super::*;

fn with_page() -> (Router, tempfile::TempDir, tempfile::TempDir) {
    let web = tempfile::tempdir().unwrap();
    for folder in ["assets", ".git"] {
        fs_err::create_dir(web.path().join(folder)).unwrap();
    }
    let script = "console.log('a page');\n".repeat(100);
    for (name, content) in [
        ("index.html", "<!doctype html><title>dpr</title>"),
        ("assets/main-Bx3kQ9_a.js", &script),
        ("assets/dpr_wasm_bg-DX3ab9Qz.wasm", "\0asm"),
        ("assets/logo.svg", "<svg/>"),
        (".env", "SECRET=1"),
        (".git/config", "[core]"),
    ] {
        fs_err::write(web.path().join(name), content).unwrap();
    }
    let (app, dir) = ready(Options { web: Some(web.path().to_owned()), ..Options::default() });
    (app, web, dir)
}

#[tokio::test]
async fn the_page_is_served_fresh_and_its_hashed_files_for_good() {
    let (app, _web, _dir) = with_page();
    for (path, media_type, caching) in [
        ("/", "text/html", "no-store"),
        ("/index.html", "text/html", "no-store"),
        ("/assets/main-Bx3kQ9_a.js", "text/javascript", "public, max-age=31536000, immutable"),
        ("/assets/dpr_wasm_bg-DX3ab9Qz.wasm", "application/wasm", "public, max-age=31536000, immutable"),
        ("/assets/logo.svg", "image/svg+xml", "no-cache"),
    ] {
        let reply = get(&app, path).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        assert!(
            reply.header("content-type").starts_with(media_type),
            "{path} {}",
            reply.header("content-type")
        );
        assert_eq!(reply.header("cache-control"), caching, "{path}");
    }
    let packed = get_with(&app, "/assets/main-Bx3kQ9_a.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
}

#[tokio::test]
async fn the_page_may_talk_to_its_own_server_only() {
    let (app, _web, _dir) = with_page();
    for path in ["/", "/assets/main-Bx3kQ9_a.js"] {
        let reply = get(&app, path).await;
        let policy = reply.header("content-security-policy");
        for part in
            ["default-src 'self'", "connect-src 'self'", "'wasm-unsafe-eval'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(
            policy.contains("style-src 'self';") && !policy.contains("unsafe-inline"),
            "{path}: {policy}"
        );
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("cross-origin-opener-policy"), "same-origin");
        assert_eq!(reply.header("cross-origin-embedder-policy"), "require-corp");
    }
}

#[tokio::test]
async fn a_compressed_copy_beside_an_asset_is_preferred() {
    let (app, web, _dir) = with_page();
    fs_err::write(web.path().join("assets/dpr_wasm_bg-DX3ab9Qz.wasm.gz"), [0x1f, 0x8b, 9]).unwrap();
    let reply = get_with(&app, "/assets/dpr_wasm_bg-DX3ab9Qz.wasm", &[("accept-encoding", "gzip")]).await;
    assert_eq!((reply.header("content-encoding"), reply.body.len()), ("gzip", 3));
    assert_eq!(reply.header("content-type"), "application/wasm");
}

#[tokio::test]
async fn files_outside_the_page_and_hidden_files_are_not_found() {
    let (app, _web, _dir) = with_page();
    for path in ["/.env", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/%2e%2e/.env", "/nothing"]
    {
        assert_eq!(get(&app, path).await.error(), (404, "not_found".into()), "{path}");
    }
}

#[tokio::test]
async fn a_hidden_file_is_not_found_however_its_name_is_written() {
    let (app, web, _dir) = with_page();
    let hidden =
        ["/.env", "/%2eenv", "/%2Egit/config", "/%2e%2e/etc/passwd", "/a/..%2f.env", "/assets%2f..%2f.env"];
    for path in hidden.into_iter().chain(["/.%00env", "/index.html%00", "/assets%5c..%5c.env", "/%ff"]) {
        assert_eq!(get(&app, path).await.error(), (404, "not_found".into()), "{path}");
    }
    fs_err::write(web.path().join("a b.js"), "1").unwrap();
    assert_eq!(get(&app, "/a%20b%2ejs").await.status, StatusCode::OK, "other names may be written so");
}
