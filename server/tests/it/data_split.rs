//! Documents as people have them become passages of 100 words, or an error that says what to do.

use crate::support::files;
use crate::support::shared;

use std::fmt::Write as _;
use std::path::Path;

use dpr_data::split::{Blocks, SplitError, SplitOptions, SplitReport, Words, document_of, split};
use dpr_data::{DataError, Passage, read_passages};
use dpr_files::progress::{Progress, Silent};
use files::{Files, gunzip, gzip, passage as block};
use fs_err as fs;
use shared::shared;

impl Files {
    /// Splits into blocks of `words` and reads them back.
    fn split(&self, input: &Path, words: usize) -> (SplitReport, Vec<Passage>) {
        let out = self.path("blocks-out.tsv");
        let options = SplitOptions::new(words, 0, 1).unwrap();
        let report = split(input, &out, &options, &Silent).unwrap();
        let blocks = read_passages(&out).unwrap();
        assert_eq!(report.blocks, blocks.len() as u64);
        (report, blocks)
    }

    /// The error of splitting; there must be no output, nor a piece of one.
    fn refused(&self, input: &Path) -> SplitError {
        let out = self.path("never/blocks.tsv");
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        let error = split(input, &out, &SplitOptions::default(), &Silent).unwrap_err();
        assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 0, "{error}");
        error
    }
}

