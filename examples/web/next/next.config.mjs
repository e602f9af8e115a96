// `dpr serve` on its usual port answers the searches; the page and the server then have one origin.
const server = process.env.DPR_URL ?? 'http://127.0.0.1:7878';

// A header, as Next puts its scripts before the tags of a page: addresses of pages may hold questions.
const headers = [{ key: 'Referrer-Policy', value: 'no-referrer' }];

export default {
  headers: async () => [{ source: '/:path*', headers }],
  rewrites: async () => [{ source: '/v1/:path*', destination: `${server}/v1/:path*` }],
};
