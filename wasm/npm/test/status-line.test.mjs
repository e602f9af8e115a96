// The line of the search page under its search box.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';
import { Window } from 'happy-dom';

const file = (name) => fileURLToPath(new URL(name, import.meta.url));

/** A new line, what it says, and whether its bar is shown. */
async function statusLine(t) {
  const { document } = new Window();
  document.body.innerHTML =
    '<p id=state><i class=dot></i><span id=state-text></span></p><progress id=download></progress><p id=notice></p><div id=error></div><input id=question>';
  Object.assign(globalThis, { document, matchMedia: () => ({ matches: false }) });
  t.after(() => {
    delete globalThis.document;
    delete globalThis.matchMedia;
  });
  const { outputFiles } = await esbuild.build({
    entryPoints: [file('../../../web-demo/src/status.ts')],
    bundle: true,
    format: 'esm',
    write: false,
    alias: { 'dpr-web': file('../dist/index.js') },
    tsconfigRaw: {},
  });
  const { StatusLine } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
  const line = new StatusLine();
  line.reset();
  const says = () => [document.getElementById('state-text').textContent, !document.getElementById('download').hidden];
  return { line, says };
}

test('while a search opens a static index, the line goes on with its download when its encoder is ready', async (t) => {
  const { line, says } = await statusLine(t);
  const ready = 'Ready. Questions are encoded on the CPU, with 8-bit weights.';
  line.progress({ status: 'ready', device: 'cpu', dtype: 'q8' });
  assert.deepEqual(says(), [ready, false]);
  line.searching(true);
  for (const file of ['codes', 'texts']) line.progress({ status: 'download', file, total: 2e6, resumedAt: 0 });
  line.progress({ status: 'progress', file: 'codes', loaded: 1e6, total: 2e6 });
  const downloading = says();
  assert.match(downloading[0], /^Downloading what this search needs, once: 1\.0 .* of 4\.0/);
  line.progress({ status: 'ready', device: 'webgpu', dtype: 'q4' });
  assert.deepEqual(says(), downloading);
  line.progress({ status: 'done', file: 'codes', total: 2e6, source: 'network' });
  // The other is not there yet.
  assert.equal(says()[1], true);
  line.progress({ status: 'done', file: 'texts', total: 2e6, source: 'network' });
  assert.deepEqual(says(), ['Searching…', false]);
  line.searching(false);
  assert.deepEqual(says(), [ready, false]);
});

test('the line tells of another device where the page\'s encoder goes on with it', async (t) => {
  const { line, says } = await statusLine(t);
  line.progress({ status: 'ready', device: 'webgpu', dtype: 'q8' });
  line.progress({ status: 'ready', device: 'cpu', dtype: 'q8', change: { from: 'webgpu', to: 'cpu', reason: 'lost' } });
  assert.deepEqual(says(), ['Ready. Questions are encoded on the CPU, with 8-bit weights.', false]);
});