/// `from w1 w2 …`
fn words(from: &str, count: usize) -> String {
    (0..count).map(|n| format!("{from}{n}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tsv_of_articles_becomes_blocks_of_100_words_that_lead_back() {
    let files = Files::new();
    let tsv = format!("id\ttext\ttitle\nwiki:7\t{}\tA  title\n8\tshort one\tB\n", words("w", 250));
    for input in [files.write("a.tsv", &tsv), files.write("a.tsv.gz", gzip(tsv.as_bytes()))] {
        let (report, blocks) = files.split(&input, 100);
        let ids: Vec<_> = blocks.iter().map(|block| block.id.as_str()).collect();
        assert_eq!(ids, ["wiki:7#0", "wiki:7#1", "wiki:7#2", "8#0"]);
        assert_eq!(blocks[0].text, words("w", 100));
        assert!(blocks[1].text.starts_with("w100 ") && blocks[1].text.ends_with(" w199"));
        assert_eq!(blocks[2].text.split(' ').count(), 50);
        assert!(blocks[..3].iter().all(|block| block.title == "A title"));
        assert_eq!(document_of(&blocks[2].id), Some(("wiki:7", 2)));
        assert_eq!((report.documents, report.blocks, report.words), (2, 4, 252));
    }
}

#[test]
fn beir_documents_keep_their_ids_and_a_bare_title_can_be_found() {
    let files = Files::new();
    let input = files.write(
        "corpus.jsonl",
        concat!(
            r#"{"_id": 5, "title": "A\tb", "text": "one\ntwo \"three\"", "metadata": {}}"#,
            "\n",
            r#"{"_id": "only-title", "title": "The title", "text": ""}"#,
            "\n"
        ),
    );
    let (report, blocks) = files.split(&input, 2);
    let expected = [
        block("5#0", "A b", "one two"),
        block("5#1", "A b", "\"three\""),
        block("only-title#0", "The title", "The title"),
    ];
    assert_eq!(blocks, expected);
    assert_eq!(report.documents, 2);
}

#[test]
fn a_directory_is_read_in_the_order_of_its_names() {
    let files = Files::new();
    for (name, content) in [
        ("docs/b.md", "# Guide\n\nMarkdown **text**.\n"),
        ("docs/a/page.html", "<title>Page</title><nav>no</nav><p>Html text.</p><script>no</script>"),
        ("docs/a/notes.txt", "Notes\n\nPlain text.\n"),
        ("docs/a/untitled.txt", "Plain text\nwithout a title.\n"),
        ("docs/c.htm", "<p>No title.</p>"),
        ("docs/empty.md", " \n"),
        ("docs/only-heading.md", "# Heading\n"),
        ("docs/.hidden.md", "no"),
        ("docs/.git/x.md", "no"),
        ("docs/queries.jsonl", "{\"_id\": \"1\", \"text\": \"a question\"}"),
        ("docs/report.PDF", "%PDF"),
        ("docs/LICENSE", "no"),
    ] {
        files.write(name, content);
    }
    files.write("docs/z.txt.gz", gzip(b"Packed text."));
    let (report, blocks) = files.split(&files.path("docs"), 100);
    let expected = [
        block("a/notes.txt#0", "Notes", "Plain text."),
        block("a/page.html#0", "Page", "Html text."),
        block("a/untitled.txt#0", "untitled", "Plain text without a title."),
        block("b.md#0", "Guide", "Markdown text."),
        block("c.htm#0", "c", "No title."),
        block("only-heading.md#0", "Heading", "Heading"),
        block("z.txt.gz#0", "z", "Packed text."),
    ];
    assert_eq!(blocks, expected);
    assert_eq!((report.documents, report.empty_files), (7, 1));
    let skipped: Vec<_> = report.skipped_files.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(skipped, [(".jsonl", 1), (".pdf", 1), ("no ending", 1)]);
}

#[test]
fn a_single_file_has_its_name_as_id() {
    let files = Files::new();
    let (_, blocks) = files.split(&files.write("docs/My notes.md", "Text without heading"), 2);
    assert_eq!(
        blocks,
        [block("My_notes.md#0", "My notes", "Text without"), block("My_notes.md#1", "My notes", "heading")]
    );
}

#[test]
fn a_page_of_xhtml_keeps_what_follows_its_empty_elements() {
    let files = Files::new();
    let page =
        "<html><head><title/><script src=\"a.js\"/></head><body><h1>One</h1><p>Hello.</p></body></html>";
    for (name, page) in [("a.xhtml", page.to_owned()), ("b.html", format!("<?xml version=\"1.0\"?>{page}"))] {
        let (_, blocks) = files.split(&files.write(name, page), 100);
        assert_eq!(blocks, [block(&format!("{name}#0"), "One", "One Hello.")]);
    }
}

#[test]
fn ids_of_files_hold_no_white_space_and_differ() {
    let files = Files::new();
    for name in ["a b.txt", "a\u{a0}b.txt", "a_b.txt", "in here/c  d.txt"] {
        files.write(&format!("docs/{name}"), "Text.");
    }
    let (_, blocks) = files.split(&files.path("docs"), 100);
    let ids: Vec<_> = blocks.iter().map(|block| block.id.as_str()).collect();
    assert_eq!(ids, ["a_b.txt_#0", "a_b.txt#0", "a_b.txt__#0", "in_here/c__d.txt#0"]);
}

#[test]
fn every_output_format_holds_the_same_blocks_and_the_same_bytes_each_time() {
    let files = Files::new();
    let input = files.write(
        "a.tsv",
        "id\ttext\ttitle\n1\tSays \"\"hi\"\" \t\"Weird Al\" Yankovic\n2\tplain text\t\n3\t\"5\"\" gun\"\tT\n",
    );
    let outputs = ["o.tsv", "o.tsv.gz", "o.jsonl", "o.jsonl.gz"].map(|name| files.path(name));
    let mut all = Vec::new();
    for out in &outputs {
        let options = SplitOptions::default();
        split(&input, out, &options, &Silent).unwrap();
        let bytes = fs::read(out).unwrap();
        split(&input, out, &options, &Silent).unwrap();
        assert_eq!(fs::read(out).unwrap(), bytes, "{}", out.display());
        all.push(read_passages(out).unwrap());
    }
    assert!(all.iter().all(|blocks| *blocks == all[0]));
    // As Python's csv.writer(out, delimiter="\t", lineterminator="\n") writes these rows.
    let expected = concat!(
        "id\ttext\ttitle\n",
        "1#0\t\"Says \"\"\"\"hi\"\"\"\"\"\t\"\"\"Weird Al\"\" Yankovic\"\n",
        "2#0\tplain text\t\n3#0\t\"5\"\" gun\"\tT\n"
    );
    assert_eq!(fs::read_to_string(&outputs[0]).unwrap(), expected);
    assert_eq!(gunzip(&outputs[1]), expected);
}

#[test]
fn joined_blocks_give_back_the_words_of_the_document() {
    // A small generator of numbers that look random: the same texts in every run.
    let mut state = 12345_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % limit
    };
    let pieces =
        ["word", "x", "é", "(", "東", "京", "カ", "。", "한국", "12", " ", "\t", "\n", "\u{a0}", " - "];
    for _ in 0..2000 {
        let text: String = (0..below(60)).map(|_| pieces[below(pieces.len())]).collect();
        let size = 1 + below(12);
        let (overlap, min_words) = (below(size), 1 + below(size));
        let expected: Vec<_> = Words::of(&text).map(|range| &text[range]).collect();
        // Where characters are words, no space separates them, in the text and in its blocks.
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();

        let disjoint = SplitOptions::new(size, 0, min_words).unwrap();
        let blocks: Vec<_> = Blocks::of(&text, &disjoint).collect();
        let joined: String = blocks.iter().map(|block| squeezed(&block.text)).collect();
        assert_eq!(joined, squeezed(&text), "{text:?}");
        assert_eq!(blocks.iter().map(|block| block.words).sum::<usize>(), expected.len(), "{text:?}");
        if expected.iter().eq(&text.split_whitespace().collect::<Vec<_>>()) {
            let words: Vec<_> = blocks.iter().flat_map(|block| block.text.split(' ')).collect();
            assert_eq!(words, expected, "{text:?}");
        }
        let (last, others) =
            blocks.split_last().map_or((None, &[][..]), |(last, others)| (Some(last), others));
        assert!(others.iter().all(|block| block.words == size), "{text:?}");
        assert!(last.is_none_or(|last| others.is_empty() || last.words >= min_words), "{text:?}");

        let overlapping = SplitOptions::new(size, overlap, min_words).unwrap();
        let mut end = 0;
        for block in Blocks::of(&text, &overlapping) {
            let start = end.max(overlap) - overlap;
            let words = &expected[start..start + block.words];
            assert_eq!(squeezed(&block.text), words.concat(), "{text:?}");
            assert!(start + block.words > end, "{text:?}: nothing new in block {}", block.number);
            end = start + block.words;
        }
        assert_eq!(end, expected.len(), "{text:?}");
    }
}

#[test]
fn a_document_of_one_line_of_10_mb_is_split() {
    let files = Files::new();
    let text = "word ".repeat(2_000_000);
    let (report, blocks) =
        files.split(&files.write("a.tsv", format!("id\ttext\ttitle\n1\t{text}\tT\n")), 100);
    assert_eq!((report.words, blocks.len()), (2_000_000, 20_000));
    assert_eq!(blocks[19_999].id, "1#19999");
    let (report, _) = files.split(&files.write("a.txt", "東京".repeat(1_700_000)), 100);
    assert_eq!((report.words, report.blocks), (3_400_000, 34_000));
}

#[test]
fn progress_ends_at_its_total() {
    #[derive(Default)]
    struct Told(std::sync::Mutex<(u64, u64, bool)>);
    impl Progress for Told {
        fn start(&self, _: &'static str, _: &'static str, total: u64) {
            self.0.lock().unwrap().0 = total;
        }
        fn advance(&self, steps: u64) {
            self.0.lock().unwrap().1 += steps;
        }
        fn finish(&self) {
            self.0.lock().unwrap().2 = true;
        }
    }
    let files = Files::new();
    let mut tsv = String::from("id\ttext\ttitle\n");
    for id in 0..5000 {
        writeln!(tsv, "{id}\t{}\tT", words("word", 100)).unwrap();
    }
    for input in [files.write("a.tsv", &tsv), files.write("a.tsv.gz", gzip(tsv.as_bytes()))] {
        let told = Told::default();
        split(&input, &files.path("o.tsv"), &SplitOptions::default(), &told).unwrap();
        let (total, done, finished) = told.0.into_inner().unwrap();
        assert_eq!((done, finished), (total, true));
        assert_eq!(total, fs::metadata(&input).unwrap().len().div_ceil(1_000_000));
    }
}

#[test]
fn each_bad_input_is_an_error_that_names_the_place() {
    let files = Files::new();
    let tsv = b"id\ttext\ttitle\n1\ta\tA\n";
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 9].to_vec();
    let with = |more: &[u8]| [tsv, more].concat();
    let cases: [(&str, Vec<u8>, &[&str]); 24] = [
        ("header.tsv", b"id\ttitle\n1\tA\n".to_vec(), &["line 1", "`text`", "found `id\ttitle`"]),
        ("columns.tsv", with(b"2\tb\n"), &["line 3", "2 columns", "no `title`"]),
        ("many.tsv", with(b"2\tb\tB\tC\n"), &["line 3", "4 columns"]),
        ("no-text.tsv", with(b"2\t \tB\n"), &["line 3", "empty `text`"]),
        ("no-id.tsv", with(b"\tb\tB\n"), &["line 3", "empty `id`"]),
        ("gap.tsv", with(b"\n2\tb\tB\n"), &["line 3 is empty"]),
        ("twice.tsv", with(b"2\tb\tB\n1\tc\tC\n"), &["id `1` is at line 2 and again at line 4"]),
        ("latin-1.tsv", with(b"2\tcaf\xe9\tB\n"), &["line 3", "UTF-8", "iconv"]),
        ("tab-in-id.tsv", with(b"\"2\t3\"\tb\tB\n"), &["line 3", r#""2\t3""#, "control character"]),
        ("only-header.tsv", b"id\ttext\ttitle\n".to_vec(), &["no documents"]),
        ("empty.tsv", Vec::new(), &["no documents"]),
        ("cut.tsv.gz", cut(gzip(&with(words("w", 999).as_bytes()))), &["gzip", "cut short", "again"]),
        ("cut.txt.gz", cut(gzip(words("w", 999).as_bytes())), &["gzip", "cut short", "again"]),
        ("bad.jsonl", b"{\"_id\": \"1\", \"text\": \"a\"}\n{\"_id\": 2}\n".to_vec(), &["line 2", "`text`"]),
        ("open.jsonl", b"{\"_id\": \"1\", \"text\": \"a\n".to_vec(), &["line 1, column"]),
        ("empty.jsonl", b"{\"_id\": \"1\", \"text\": \"\"}\n".to_vec(), &["line 1", "empty `text`"]),
        (
            "twice.jsonl",
            b"{\"_id\":1,\"text\":\"a\"}\n{\"_id\":\"1\",\"text\":\"b\"}".to_vec(),
            &["line 1", "line 2"],
        ),
        ("line-end.jsonl", b"{\"_id\":\"a\\nb\",\"text\":\"a\"}\n".to_vec(), &["line 1", r#""a\nb""#]),
        ("utf-16.txt", b"\xff\xfeA\0\n\0".to_vec(), &["line 1", "UTF-8"]),
        ("blank.html", b"<title> </title><script>x</script>".to_vec(), &["no words in it"]),
        ("deep.html", "<div></x><p>".repeat(3000).into_bytes(), &["more than 2000 elements are open"]),
        ("deep.md", "<div>\n".repeat(3000).into_bytes(), &["more than 2000 elements are open"]),
        ("report.pdf", b"%PDF-1.7".to_vec(), &["unknown kind of file", ".tsv", ".html"]),
        ("plain", b"some text".to_vec(), &["unknown kind of file"]),
    ];
    for (name, bytes, said) in cases {
        let error = files.refused(&files.write(name, bytes)).to_string();
        for said in [&[name], said].concat() {
            assert!(error.contains(said), "{name}: `{said}` is not in: {error}");
        }
    }
    let missing = files.refused(&files.path("missing.tsv"));
    assert!(matches!(missing, SplitError::Data(DataError::Io { .. })), "{missing}");
    assert!(missing.to_string().contains("missing.tsv"), "{missing}");
}

#[test]
fn a_directory_without_documents_is_an_error() {
    let files = Files::new();
    fs::create_dir(files.path("none")).unwrap();
    let error = files.refused(&files.path("none")).to_string();
    assert!(error.contains("none: no .txt, .md or .html file"), "{error}");
    files.write("beir/corpus.jsonl", "{}");
    let error = files.refused(&files.path("beir")).to_string();
    assert!(error.contains("1 of other kinds; give a .tsv or .jsonl file by its own name"), "{error}");
    files.write("blank/a.md", "\n");
    files.write("blank/b.txt", "");
    let error = files.refused(&files.path("blank")).to_string();
    assert!(error.contains("no words in its 2 files"), "{error}");
    files.write("bad/a.md", "fine");
    files.write("bad/b/c.md", b"caf\xe9");
    let error = files.refused(&files.path("bad")).to_string();
    assert!(error.contains("c.md: line 1 is not valid UTF-8"), "{error}");
}

#[test]
fn files_without_a_telling_name_are_known_by_their_content() {
    let files = Files::new();
    for content in ["id\ttext\ttitle\n1\ta\tA\n", "{\"_id\": \"1\", \"title\": \"A\", \"text\": \"a\"}\n"] {
        let (_, blocks) = files.split(&files.write("corpus", format!("\u{feff}{content}")), 100);
        assert_eq!(blocks, [block("1#0", "A", "a")]);
    }
}

#[test]
fn an_output_that_cannot_be_is_refused_and_an_old_one_stays() {
    let files = Files::new();
    let input = files.write("a.tsv", "id\ttext\ttitle\n1\ta\tA\n");
    let refused = |input: &Path, out: &Path| {
        split(input, out, &SplitOptions::default(), &Silent).unwrap_err().to_string()
    };
    let error = refused(&input, &files.path("o.csv"));
    assert!(error.contains("o.csv: name the output .tsv"), "{error}");
    let error = refused(&input, &input);
    assert!(error.contains("would be overwritten"), "{error}");
    let error = refused(&input, &files.path("no/such/o.tsv"));
    assert!(error.contains("no/such"), "{error}");

    let out = files.write("o.tsv", "old");
    refused(&files.write("bad.tsv", "id\ttext\ttitle\n1\ta\tA\n1\tb\tB\n"), &out);
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    assert_eq!(files.names(), ["a.tsv", "bad.tsv", "o.tsv"], "nothing unfinished is left");
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_counted_and_names_that_are_no_ids_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let files = Files::new();
    files.write("docs/a.txt", "text");
    std::os::unix::fs::symlink(files.path("docs"), files.path("docs/loop")).unwrap();
    let (report, _) = files.split(&files.path("docs"), 100);
    assert_eq!(report.skipped_files.get("symbolic link"), Some(&1));
    let name = files.path("docs").join(std::ffi::OsStr::from_bytes(b"caf\xe9.txt"));
    if fs::write(&name, "text").is_ok() {
        assert!(matches!(files.refused(&files.path("docs")), SplitError::FileName { .. }));
    }
}

#[test]
fn the_wikipedia_introductions_give_311_864_blocks() {
    let Some(input) = shared("wiki/passages.tsv.gz") else { return };
    let files = Files::new();
    let out = files.path("blocks.tsv");
    let report = split(&input, &out, &SplitOptions::default(), &Silent).unwrap();
    assert_eq!((report.documents, report.blocks), (178_775, 311_864));
}

#[test]
fn a_document_has_at_most_64_mib_however_small_its_file_is() {
    let files = Files::new();
    let text = "word ".repeat((64 << 20) / 5 + 1);
    let error = files.refused(&files.write("documents/a.md.gz", gzip(text.as_bytes())));
    assert!(matches!(error, SplitError::Data(DataError::LongFile { .. })), "{error}");
    let error = error.to_string();
    assert!(error.contains("a.md.gz") && error.contains("64 MiB"), "{error}");
}
