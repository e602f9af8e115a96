/**
 * How much the server is shown of a question. `plain`: its vector. `blurred`: few coordinates with noise, at the level
 * `medium`. `local`: nothing, as there is no server: the index is downloaded, and searched in the page. `encrypted`:
 * nothing of it (experimental until it has been reviewed).
 */
export type Privacy = 'plain' | 'blurred' | 'local' | 'encrypted';

/** How much of a question `blurred` hides: 96 numbers with noise 0.3, 64 with 0.3, or 48 with 0.5. */
export type BlurLevel = 'light' | 'medium' | 'strong';

/** A mode with its options. */
export type PrivacyOptions =
  | { mode: 'plain' }
  | {
      mode: 'blurred';
      /** Default `medium`. A level that the server does not offer is an error. */
      level?: BlurLevel | undefined;
      /**
       * Where the secret is kept that the noise is made from: for this browser (`device`, the default), so that a
       * question asked again on another day is blurred alike, or until the page goes (`session`).
       */
      noiseMemory?: 'device' | 'session' | undefined;
    }
  | {
      /** Of a client that was made with the address of a `dpr-static.json`, and its only mode. */
      mode: 'local';
      /**
       * Which texts are downloaded before the first question: `all`, the default, or none, and then `packs` of those
       * that are found. Whoever hosts the files sees which packs are fetched. Of the client, not of a search.
       */
      texts?: 'all' | 'packs' | undefined;
      /** SHA-256 of `dpr-static.json`, the only one that is taken; another is a {@link ModelMismatchError}. */
      expectIndex?: string | undefined;
    }
  | {
      /** @experimental until it has been reviewed by somebody who did not write it */
      mode: 'encrypted';
      /** SHA-256 of the private tables, the only ones that are taken; others are a {@link VersionError}. */
      expectVersion?: string | undefined;
    };

/** A mode that a client can search in, and what it costs. */
export interface PrivacyMode {
  mode: Privacy;
  /** Levels of `blurred`. */
  levels?: BlurLevel[];
  /** Bytes that are downloaded before the first question, and kept. */
  onceBytes: number;
  /** Bytes of the bodies of one search, up and down; `undefined` where that is known only afterwards. */
  upBytes: number | undefined;
  downBytes: number | undefined;
  /** What the server sees of a question. */
  sees: string;
}

/** In which mode a search was done. */
export interface SearchPrivacy {
  mode: Privacy;
  /** What the server saw of the question, in a sentence. */
  sees: string;
}
