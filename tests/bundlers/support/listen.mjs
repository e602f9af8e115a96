// An HTTP server on a free port of this machine that keeps what arrives.
import { createServer } from 'node:http';

/** Calls `answer(request, response, body)` for each request; closes with `stop`. */
export async function listen(answer) {
  const requests = [];
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      requests.push({
        what: `${request.method} ${request.url}`,
        head: request.rawHeaders.join('\n'),
        body: body.toString('latin1'),
      });
      answer(request, response, body);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, requests, stop };
}
