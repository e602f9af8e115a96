import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from '@playwright/test';
import type axe from 'axe-core';

const SCRIPT = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

declare global {
  interface Window {
    axe: typeof axe;
  }
}

/**
 * Returns what axe finds wrong with the page as it stands, a line for each element: every rule of WCAG 2.2 up to AA, and
 * axe's best practices.
 */
export async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(SCRIPT);
  return page.evaluate(async () => {
    // A colour that is on its way to another one is neither.
    for (const animation of document.getAnimations()) {
      if (Number.isFinite(animation.effect?.getComputedTiming().endTime)) animation.finish();
    }
    const { violations } = await window.axe.run(document, {
      resultTypes: ['violations'],
      // Off by default, and a part of WCAG 2.2 AA.
      rules: { 'target-size': { enabled: true } },
    });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} (${help}): ${target.join(' ')}: ${failureSummary?.replaceAll(/\s+/g, ' ')}`),
    );
  });
}

/** Returns the same in light and dark colours, from left to right and from right to left. */
export async function violationsInAll(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const direction of ['ltr', 'rtl']) {
      await page.evaluate((direction) => document.documentElement.setAttribute('dir', direction), direction);
      found.push(...(await violations(page)).map((line) => `${colorScheme}, ${direction}: ${line}`));
    }
  }
  return found;
}

/** Opens whatever the page has folded in. */
export async function openPanels(page: Page): Promise<void> {
  await page.locator('details:not([open])').evaluateAll((panels: HTMLDetailsElement[]) => {
    for (const panel of panels) panel.open = true;
  });
}
