/**
 * A question as models are trained on it, and as the server reads one that is typed there: without blanks around it,
 * and with `'` for the apostrophe U+2019, which keyboards of telephones type.
 */
export const typedQuestion = (text: string): string => text.trim().replaceAll('\u2019', "'");
