/** What relative addresses are resolved against: the document's, or the worker's own; nothing on a server. */
export function pageAddress(): string | undefined {
  return globalThis.document?.baseURI ?? globalThis.location?.href;
}
