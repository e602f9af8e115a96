/** The page's listener; what it throws is reported like an exception of an event listener, and stops nothing here. */
export function safely<T>(listener: ((event: T) => void) | undefined): (event: T) => void {
  return (event) => {
    try {
      listener?.(event);
    } catch (error) {
      // Node has no `reportError`.
      (globalThis.reportError ?? console.error)(error);
    }
  };
}
