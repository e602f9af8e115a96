// Nothing to configure.
export const options = {};
