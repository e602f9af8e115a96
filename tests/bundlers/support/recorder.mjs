// An HTTP proxy on this machine that keeps what a browser sends, whoever of the page or its workers sends it.
import { createServer, request as send } from 'node:http';
import { connect } from 'node:net';
import { pipeline } from 'node:stream';

/** The header that a request has once it was kept: one without it went around the proxy. */
export const RECORDED = 'x-recorded';

const isHere = (host) => host === '127.0.0.1';

/**
 * Starts a proxy. `requests` gets each HTTP request, and `tunnels` the host and port of each socket. Nothing is passed
 * on to another machine: `elsewhere` gets what was meant for one.
 */
export async function startRecorder() {
  const [requests, tunnels, elsewhere] = [[], [], []];
  const proxy = createServer((request, response) => {
    const { hostname, port } = new URL(request.url);
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const kept = {
        what: `${request.method} ${request.url}`,
        head: request.rawHeaders.join('\n'),
        headers: request.headers,
        body: body.toString('latin1'),
      };
      requests.push(kept);
      if (!isHere(hostname)) {
        elsewhere.push(kept.what);
        return response.writeHead(502).end();
      }
      passOn(request, body, { hostname, port }, response);
    });
  });
  proxy.on('connect', (request, socket) => {
    const [host, port] = request.url.split(':');
    requests.push({ what: `CONNECT ${request.url}`, head: request.rawHeaders.join('\n'), headers: request.headers, body: '' });
    socket.on('error', () => socket.destroy());
    if (!isHere(host)) {
      elsewhere.push(request.url);
      return socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    }
    tunnels.push(request.url);
    const other = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      other.pipe(socket).pipe(other);
    });
    other.on('error', () => socket.destroy());
    socket.on('close', () => other.destroy());
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const stop = () => {
    proxy.closeAllConnections();
    return new Promise((resolve) => proxy.close(resolve));
  };
  return { address: `127.0.0.1:${proxy.address().port}`, requests, tunnels, elsewhere, stop };
}

/** Sends a request on to a server of this machine, and its answer back as it comes. */
function passOn({ method, url, headers }, body, { hostname, port }, response) {
  const path = url.slice(new URL(url).origin.length);
  const kept = { ...headers, [RECORDED]: '1' };
  delete kept['proxy-connection'];
  const onward = send({ hostname, port: port || 80, method, path, headers: kept }, (answer) => {
    response.writeHead(answer.statusCode, answer.rawHeaders);
    // An answer that breaks off breaks off for the browser too.
    pipeline(answer, response, () => undefined);
  });
  onward.on('error', () => response.destroy());
  response.on('close', () => onward.destroy());
  onward.end(body);
}
