// A header, as Next puts its scripts before the tags of a page: addresses of pages may hold questions.
const headers = [{ key: 'Referrer-Policy', value: 'no-referrer' }];

export default { headers: async () => [{ source: '/:path*', headers }] };
