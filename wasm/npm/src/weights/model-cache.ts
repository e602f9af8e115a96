import type { DtypeChoice } from '../types/device.js';
import type { ModelManifest } from '../types/manifest.js';
import { clearModelCache } from './clear-model-cache.js';
import { fileKey } from './file-cache.js';
import { openCache } from './open-cache.js';
import { chooseDtype } from './choose-dtype.js';
import { readNotes, removeUnnamed } from './old-models.js';

/** A model that the browser keeps for this origin. */
export interface CachedModel {
  /** Fingerprint of the model: a server's own encoder and its small one have the same. */
  fingerprint: string;
  name: string;
  /** What its files take, in bytes. Models may share files. */
  bytes: number;
  lastUsed: Date;
}

/**
 * The models that the browser keeps for this origin. Where it blocks storage there are none.
 *
 * @example
 * const manifest = await (await fetch('/v1/model')).json();
 * if (navigator.connection?.saveData && !(await modelCache.has(manifest))) askBeforeLoading();
 */
export const modelCache = {
  /**
   * The models, the one that was used last first. A model that was last used by an earlier release of this package is
   * missing.
   */
  async list(): Promise<CachedModel[]> {
    const cache = await openCache();
    if (!cache) return [];
    const models = new Map<string, CachedModel>();
    for (const { manifest, files, usedAt } of (await readNotes(cache)).sort((a, b) => a.usedAt - b.usedAt)) {
      if (!manifest) continue;
      const { fingerprint, name } = manifest;
      const found = await Promise.all(files.map((file) => cache.match(fileKey(file))));
      const bytes = found.reduce((sum, file) => sum + Number(file?.headers.get('content-length') ?? 0), 0);
      // The note of a model of which no file is kept yet: its download has just begun.
      if (bytes === 0) continue;
      // A server's own encoder and its small one have one fingerprint.
      const key = `${fingerprint} ${manifest.encoder.config.sha256}`;
      models.set(key, { fingerprint, name, bytes, lastUsed: new Date(usedAt) });
    }
    return [...models.values()].sort((a, b) => b.lastUsed.getTime() - a.lastUsed.getTime());
  },

  /**
   * Whether everything is here that loading this model takes, with weights of this format.
   *
   * @throws {@link ManifestError} when the model does not offer the format
   */
  async has(manifest: ModelManifest, dtype: DtypeChoice = 'auto'): Promise<boolean> {
    const weights = manifest.weights[chooseDtype(dtype, 'auto', manifest)]!;
    const cache = await openCache();
    const { config, tokenizer, vocabulary } = manifest.encoder;
    const files = [config, vocabulary ?? tokenizer, weights];
    const found = await Promise.all(files.map(({ sha256 }) => cache?.match(fileKey(sha256))));
    return found.every((response) => response !== undefined);
  },

  /**
   * Deletes the models with this fingerprint, as a server's own encoder and its small one, without the files that other
   * models share with them.
   *
   * @returns whether there was one
   */
  async delete(fingerprint: string): Promise<boolean> {
    const cache = await openCache();
    if (!cache) return false;
    const notes = await readNotes(cache);
    const isIt = ({ manifest }: { manifest?: ModelManifest }) => manifest?.fingerprint === fingerprint;
    const its = notes.filter(isIt);
    if (its.length === 0) return false;
    await Promise.all(its.map(({ key }) => cache.delete(key)));
    await removeUnnamed(cache, notes.filter((note) => !isIt(note)));
    return true;
  },

  /** Deletes every model. */
  clear: clearModelCache,

  /**
   * Asks the browser not to delete models when the disk is nearly full, and returns whether it agrees. Browsers may ask
   * the user.
   */
  async persist(): Promise<boolean> {
    return (await (globalThis.navigator as Partial<Navigator> | undefined)?.storage?.persist?.()) ?? false;
  },
};
