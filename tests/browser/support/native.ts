import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { repository } from './paths.ts';

/** A passage that `dpr search` finds. */
interface NativeHit {
  id: string;
  score: number;
}

/** A line of `dpr search --questions`. */
interface NativeLine {
  hits: NativeHit[];
  /** Of a search by buckets. */
  buckets?: number[];
}

/** The ids of the `k` passages that `dpr search` finds for each question, best first. */
export function nativeIds(questions: readonly string[], k: number): string[][] {
  const index = ['--index', repository('data/index', 'DPR_INDEX')];
  return nativeHits(questions, k, index).map((hits) => hits.map(({ id }) => id));
}

/** What `dpr search --privacy local` finds in a static site. */
export function localHits(questions: readonly string[], k: number, site: string): NativeHit[][] {
  return nativeHits(questions, k, ['--index', site, '--privacy', 'local']);
}

/** What `dpr search --privacy bucket` finds in a static site, and the buckets that it fetches, with a device's key. */
export function bucketLines(questions: readonly string[], k: number, site: string, key: string, probes: number, decoys: number): NativeLine[] {
  return nativeLines(questions, k, ['--index', site, '--privacy', 'bucket', '--device-key', key, '--probes', String(probes), '--decoys', String(decoys)]);
}

function nativeHits(questions: readonly string[], k: number, index: string[]): NativeHit[][] {
  return nativeLines(questions, k, index).map(({ hits }) => hits);
}

function nativeLines(questions: readonly string[], k: number, index: string[]): NativeLine[] {
  const folder = mkdtempSync(path.join(tmpdir(), 'dpr-questions-'));
  try {
    const file = path.join(folder, 'questions.txt');
    writeFileSync(file, questions.map((text) => `${text.trim()}\n`).join(''));
    const lines = execFileSync(
      repository('target/release/dpr', 'DPR_BIN'),
      [
        'search',
        ...['--model', repository('data/model', 'DPR_MODEL')],
        ...index,
        ...['--k', String(k), '--device', 'cpu', '--questions', file],
      ],
      { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] },
    );
    return lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as NativeLine);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
