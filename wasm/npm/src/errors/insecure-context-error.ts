import { DprWebError } from './dpr-web-error.js';

/** The page is not a secure context, so the browser offers no `crypto.subtle` to check files with. */
export class InsecureContextError extends DprWebError {
  override readonly name = 'InsecureContextError';

  constructor() {
    super(
      'model files cannot be checked here: crypto.subtle needs a secure context',
      'Serve the page over https://, or open it as http://localhost.',
      'insecure_context',
    );
  }
}
