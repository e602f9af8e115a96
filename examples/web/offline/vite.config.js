import { defineConfig } from 'vite';

/** Tells the service worker which files the build has. The module for WebGPU, the largest of them, stays out. */
const fileList = {
  name: 'file-list',
  enforce: 'post',
  generateBundle(_options, bundle) {
    const files = Object.keys(bundle).filter((name) => /^assets\/.*\.(js|css|wasm)$/.test(name));
    const assets = files.filter((name) => !isForWebGpu(bundle[name])).map((name) => `/${name}`);
    const worker = bundle['service-worker.js'];
    worker.code = `self.assets = ${JSON.stringify(assets)};\n${worker.code}`;
  },
};

const isForWebGpu = ({ fileName, originalFileNames = [] }) =>
  /worker-webgpu/.test(fileName) || originalFileNames.some((name) => name.includes('wasm/webgpu/'));

export default defineConfig({
  plugins: [fileList],
  build: {
    assetsInlineLimit: 0,
    rollupOptions: {
      input: ['index.html', 'service-worker.js'],
      output: { entryFileNames: ({ name }) => (name === 'service-worker' ? '[name].js' : 'assets/[name]-[hash].js') },
    },
  },
});
