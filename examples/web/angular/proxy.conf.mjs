// `dpr serve` on its usual port answers while `npm run dev` serves the page; `dpr serve --web dist/browser` serves both.
export default { '/v1': { target: process.env.DPR_URL ?? 'http://127.0.0.1:7878' } };
