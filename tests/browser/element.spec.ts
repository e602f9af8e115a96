import { open } from './support/element.ts';
import { expect, test } from './support/fixtures.ts';

test('the element works under a policy with trusted types, and a form gets the id of what was chosen, not the question', async ({ page, gateway }) => {
  const violations = await open(page, gateway);
  const field = page.getByRole('combobox', { name: 'Question' });
  await page.getByText('Question').click();
  await expect(field).toBeFocused();
  await page.keyboard.type('who won');
  await expect(page.getByRole('option')).toHaveCount(2);
  await expect(page.locator('dpr-search')).toMatchAriaSnapshot(`
    - combobox "Question" [expanded]
    - listbox "Question":
      - option "Firstone"
      - option "Second<b>two</b>"
    - status: 2 found
  `);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('option').nth(1)).toHaveAttribute('aria-selected', 'true');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('listbox')).toBeHidden();
  await expect(field).toHaveValue('Second');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.waitForURL(/blank/);
  expect(new URL(page.url()).search).toBe('?passage=b');
  // A browser without an adapter of WebGPU says so; nothing else may be said.
  expect(violations.filter((text) => !/WebGPU/.test(text))).toEqual([]);
});

test('a form that is sent before anything was chosen holds nothing of the element, and a reset empties it', async ({ page, gateway }) => {
  await open(page, gateway);
  const field = page.getByRole('combobox', { name: 'Question' });
  await field.fill('who won');
  await expect(page.getByRole('option')).toHaveCount(2);
  // The list lies over the buttons.
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Reset' }).click();
  await expect(field).toHaveValue('');
  await field.fill('who won');
  await expect(page.getByRole('option')).toHaveCount(2);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.waitForURL(/blank/);
  expect(new URL(page.url()).search).toBe('');
});

test('from right to left the title stands on the right; custom properties, parts and forced colours apply', async ({ page, gateway }) => {
  await open(page, gateway, 'dir="rtl"', ['ראשון', 'אחד שתיים']);
  await page.evaluate(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('dpr-search { --dpr-border: rgb(255, 0, 0) } dpr-search::part(status) { color: rgb(0, 0, 255) }');
    document.adoptedStyleSheets = [sheet];
  });
  const field = page.getByRole('combobox', { name: 'Question' });
  await field.fill('who won');
  await expect(page.getByRole('option')).toHaveCount(2);
  await page.keyboard.press('ArrowDown');
  const option = page.getByRole('option').first();
  const [title, text] = [await option.locator('[part=title]').boundingBox(), await option.locator('[part=text]').boundingBox()];
  expect(title!.x).toBeGreaterThan(text!.x);
  const [above, below] = [await field.boundingBox(), await page.getByRole('listbox').boundingBox()];
  expect(below!.y).toBeGreaterThanOrEqual(above!.y + above!.height);
  expect(Math.abs(below!.width - above!.width)).toBeLessThan(1);
  await expect(field).toHaveCSS('border-top-color', 'rgb(255, 0, 0)');
  await expect(page.locator('dpr-search [part=status]')).toHaveCSS('color', 'rgb(0, 0, 255)');
  await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'reduce' });
  await expect(option).toHaveCSS('outline-style', 'solid');
  await expect(page.getByRole('listbox')).toHaveCSS('transition-duration', '0s');
});
