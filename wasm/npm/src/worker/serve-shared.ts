import type { Device } from '../types/device.js';
import { Engine, messageOf, type Post } from './engine.js';
import { hello, type Command, type Presence, type Work } from './protocol.js';
import type { WasmModule } from './wasm-module.js';

/** A page that goes to the next one finds the engine still there; in milliseconds. */
const GRACE = 1000;

interface Port {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  onmessage: ((event: { data: Command | Presence }) => void) | null;
}

/** What a shared worker's global scope has, as far as it is used here. */
export interface SharedScope {
  onconnect: ((event: { ports: readonly Port[] }) => void) | null;
  close(): void;
  setTimeout(work: () => void, milliseconds: number): unknown;
  navigator?: { locks?: { request(name: string, work: () => void): Promise<unknown> } };
  addEventListener?(type: 'error', listener: (event: ErrorEvent) => void): void;
  addEventListener?(type: 'unhandledrejection', listener: (event: PromiseRejectionEvent) => void): void;
}

/** A client in some tab: its port, and the model that it uses. */
interface Client {
  post: Post;
  model?: string;
}

/**
 * Answers the commands of every tab that connects, with these modules: one engine, one encoder for each model. In a
 * shared worker only: importing an entry elsewhere does nothing.
 *
 * A client sends one command at a time and waits for its answer, so the queue has at most one place for each: they take
 * turns. One that leaves, or whose tab is gone, gives its place up; after the last one the worker ends.
 */
export function serveShared(
  offered: Partial<Record<Device, WasmModule>>,
  scope = globalThis as unknown as SharedScope,
): void {
  if (!('onconnect' in scope)) return;
  const clients = new Set<Client>();
  const waiting: { client: Client; command: Work }[] = [];
  let current: Client | undefined;

  const fatal = (message: string) => {
    for (const client of clients) client.post({ type: 'fatal', message, isBystander: client !== current });
    scope.close();
  };
  const engine = new Engine(offered, fatal);

  const work = async () => {
    if (current) return;
    for (let job = waiting.shift(); job; job = waiting.shift()) {
      const { client, command } = job;
      if (!clients.has(client)) continue;
      current = client;
      const alive = () => waiting.forEach(({ client }) => client.post({ type: 'alive' }));
      alive();
      if (command.type === 'find') client.model = command.model;
      await engine.run(command, (message, transfer) => {
        client.post(message, transfer);
        // Those behind wait for the same work.
        if (message.type === 'alive') alive();
      });
    }
    current = undefined;
    tidy();
  };
  const tidy = () => {
    if (!current) engine.keep(new Set([...clients].map(({ model }) => model)));
  };
  const leave = (client: Client) => {
    if (!clients.delete(client)) return;
    tidy();
    if (clients.size > 0) return;
    scope.setTimeout(() => {
      if (clients.size === 0) scope.close();
    }, GRACE);
  };

  scope.onconnect = ({ ports }) => {
    const port = ports[0]!;
    const client: Client = { post: (message, transfer = []) => port.postMessage(message, transfer) };
    clients.add(client);
    port.onmessage = ({ data }) => {
      switch (data.type) {
        case 'hello':
          client.post(hello());
          break;
        case 'join':
          // Granted when the tab is closed, reloaded or has crashed.
          void scope.navigator?.locks?.request(data.lock, () => leave(client));
          break;
        case 'leave':
          leave(client);
          break;
        default:
          waiting.push({ client, command: data });
          void work();
      }
    };
  };
  scope.addEventListener?.('error', (event) => fatal(event.message));
  scope.addEventListener?.('unhandledrejection', (event) => fatal(messageOf(event.reason)));
}
