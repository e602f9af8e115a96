import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { standInPackage, temporaryFolder } from './stand-in.mjs';

function npm(folder, ...words) {
  const { status, stdout, stderr } = spawnSync('npm', words, { cwd: folder, encoding: 'utf8', shell: process.platform === 'win32' });
  return { status, said: stdout + stderr };
}

for (const [command, missing] of [
  ['pack', 'dist'],
  ['pack', 'wasm'],
  ['pack', 'wasm/webgpu/dpr_wasm_bg.wasm'],
  ['pack', 'wasm/relaxed/dpr_wasm_bg.wasm'],
  ['pack', 'THIRD_PARTY.txt'],
  ['publish --dry-run --offline', 'dist'],
  ['run tarball', 'dist'],
]) {
  test(`\`npm ${command}\` without ${missing} fails, names what is missing and says what to run`, (t) => {
    const folder = standInPackage(temporaryFolder(t));
    rmSync(path.join(folder, missing), { recursive: true });
    const { status, said } = npm(folder, ...command.split(' '));
    assert.notEqual(status, 0, said);
    assert.match(said, /dpr-web is not built/);
    assert.ok(said.includes(`./${missing}`), said);
    assert.match(said, /cargo xtask npm/);
  });
}

test('an empty file is as bad as none', (t) => {
  const folder = standInPackage(temporaryFolder(t));
  writeFileSync(path.join(folder, 'dist/worker/worker.js'), '');
  const { status, said } = npm(folder, 'pack');
  assert.notEqual(status, 0, said);
  assert.match(said, /worker\/worker\.js/);
});

test('the tarball of any version has one name and the code in it', (t) => {
  const folder = standInPackage(temporaryFolder(t));
  const manifest = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '7.8.9-rc.1' }));
  const { status, said } = npm(folder, 'run', 'tarball');
  assert.equal(status, 0, said);
  assert.ok(existsSync(path.join(folder, 'dpr-web.tgz')));
  const listed = npm(folder, 'pack', '--dry-run', '--json').said;
  for (const file of ['CHANGELOG.md', 'dist/index.js', 'dist/worker/worker-cpu.js', 'wasm/cpu/dpr_wasm_bg.wasm', 'wasm/relaxed/dpr_wasm_bg.wasm', 'wasm/webgpu/dpr_wasm.js', 'THIRD_PARTY.txt']) {
    assert.ok(listed.includes(`"${file}"`), file);
  }
});

test('the package\'s list of changes has its version', () => {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const changes = readFileSync(new URL('../CHANGELOG.md', import.meta.url), 'utf8');
  assert.match(changes.match(/^## .*$/m)[0], new RegExp(`\\b${version.replaceAll('.', '\\.')}\\b`));
});

test('the package asks for a Node that opens `deflate-raw`, which 20.12 brought', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  assert.deepEqual(engines, { node: '>=20.12' });
});
