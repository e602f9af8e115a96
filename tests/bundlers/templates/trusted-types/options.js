const policy = trustedTypes.createPolicy('search-page', {
  createScriptURL: (address) => {
    if (new URL(address, location.href).origin !== location.origin) throw new TypeError(`not of this site: ${address}`);
    return address;
  },
});

export const options = {
  createWorker: (device) => new Worker(policy.createScriptURL(`./dpr-web/dist/cdn/worker-${device}.js`), { type: 'module' }),
};
