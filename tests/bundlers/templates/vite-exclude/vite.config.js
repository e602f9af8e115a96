export default { optimizeDeps: { exclude: ['dpr-web'] } };
