import { keepOffline } from 'dpr-web/service-worker';

// The client keeps the index and its encoder itself. `self.assets` are the files of the build: see vite.config.js.
const files = keepOffline({ server: null, assets: self.assets, pages: ['/'] });
self.addEventListener('install', (event) => event.waitUntil(files.install()));
self.addEventListener('activate', (event) => event.waitUntil(files.activate()));
self.addEventListener('fetch', (event) => files.fetch(event));
