/** The value of a metadata field. */
export type MetadataValue = string | number | boolean;

/** The metadata of a passage: named strings, numbers and booleans. */
export type Metadata = Record<string, MetadataValue>;

/** One bound or two: `gt` or `gte`, `lt` or `lte`. */
export type Bounds<T> =
  | { gt: T; gte?: never; lt?: T; lte?: never }
  | { gt: T; gte?: never; lt?: never; lte?: T }
  | { gt?: never; gte: T; lt?: T; lte?: never }
  | { gt?: never; gte: T; lt?: never; lte?: T }
  | { gt?: never; gte?: never; lt: T; lte?: never }
  | { gt?: never; gte?: never; lt?: never; lte: T };

/**
 * A comparison of one metadata field. A passage without the field fails it.
 *
 * @example { field: 'lang', eq: 'en' }
 * @example { field: 'year', in: [2020, 2021] }
 * @example { field: 'year', gte: 2000, lt: 2010 }
 */
export type Comparison = { field: string } & ({ eq: MetadataValue } | { in: MetadataValue[] } | Bounds<number> | Bounds<string>);

/**
 * A condition on the metadata of passages: a comparison, or others combined. At most 16 conditions deep, with at most 256
 * comparisons of at most 1000 values together. Strings are ordered by their UTF-8 bytes.
 *
 * @example { and: [{ field: 'lang', eq: 'en' }, { not: { field: 'draft', eq: true } }] }
 */
export type Condition = Comparison | { not: Condition } | { and: Condition[] } | { or: Condition[] };
