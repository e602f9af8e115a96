import { createServer } from 'node:http';
import { fileOf, someBytes } from '../helpers.mjs';

export const FILES = { config: someBytes(10), tokenizer: someBytes(20), q8: someBytes(30), f32: someBytes(90) };

/** The manifest of a model whose files have these addresses. */
export function manifest(url) {
  const { config, tokenizer, ...weights } = Object.fromEntries(Object.entries(FILES).map(([name, bytes]) => [name, fileOf(bytes, url(name, fileOf(bytes).sha256))]));
  return { format_version: 1, name: 'tiny', fingerprint: 'f'.repeat(64), dim: 4, similarity: 'dot', family: 'bert', max_question_tokens: 64, encoder: { config, tokenizer }, weights };
}

/** A server of the model, which counts what it is asked for. */
export async function modelServer(t, change = (body) => body) {
  const asked = [];
  const http = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const name = request.url.split('/').pop();
    if (name === 'model') response.end(JSON.stringify(change(manifest((name, sha256) => `/v1/model/files/${sha256}/${name}`))));
    else if (name === 'search') request.resume().on('end', () => response.end(JSON.stringify({ hits: [{ id: '7', score: 1, title: 'Found', text: 'a passage' }], took_ms: 1 })));
    else response.end(FILES[name]);
  });
  await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
  t.after(() => http.close());
  return { asked, url: `http://127.0.0.1:${http.address().port}/` };
}
