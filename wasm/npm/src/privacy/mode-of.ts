import type { Privacy, PrivacyOptions } from '../types/privacy.js';

/** The mode that an option names, whatever it is; `plain` where there is none. */
export const modeOf = (given: Privacy | PrivacyOptions | undefined): Privacy =>
  (given as PrivacyOptions | undefined)?.mode ?? (given as Privacy | undefined) ?? 'plain';
