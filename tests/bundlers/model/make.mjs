// Makes the files of this folder: the question encoder of tests/fixtures/dpr-tiny as a server offers it to pages.
//
//     node tests/bundlers/model/make.mjs      DPR_BIN names the program (default target/release/dpr)
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = path.resolve(here, '../../..');
const dpr = path.resolve(root, process.env.DPR_BIN ?? 'target/release/dpr');
const fixture = path.join(root, 'tests/fixtures/dpr-tiny');

const temporary = mkdtempSync(path.join(tmpdir(), 'dpr-bundlers-'));
const work = path.join(temporary, 'model');
try {
  const run = (...words) => execFileSync(dpr, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  run('import', '--question', path.join(fixture, 'question'), '--passage', path.join(fixture, 'ctx'), '--out', work);
  const { weights } = JSON.parse(run('export-web', '--model', work, '--json'));
  const model = JSON.parse(readFileSync(path.join(work, 'model.json'), 'utf8'));
  const place = (from, name, sha256) => {
    copyFileSync(path.join(work, from), path.join(here, name));
    return { url: `/v1/model/files/${sha256}/${name}`, bytes: statSync(path.join(here, name)).size, sha256 };
  };
  const text = (name) => place(`question_encoder/${name}`, name, model.files[`question_encoder/${name}`].sha256);
  const manifest = {
    format_version: 1,
    name: 'dpr-tiny',
    fingerprint: model.fingerprint,
    dim: model.dim,
    similarity: model.similarity,
    family: model.family,
    max_question_tokens: model.max_question_tokens,
    encoder: { config: text('config.json'), tokenizer: text('tokenizer.json') },
    weights: { q8: place(weights.q8.path, 'question_encoder.q8.safetensors', weights.q8.sha256) },
  };
  writeFileSync(path.join(here, 'manifest.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
