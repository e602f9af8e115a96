/**
 * How much the server is shown of a question. `plain`: its vector. `blurred`: few coordinates with noise, at the level
 * `medium`. `local`: nothing, as there is no server: the index is downloaded, and searched in the page. `bucket`: the
 * host of a static index sees which of its buckets are fetched, some of them decoys. `encrypted`: nothing of it
 * (experimental until it has been reviewed).
 */
export type Privacy = 'plain' | 'blurred' | 'local' | 'bucket' | 'encrypted';

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
       * question asked again on another day is blurred alike, or until the page goes (`session`; everywhere where there
       * is no `localStorage`, as in a worker).
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
      /**
       * Of a client that was made with the address of a `dpr-static.json` that has buckets, and its only mode. The same
       * buckets are fetched whenever this browser asks about the same thing.
       */
      mode: 'bucket';
      /** Buckets that the question is about. Default 4. */
      probes?: 1 | 2 | 4 | 8 | undefined;
      /** Buckets that it is not about: a multiple of `probes`, up to 64. Default as many as `probes`. */
      decoys?: number | undefined;
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
