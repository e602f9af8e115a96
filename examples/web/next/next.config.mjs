// `dpr serve` on its usual port answers the searches; the page and the server then have one origin.
const server = process.env.DPR_URL ?? 'http://127.0.0.1:7878';

export default {
  rewrites: async () => [{ source: '/v1/:path*', destination: `${server}/v1/:path*` }],
};
