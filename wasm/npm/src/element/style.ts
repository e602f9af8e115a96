/**
 * Logical properties alone, for both directions of writing; the page chooses by custom properties. Nothing moves, so
 * there is nothing to leave out for those who want no motion.
 */
const CSS =
  ':host{display:block;position:relative;color:var(--dpr-color,CanvasText)}' +
  ':host([hidden]){display:none}' +
  'input,ul{box-sizing:border-box;inline-size:100%;font:inherit;color:inherit;background:var(--dpr-background,Canvas);border:1px solid var(--dpr-border,GrayText);border-radius:var(--dpr-radius,4px)}' +
  'input,li{display:block;padding:var(--dpr-padding,8px)}' +
  'ul{position:absolute;z-index:1;padding:0;margin:4px 0;max-block-size:var(--dpr-height,60vh);overflow:auto}' +
  '[aria-selected=true]{outline:2px solid var(--dpr-accent,Highlight);outline-offset:-2px}' +
  'b{margin-inline-end:.5em}';

/** Styles the root. A sheet that is adopted needs no `unsafe-inline` in a policy. */
export function style(root: ShadowRoot): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  root.adoptedStyleSheets = [sheet];
}
