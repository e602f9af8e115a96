// Nothing to configure.
export default {};
