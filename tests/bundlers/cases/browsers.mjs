// The browsers that a case can be for; one that says nothing is for Chromium alone.

export const EVERY_BROWSER = ['chromium', 'firefox', 'webkit'];
