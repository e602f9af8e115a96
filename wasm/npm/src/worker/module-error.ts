import type { DprWebErrorCode } from '../errors/dpr-web-error.js';

/** The module is not there, or is not the module. */
export class ModuleError extends Error {
  readonly code: DprWebErrorCode;
  readonly fix: string;

  constructor(message: string, fix?: string, code: DprWebErrorCode = 'wasm_not_loaded') {
    super(message);
    this.code = code;
    this.fix =
      fix ??
      'Check that this address answers with the file of that name in the folder `wasm` of dpr-web; ' +
        'if the file is elsewhere, say where with the option `wasmUrl`.';
  }
}
