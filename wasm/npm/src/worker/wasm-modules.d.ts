// The modules are built by `cargo xtask npm`; their types are in wasm-module.ts, so that the
// TypeScript sources compile, and their published types are complete, without them.
declare module '*/wasm/webgpu/dpr_wasm.js' {
  const init: import('./wasm-module.js').WasmModule['init'];
  export default init;
  export const EncoderBuilder: import('./wasm-module.js').WasmModule['EncoderBuilder'];
  export const QuestionEncoder: import('./wasm-module.js').WasmModule['QuestionEncoder'];
  export const Reader: import('./wasm-module.js').WasmModule['Reader'];
  export const CrossEncoder: import('./wasm-module.js').WasmModule['CrossEncoder'];
}
declare module '*/wasm/cpu/dpr_wasm.js' {
  const init: import('./wasm-module.js').WasmModule['init'];
  export default init;
  export const EncoderBuilder: import('./wasm-module.js').WasmModule['EncoderBuilder'];
  export const QuestionEncoder: import('./wasm-module.js').WasmModule['QuestionEncoder'];
  export const Reader: import('./wasm-module.js').WasmModule['Reader'];
  export const CrossEncoder: import('./wasm-module.js').WasmModule['CrossEncoder'];
  export const BucketIndex: NonNullable<import('./wasm-module.js').WasmModule['BucketIndex']>;
  export const LocalIndex: NonNullable<import('./wasm-module.js').WasmModule['LocalIndex']>;
}
